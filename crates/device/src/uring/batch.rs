//! The progress of a list through a ring: waiting, submitted and completed runs.

use std::marker::PhantomData;
use std::ops::Range;

use rustix::io::Errno;

use crate::aligned_buffer::is_aligned;
use crate::ufs::vectored::TransferProgress;
use crate::{Segment, SegmentMut, SegmentRange, coalesce};

/// Read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UringDirection {
    Read,
    Write,
}

/// One run of the list.
#[derive(Debug)]
pub(super) struct UringOperation {
    /// What is left of its memory, as a range of the batch's.
    pub(super) memory: Range<usize>,
    /// The file offset of the rest.
    pub(super) offset: u64,
    /// True if it may bypass the page cache.
    pub(super) direct: bool,
    size: u64,
    progress: TransferProgress,
}

/// All runs of a list. It borrows the memory of the segments.
#[derive(Debug)]
pub(super) struct UringBatch<'a> {
    pub(super) direction: UringDirection,
    memory: Vec<libc::iovec>,
    jobs: Vec<UringOperation>,
    /// The first job that was not submitted yet.
    fresh: usize,
    /// Jobs that completed partially.
    unfinished: Vec<usize>,
    /// Jobs from here on cannot extend the prefix: the one before had an error or reached the end of the file.
    limit: usize,
    segments: PhantomData<&'a mut [u8]>,
}

impl<'a> UringBatch<'a> {
    /// The batch that fills the segments.
    pub(super) fn read(segments: &'a mut [SegmentMut<'_>], direct: bool) -> Self {
        let memory = segments
            .iter_mut()
            .map(|segment| iovec(segment.bytes.as_mut_ptr(), segment.bytes.len()))
            .collect();
        Self::new(UringDirection::Read, memory, segments, |segment| {
            direct && is_aligned(segment.offset, segment.bytes)
        })
    }

    /// The batch that writes the segments. The kernel only reads their memory, though the type of a pointer to it does not say so.
    pub(super) fn write(segments: &'a [Segment<'_>], direct: bool) -> Self {
        let memory = segments
            .iter()
            .map(|segment| iovec(segment.bytes.as_ptr().cast_mut(), segment.bytes.len()))
            .collect();
        Self::new(UringDirection::Write, memory, segments, |segment| {
            direct && is_aligned(segment.offset, segment.bytes)
        })
    }

    fn new<E: SegmentRange>(
        direction: UringDirection,
        memory: Vec<libc::iovec>,
        segments: &[E],
        is_direct: impl Fn(&E) -> bool,
    ) -> Self {
        let (mut jobs, mut from) = (Vec::new(), 0);
        while let Some(run) = coalesce::next_run(segments, from) {
            from = run.segments.end;
            let direct = segments[run.segments.clone()].iter().all(&is_direct);
            let progress = TransferProgress::default();
            jobs.push(UringOperation {
                memory: run.segments,
                offset: run.offset,
                direct,
                size: run.size,
                progress,
            });
        }
        let limit = jobs.len();
        Self { direction, memory, jobs, fresh: 0, unfinished: Vec::new(), limit, segments: PhantomData }
    }

    /// The next job to submit; the caller must call [`complete`](Self::complete) for it.
    pub(super) fn next(&mut self) -> Option<usize> {
        while let Some(index) = self.unfinished.pop() {
            if index < self.limit {
                return Some(index);
            }
        }
        let index = self.fresh;
        (index < self.limit).then(|| {
            self.fresh += 1;
            index
        })
    }

    /// True if there is no job to submit now.
    pub(super) fn is_handed_out(&self) -> bool {
        self.unfinished.is_empty() && self.fresh >= self.limit
    }

    /// A job with what is left of its memory.
    pub(super) fn job(&self, index: usize) -> (&UringOperation, &[libc::iovec]) {
        let job = &self.jobs[index];
        (job, &self.memory[job.memory.clone()])
    }

    /// Records the completion of a job: a count of bytes, or a negative error code.
    pub(super) fn complete(&mut self, index: usize, result: i32) {
        let job = &mut self.jobs[index];
        match u32::try_from(result) {
            Ok(0) => self.limit = self.limit.min(index),
            Ok(count) => {
                job.advance(&mut self.memory, u64::from(count));
                if job.progress.done < job.size {
                    self.unfinished.push(index);
                }
            }
            Err(_) => match Errno::from_raw_os_error(-result) {
                Errno::INTR => self.unfinished.push(index),
                // The medium requires a larger alignment: the page cache accepts any.
                Errno::INVAL if job.direct => {
                    job.direct = false;
                    self.unfinished.push(index);
                }
                errno => {
                    job.progress.stop = Some(errno);
                    self.limit = self.limit.min(index);
                }
            },
        }
    }

    /// The length of the transferred prefix, and the error that ended it.
    pub(super) fn progress(&self) -> TransferProgress {
        let mut progress = TransferProgress::default();
        for job in &self.jobs {
            if !progress.add(job.progress, job.size) {
                break;
            }
        }
        progress
    }
}

impl UringOperation {
    /// Advances by `count` bytes. The rest of a short job may be unaligned.
    fn advance(&mut self, memory: &mut [libc::iovec], count: u64) {
        self.progress.done += count;
        self.offset += count;
        self.direct = false;
        let mut left = count as usize;
        while left > 0 && !self.memory.is_empty() {
            let first = &mut memory[self.memory.start];
            let step = left.min(first.iov_len);
            first.iov_base = first.iov_base.wrapping_byte_add(step);
            first.iov_len -= step;
            left -= step;
            if first.iov_len == 0 {
                self.memory.start += 1;
            }
        }
    }
}

fn iovec(start: *mut u8, size: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast(), iov_len: size }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGAIN: i32 = -libc::EINTR;

    fn order(batch: &mut UringBatch<'_>) -> Vec<usize> {
        std::iter::from_fn(|| batch.next()).collect()
    }

    #[test]
    fn short_and_interrupted_jobs_are_submitted_again() {
        let segments = [Segment::new(0, b"abc"), Segment::new(3, b"de"), Segment::new(9, b"fg")];
        let mut batch = UringBatch::write(&segments, false);
        assert_eq!(order(&mut batch), [0, 1]);
        assert!(batch.is_handed_out());
        batch.complete(0, 4);
        batch.complete(1, AGAIN);
        assert!(!batch.is_handed_out());
        assert_eq!(order(&mut batch), [1, 0]);
        let (job, memory) = batch.job(0);
        assert_eq!((job.offset, memory.len(), memory[0].iov_len), (4, 1, 1));
        assert_eq!(memory[0].iov_base.cast_const().cast(), segments[1].bytes[1..].as_ptr());
        batch.complete(0, 1);
        batch.complete(1, 2);
        assert_eq!(batch.progress(), TransferProgress { done: 7, stop: None });
    }

    #[test]
    fn the_first_error_in_list_order_ends_the_prefix() {
        let segments: Vec<_> = (0..5).map(|index| Segment::new(index * 10, b"abcd")).collect();
        let mut batch = UringBatch::write(&segments, false);
        assert_eq!((batch.next(), batch.next(), batch.next()), (Some(0), Some(1), Some(2)));
        batch.complete(2, -libc::EIO);
        assert_eq!(batch.next(), None, "jobs after an error are not submitted");
        batch.complete(1, -libc::ENOSPC);
        batch.complete(0, 3);
        assert_eq!(batch.next(), Some(0), "jobs before it are completed");
        batch.complete(0, 1);
        assert_eq!(batch.progress(), TransferProgress { done: 4, stop: Some(Errno::NOSPC) });
    }

    #[test]
    fn the_end_of_the_file_ends_the_prefix_without_an_error() {
        let (mut a, mut b) = ([0; 4], [0; 4]);
        let mut segments = [SegmentMut::new(100, &mut a), SegmentMut::new(0, &mut b)];
        let mut batch = UringBatch::read(&mut segments, false);
        assert_eq!(order(&mut batch), [0, 1]);
        batch.complete(1, 4);
        batch.complete(0, 2);
        assert_eq!(batch.next(), Some(0));
        batch.complete(0, 0);
        assert_eq!((batch.next(), batch.progress()), (None, TransferProgress { done: 2, stop: None }));
    }

    #[test]
    fn a_job_rejected_unbuffered_is_retried_buffered() {
        let buffer = crate::AlignedBuffer::new(8192);
        let segments = [Segment::new(0, &buffer[..4096]), Segment::new(8192, &buffer[1..4097])];
        let mut batch = UringBatch::write(&segments, true);
        assert_eq!((batch.job(0).0.direct, batch.job(1).0.direct), (true, false));
        assert_eq!(order(&mut batch), [0, 1]);
        batch.complete(0, -libc::EINVAL);
        assert_eq!((batch.next(), batch.job(0).0.direct), (Some(0), false));
        batch.complete(0, 4096);
        batch.complete(1, -libc::EINVAL);
        assert_eq!(batch.progress(), TransferProgress { done: 4096, stop: Some(Errno::INVAL) });
    }
}
