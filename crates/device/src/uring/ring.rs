//! An `io_uring`, and the loop that submits a batch and waits for its completions.
//!
//! A module with `unsafe`: the kernel gets pointers to the memory of the segments and to the vectors that list them. Both belong to the
//! [`Batch`], which is borrowed for the whole of [`Ring::run`]; that function neither returns nor unwinds before the kernel
//! has completed every submitted operation.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, squeue, types};

use super::batch::{UringBatch, UringDirection};
use crate::syscalls::count_syscall;

/// The most operations in flight.
pub(super) const DEPTH: usize = 256;

/// The most bytes of one operation; the kernel itself stops a little below 2 GiB.
const MAX_BYTES: usize = 1 << 30;

/// The descriptors of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingFiles<'a> {
    pub(super) buffered: BorrowedFd<'a>,
    pub(super) direct: Option<BorrowedFd<'a>>,
}

/// A ring of the kernel, used by one thread at a time. Between two runs it is empty.
pub(super) struct IoRing {
    kernel: IoUring,
    /// The process that made it: after a fork, parent and child must not fill the same ring.
    process: u32,
    /// The kernel has refused to enter it; it may have entries that must not be submitted.
    broken: bool,
}

impl std::fmt::Debug for IoRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("process", &self.process)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

impl IoRing {
    /// A new ring, if the kernel allows one and has the read and write operations.
    pub(super) fn new() -> io::Result<Self> {
        let kernel = IoUring::new(DEPTH as u32)?;
        let mut probe = Probe::new();
        kernel.submitter().register_probe(&mut probe)?;
        let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Readv::CODE, opcode::Writev::CODE];
        if !needed.into_iter().all(|code| probe.is_supported(code)) {
            return Err(io::Error::other("the kernel lacks its read and write operations"));
        }
        Ok(Self { kernel, process: std::process::id(), broken: false })
    }

    /// Whether it can be used, by this process.
    pub(super) fn is_fit(&self) -> bool {
        !self.broken && self.process == std::process::id()
    }

    /// Submits the batch and waits for it; [`Batch::progress`] then has the result.
    pub(super) fn run(&mut self, files: RingFiles<'_>, batch: &mut UringBatch<'_>) {
        let mut flight = InFlightOperations { ring: self, handed: 0 };
        loop {
            while flight.handed < DEPTH
                && let Some(index) = batch.next()
            {
                flight.push(&entry(files, batch, index));
            }
            if flight.handed == 0 {
                return;
            }
            // Waiting for half of them keeps the other half busy while the ring is filled again.
            let wait = if batch.is_handed_out() { flight.handed } else { flight.handed.div_ceil(2) };
            if !flight.enter(wait) {
                flight.ring.broken = true;
                flight.wait_all(Some(batch));
                return;
            }
            flight.reap(Some(batch));
        }
    }
}

/// Submitted operations without a completion. Dropping it waits for them.
struct InFlightOperations<'a> {
    ring: &'a mut IoRing,
    handed: usize,
}

impl InFlightOperations<'_> {
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the memory of the entry lives until its completion: see the module documentation.
        let pushed = unsafe { self.ring.kernel.submission().push(entry) };
        // There is space, as no more entries than the depth of the ring are pushed.
        debug_assert!(pushed.is_ok());
        self.handed += usize::from(pushed.is_ok());
    }

    /// Submits the pushed entries and waits for `wait` completions, or fewer if interrupted by a signal. False if the kernel refuses.
    fn enter(&mut self, wait: usize) -> bool {
        count_syscall();
        match self.ring.kernel.submit_and_wait(wait) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        }
    }

    /// Processes all available completions.
    fn reap(&mut self, mut batch: Option<&mut UringBatch<'_>>) {
        for completion in self.ring.kernel.completion() {
            self.handed -= 1;
            if let Some(batch) = &mut batch {
                batch.complete(completion.user_data() as usize, completion.result());
            }
        }
    }

    /// Waits, without entering the ring again, for the completions of all entries that the kernel took. It takes no more entries:
    /// the kernel reads a ring only when it is entered, and a broken one is not entered.
    fn wait_all(&mut self, mut batch: Option<&mut UringBatch<'_>>) {
        loop {
            self.reap(batch.as_deref_mut());
            if self.handed <= self.ring.kernel.submission().len() {
                self.handed = 0;
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Drop for InFlightOperations<'_> {
    fn drop(&mut self) {
        if self.handed > 0 {
            self.ring.broken = true;
            self.wait_all(None);
        }
    }
}

/// The operation for a job.
fn entry(files: RingFiles<'_>, batch: &UringBatch<'_>, index: usize) -> squeue::Entry {
    let (job, memory) = batch.job(index);
    let file = files.direct.filter(|_| job.direct).unwrap_or(files.buffered);
    let file = types::Fd(file.as_raw_fd());
    let entry = match (batch.direction, memory) {
        (UringDirection::Read, [one]) => {
            opcode::Read::new(file, one.iov_base.cast(), length(one)).offset(job.offset).build()
        }
        (UringDirection::Write, [one]) => {
            opcode::Write::new(file, one.iov_base.cast_const().cast(), length(one)).offset(job.offset).build()
        }
        (UringDirection::Read, many) => {
            opcode::Readv::new(file, many.as_ptr(), many.len() as u32).offset(job.offset).build()
        }
        (UringDirection::Write, many) => {
            opcode::Writev::new(file, many.as_ptr(), many.len() as u32).offset(job.offset).build()
        }
    };
    entry.user_data(index as u64)
}

fn length(memory: &libc::iovec) -> u32 {
    memory.iov_len.min(MAX_BYTES) as u32
}

#[cfg(test)]
mod tests {
    use std::mem::ManuallyDrop;
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};

    use super::*;
    use crate::Segment;
    use crate::ufs::vectored::TransferProgress;

    #[test]
    fn a_broken_ring_completes_all_entries_and_is_not_reused() {
        let Ok(mut ring) = IoRing::new() else { return };
        let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
        // SAFETY: the number stays that of an open descriptor, owned by the ring; ours is never dropped.
        let mut number = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(ring.kernel.as_raw_fd()) });
        rustix::io::dup2(&null, &mut number).unwrap();

        let segments = [Segment::new(0, b"ab"), Segment::new(9, b"cd")];
        let mut batch = UringBatch::write(&segments, false);
        ring.run(RingFiles { buffered: null.as_fd(), direct: None }, &mut batch);
        assert_eq!(batch.progress(), TransferProgress::default());
        assert!(!ring.is_fit());
    }

    #[test]
    fn a_ring_is_empty_between_two_runs() {
        let Ok(mut ring) = IoRing::new() else { return };
        let file = tempfile::tempfile().unwrap();
        let files = RingFiles { buffered: file.as_fd(), direct: None };
        for _ in 0..2 {
            let segments: Vec<_> = (0..600).map(|index| Segment::new(index * 10, b"abcd")).collect();
            let mut batch = UringBatch::write(&segments, false);
            ring.run(files, &mut batch);
            assert_eq!(batch.progress(), TransferProgress { done: 2400, stop: None });
            assert!(
                ring.is_fit() && ring.kernel.submission().is_empty() && ring.kernel.completion().is_empty()
            );
        }
    }
}
