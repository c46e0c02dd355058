//! Lists of segments through positioned system calls.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, pread, preadv, pwrite, pwritev};

use crate::syscalls::count_syscall;
use crate::{Segment, SegmentMut, coalesce};

/// The progress of a transfer, and the error that ended it, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransferProgress {
    pub(crate) done: u64,
    pub(crate) stop: Option<Errno>,
}

impl TransferProgress {
    /// Adds the next part; true if all `size` bytes of it were transferred.
    pub(crate) fn add(&mut self, next: TransferProgress, size: u64) -> bool {
        self.done += next.done;
        self.stop = next.stop;
        next.stop.is_none() && next.done == size
    }
}

/// Reads a list up to its end or the first end of file.
pub(crate) fn read(file: BorrowedFd<'_>, segments: &mut [SegmentMut<'_>]) -> TransferProgress {
    if segments.len() == 1 {
        return read_run(file, segments[0].offset, segments);
    }
    let (mut progress, mut from) = (TransferProgress::default(), 0);
    while let Some(run) = coalesce::next_run(segments, from) {
        from = run.segments.end;
        if !progress.add(read_run(file, run.offset, &mut segments[run.segments]), run.size) {
            break;
        }
    }
    progress
}

/// Writes a list.
pub(crate) fn write(file: BorrowedFd<'_>, segments: &[Segment<'_>]) -> TransferProgress {
    if let [segment] = segments {
        return write_run(file, segment.offset, segments);
    }
    let (mut progress, mut from) = (TransferProgress::default(), 0);
    while let Some(run) = coalesce::next_run(segments, from) {
        from = run.segments.end;
        if !progress.add(write_run(file, run.offset, &segments[run.segments]), run.size) {
            break;
        }
    }
    progress
}

/// Reads adjacent segments from `offset` on.
pub(crate) fn read_run(
    file: BorrowedFd<'_>,
    offset: u64,
    segments: &mut [SegmentMut<'_>],
) -> TransferProgress {
    if let [segment] = segments {
        let size = segment.bytes.len();
        return repeat(size, |done| pread(file, &mut segment.bytes[done..], offset + done as u64));
    }
    let mut slices: Vec<_> = segments.iter_mut().map(|segment| IoSliceMut::new(segment.bytes)).collect();
    let size = slices.iter().map(|slice| slice.len()).sum();
    let (mut rest, mut before) = (&mut slices[..], 0);
    repeat(size, |done| {
        IoSliceMut::advance_slices(&mut rest, done - std::mem::replace(&mut before, done));
        preadv(file, rest, offset + done as u64)
    })
}

/// Writes adjacent segments from `offset` on.
pub(crate) fn write_run(file: BorrowedFd<'_>, offset: u64, segments: &[Segment<'_>]) -> TransferProgress {
    if let [segment] = segments {
        return repeat(segment.bytes.len(), |done| {
            pwrite(file, &segment.bytes[done..], offset + done as u64)
        });
    }
    let mut slices: Vec<_> = segments.iter().map(|segment| IoSlice::new(segment.bytes)).collect();
    let size = slices.iter().map(|slice| slice.len()).sum();
    let (mut rest, mut before) = (&mut slices[..], 0);
    repeat(size, |done| {
        IoSlice::advance_slices(&mut rest, done - std::mem::replace(&mut before, done));
        pwritev(file, rest, offset + done as u64)
    })
}

/// Repeats `call` with what is done until that is `size`, it transfers nothing, or it fails with something else than an interruption.
fn repeat(size: usize, mut call: impl FnMut(usize) -> Result<usize, Errno>) -> TransferProgress {
    let mut done = 0;
    let mut stop = None;
    while done < size && stop.is_none() {
        count_syscall();
        match call(done) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(Errno::INTR) => {}
            Err(errno) => stop = Some(errno),
        }
    }
    TransferProgress { done: done as u64, stop }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_repeat_over_interruptions_and_short_counts() {
        let mut answers = [Ok(3), Err(Errno::INTR), Ok(4), Ok(3)].into_iter();
        let mut seen = Vec::new();
        let progress = repeat(10, |done| {
            seen.push(done);
            answers.next().unwrap()
        });
        assert_eq!((progress, seen), (TransferProgress { done: 10, stop: None }, vec![0, 3, 3, 7]));
    }

    #[test]
    fn steps_end_at_the_end_of_file_and_at_errors() {
        let mut answers = [Ok(3), Ok(0)].into_iter();
        assert_eq!(repeat(10, |_| answers.next().unwrap()), TransferProgress { done: 3, stop: None });
        let mut answers = [Ok(3), Err(Errno::NOSPC)].into_iter();
        assert_eq!(
            repeat(10, |_| answers.next().unwrap()),
            TransferProgress { done: 3, stop: Some(Errno::NOSPC) }
        );
    }
}
