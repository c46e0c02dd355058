//! Unbuffered access (`O_DIRECT`), for aligned and unaligned memory, offsets and lengths.
//!
//! A run whose segments are all aligned uses the unbuffered descriptor directly. Any other run is split at block boundaries: whole blocks
//! use an aligned bounce buffer, smaller parts use the buffered descriptor, which does the
//! read-modify-write of its block correctly with respect to other processes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use super::file;
use super::vectored::{self, TransferProgress};
use crate::aligned_buffer::is_aligned;
use crate::segment::{rest, rest_mut};
use crate::{AlignedBuffer, DIRECT_ALIGNMENT, DeviceOpenOptions, Segment, SegmentMut, coalesce};

/// Bytes per bounce buffer: enough to keep a medium busy.
const BOUNCE: usize = 1 << 20;

/// The unbuffered side of an open file.
#[derive(Debug)]
pub(super) struct DirectFile {
    file: OwnedFd,
    /// Bounce buffers not in use.
    bounce_buffers: Mutex<Vec<AlignedBuffer>>,
}

impl DirectFile {
    /// Opens the file of `buffered` unbuffered; `None` if the file system does not support it.
    pub(super) fn open(buffered: BorrowedFd<'_>, options: &DeviceOpenOptions) -> Option<Self> {
        Some(Self { file: file::open_direct(buffered, options)?, bounce_buffers: Mutex::default() })
    }

    /// The unbuffered descriptor.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The unbuffered descriptor, to be closed.
    pub(super) fn into_file(self) -> OwnedFd {
        self.file
    }

    /// Reads a list up to its end or the first end of file.
    pub(super) fn read(&self, buffered: BorrowedFd<'_>, segments: &mut [SegmentMut<'_>]) -> TransferProgress {
        let (mut progress, mut from) = (TransferProgress::default(), 0);
        while let Some(run) = coalesce::next_run(segments, from) {
            from = run.segments.end;
            let segments = &mut segments[run.segments];
            let next = if segments.iter().all(|segment| is_aligned(segment.offset, segment.bytes)) {
                self.read_blocks(buffered, run.offset, segments)
            } else {
                self.with_bounce(|bounce| self.read_cut(buffered, run.offset, run.size, segments, bounce))
            };
            if !progress.add(next, run.size) {
                break;
            }
        }
        progress
    }

    /// Writes a list.
    pub(super) fn write(&self, buffered: BorrowedFd<'_>, segments: &[Segment<'_>]) -> TransferProgress {
        let (mut progress, mut from) = (TransferProgress::default(), 0);
        while let Some(run) = coalesce::next_run(segments, from) {
            from = run.segments.end;
            let segments = &segments[run.segments];
            let next = if segments.iter().all(|segment| is_aligned(segment.offset, segment.bytes)) {
                self.write_blocks(buffered, run.offset, segments)
            } else {
                self.with_bounce(|bounce| self.write_cut(buffered, run.offset, run.size, segments, bounce))
            };
            if !progress.add(next, run.size) {
                break;
            }
        }
        progress
    }

    /// Reads aligned segments. `EINVAL` is returned after a short read inside a block (the end of the file) and by media that
    /// require more than [`DIRECT_ALIGNMENT`]: the rest is read buffered.
    fn read_blocks(
        &self,
        buffered: BorrowedFd<'_>,
        offset: u64,
        segments: &mut [SegmentMut<'_>],
    ) -> TransferProgress {
        let mut progress = vectored::read_run(self.file(), offset, segments);
        if progress.stop == Some(Errno::INVAL) {
            let more = vectored::read(buffered, &mut rest_mut(segments, progress.done));
            progress.add(more, 0);
        }
        progress
    }

    /// Writes aligned segments; data that the unbuffered descriptor rejects is written buffered.
    fn write_blocks(
        &self,
        buffered: BorrowedFd<'_>,
        offset: u64,
        segments: &[Segment<'_>],
    ) -> TransferProgress {
        let mut progress = vectored::write_run(self.file(), offset, segments);
        if progress.stop == Some(Errno::INVAL) {
            let more = vectored::write(buffered, &rest(segments, progress.done));
            progress.add(more, 0);
        }
        progress
    }

    fn read_cut(
        &self,
        buffered: BorrowedFd<'_>,
        offset: u64,
        size: u64,
        segments: &mut [SegmentMut<'_>],
        bounce: &mut [u8],
    ) -> TransferProgress {
        let (mut progress, mut place) = (TransferProgress::default(), SegmentCursor::default());
        while let Some(step) = DirectStep::next(offset + progress.done, size - progress.done) {
            let bounce = &mut bounce[..step.size()];
            let list = &mut [SegmentMut::new(offset + progress.done, bounce)];
            let next = match step {
                DirectStep::Edge(_) => vectored::read(buffered, list),
                DirectStep::Blocks(_) => self.read_blocks(buffered, offset + progress.done, list),
            };
            place.scatter(&bounce[..next.done as usize], segments);
            if !progress.add(next, step.size() as u64) {
                break;
            }
        }
        progress
    }

    fn write_cut(
        &self,
        buffered: BorrowedFd<'_>,
        offset: u64,
        size: u64,
        segments: &[Segment<'_>],
        bounce: &mut [u8],
    ) -> TransferProgress {
        let (mut progress, mut place) = (TransferProgress::default(), SegmentCursor::default());
        while let Some(step) = DirectStep::next(offset + progress.done, size - progress.done) {
            let bounce = &mut bounce[..step.size()];
            place.gather(segments, bounce);
            let list = &[Segment::new(offset + progress.done, bounce)];
            let next = match step {
                DirectStep::Edge(_) => vectored::write(buffered, list),
                DirectStep::Blocks(_) => self.write_blocks(buffered, offset + progress.done, list),
            };
            if !progress.add(next, step.size() as u64) {
                break;
            }
        }
        progress
    }

    /// Lends a bounce buffer that no other thread uses.
    pub(super) fn with_bounce<T>(&self, work: impl FnOnce(&mut [u8]) -> T) -> T {
        let spare = || self.bounce_buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let buffer = spare().pop();
        let mut buffer = buffer.unwrap_or_else(|| AlignedBuffer::new(BOUNCE));
        let outcome = work(&mut buffer);
        spare().push(buffer);
        outcome
    }
}

/// The next transfer of a range split at block boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectStep {
    /// Less than a block.
    Edge(usize),
    /// Whole blocks, at most a bounce buffer full.
    Blocks(usize),
}

impl DirectStep {
    fn next(offset: u64, left: u64) -> Option<Self> {
        let block = DIRECT_ALIGNMENT as u64;
        let edge = (block - offset % block) % block;
        if left == 0 {
            None
        } else if edge > 0 || left < block {
            Some(Self::Edge(if edge > 0 { left.min(edge) } else { left } as usize))
        } else {
            Some(Self::Blocks((left - left % block).min(BOUNCE as u64) as usize))
        }
    }

    fn size(self) -> usize {
        match self {
            Self::Edge(size) | Self::Blocks(size) => size,
        }
    }
}

/// A place in a list of segments.
#[derive(Default)]
struct SegmentCursor {
    segment: usize,
    inside: usize,
}

impl SegmentCursor {
    /// Copies the next bytes of the list out into `bounce`.
    fn gather(&mut self, segments: &[Segment<'_>], mut bounce: &mut [u8]) {
        while !bounce.is_empty() {
            let from = &segments[self.segment].bytes[self.inside..];
            let count = from.len().min(bounce.len());
            let (to, rest) = bounce.split_at_mut(count);
            to.copy_from_slice(&from[..count]);
            bounce = rest;
            self.advance(count, from.len());
        }
    }

    /// Copies `bounce` into the next bytes of the list.
    fn scatter(&mut self, mut bounce: &[u8], segments: &mut [SegmentMut<'_>]) {
        while !bounce.is_empty() {
            let to = &mut segments[self.segment].bytes[self.inside..];
            let (count, left) = (to.len().min(bounce.len()), to.len());
            to[..count].copy_from_slice(&bounce[..count]);
            bounce = &bounce[count..];
            self.advance(count, left);
        }
    }

    fn advance(&mut self, count: usize, left: usize) {
        self.inside += count;
        if count == left {
            *self = Self { segment: self.segment + 1, inside: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_split_at_block_boundaries() {
        let cut = |offset: u64, size: u64| {
            let mut done = 0;
            let step = || {
                let step = DirectStep::next(offset + done, size - done)?;
                done += step.size() as u64;
                Some(step)
            };
            std::iter::from_fn(step).collect::<Vec<_>>()
        };
        assert_eq!(cut(0, 4096), [DirectStep::Blocks(4096)]);
        assert_eq!(
            cut(4095, 10_000),
            [DirectStep::Edge(1), DirectStep::Blocks(8192), DirectStep::Edge(1807)]
        );
        assert_eq!(cut(10, 20), [DirectStep::Edge(20)]);
        assert_eq!(cut(8192, 20), [DirectStep::Edge(20)]);
        assert_eq!(
            cut(0, (1 << 20) + 4097),
            [DirectStep::Blocks(1 << 20), DirectStep::Blocks(4096), DirectStep::Edge(1)]
        );
    }

    #[test]
    fn bytes_go_through_the_bounce_buffer_in_order() {
        let mut bounce = [0; 4];
        let mut place = SegmentCursor::default();
        place.gather(&[Segment::new(0, b"ab"), Segment::new(2, b""), Segment::new(2, b"cdef")], &mut bounce);
        assert_eq!(&bounce, b"abcd");
        let (mut a, mut b) = ([0; 3], [0; 3]);
        let mut place = SegmentCursor::default();
        let mut segments = [SegmentMut::new(0, &mut a), SegmentMut::new(3, &mut b)];
        place.scatter(b"abcd", &mut segments);
        place.scatter(b"e", &mut segments);
        assert_eq!((&a, &b), (b"abc", b"de\0"));
    }
}
