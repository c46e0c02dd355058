//! Unbuffered lists of small whole blocks with unaligned memory: as many as fit into a bounce buffer are submitted to the
//! kernel at once.

use std::ops::Range;

use crate::aligned_buffer::{DIRECT_ALIGNMENT, is_aligned};
use crate::{Segment, SegmentMut, SegmentRange, coalesce};

/// Larger runs keep a medium busy individually.
const SMALL: u64 = 256 * 1024;

/// The path of an unbuffered list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectStrategy {
    /// All of its segments are aligned.
    Aligned,
    /// Its runs are whole blocks, and small.
    Bounce,
    /// As a list without a ring.
    Sequential,
}

impl DirectStrategy {
    pub(super) fn choose<E: SegmentRange>(segments: &[E], bytes: impl Fn(&E) -> &[u8]) -> Self {
        if segments.iter().all(|segment| segment.size() == 0 || is_aligned(segment.start(), bytes(segment))) {
            return Self::Aligned;
        }
        let block = DIRECT_ALIGNMENT as u64;
        let mut from = 0;
        while let Some(run) = coalesce::next_run(segments, from) {
            from = run.segments.end;
            if run.size > SMALL || !run.offset.is_multiple_of(block) || !run.size.is_multiple_of(block) {
                return Self::Sequential;
            }
        }
        Self::Bounce
    }
}

/// The segments of the next runs, from segment `from` on, that fit into a buffer together; empty at the end of the list.
pub(super) fn group<E: SegmentRange>(segments: &[E], from: usize, room: u64) -> Range<usize> {
    let (mut end, mut size) = (from, 0);
    while let Some(run) = coalesce::next_run(segments, end) {
        size += run.size;
        if size > room {
            break;
        }
        end = run.segments.end;
    }
    from..end
}

/// Copies the segments into a buffer; the list to write it by.
pub(super) fn gather<'b>(segments: &[Segment<'_>], mut buffer: &'b mut [u8]) -> Vec<Segment<'b>> {
    let (mut list, mut from) = (Vec::new(), 0);
    while let Some(run) = coalesce::next_run(segments, from) {
        from = run.segments.end;
        let (room, rest) = buffer.split_at_mut(run.size as usize);
        let mut at = 0;
        for segment in &segments[run.segments] {
            room[at..at + segment.bytes.len()].copy_from_slice(segment.bytes);
            at += segment.bytes.len();
        }
        list.push(Segment::new(run.offset, room));
        buffer = rest;
    }
    list
}

/// The list by which to read the segments into a buffer.
pub(super) fn places<'b>(segments: &[SegmentMut<'_>], mut buffer: &'b mut [u8]) -> Vec<SegmentMut<'b>> {
    let (mut list, mut from) = (Vec::new(), 0);
    while let Some(run) = coalesce::next_run(segments, from) {
        from = run.segments.end;
        let (room, rest) = buffer.split_at_mut(run.size as usize);
        list.push(SegmentMut::new(run.offset, room));
        buffer = rest;
    }
    list
}

/// Copies what was read out of the buffer into the segments.
pub(super) fn scatter(mut buffer: &[u8], segments: &mut [SegmentMut<'_>]) {
    for segment in segments {
        let (now, later) = buffer.split_at(segment.bytes.len().min(buffer.len()));
        segment.bytes[..now.len()].copy_from_slice(now);
        buffer = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlignedBuffer;

    #[test]
    fn only_small_whole_blocks_in_odd_memory_are_bounced() {
        let buffer = AlignedBuffer::new(1 << 20);
        let way = |list: &[(u64, Range<usize>)]| {
            let segments: Vec<_> =
                list.iter().map(|(offset, range)| Segment::new(*offset, &buffer[range.clone()])).collect();
            DirectStrategy::choose(&segments, |segment| segment.bytes)
        };
        assert_eq!(way(&[(0, 0..4096), (8192, 4096..8192), (1, 7..7)]), DirectStrategy::Aligned);
        assert_eq!(way(&[(0, 16..4112), (8192, 4112..8208)]), DirectStrategy::Bounce);
        assert_eq!(way(&[(0, 0..96), (96, 96..4096), (8192, 0..0)]), DirectStrategy::Bounce);
        assert_eq!(way(&[(0, 16..4112), (8192, 16..20)]), DirectStrategy::Sequential);
        assert_eq!(way(&[(1, 16..4112), (8192, 16..4112)]), DirectStrategy::Sequential);
        assert_eq!(way(&[(0, 16..524_304)]), DirectStrategy::Sequential);
    }

    #[test]
    fn a_list_is_processed_in_groups_of_whole_runs() {
        let bytes = [7u8; 40];
        let list =
            [Segment::new(0, &bytes[..10]), Segment::new(10, &bytes[..10]), Segment::new(30, &bytes[..15])];
        assert_eq!((group(&list, 0, 30), group(&list, 0, 35), group(&list, 2, 30)), (0..2, 0..3, 2..3));
        assert_eq!((group(&list, 3, 30), group(&list, 0, 5)), (3..3, 0..0));
        let mut buffer = [0; 40];
        let gathered = gather(&list, &mut buffer);
        let shape: Vec<_> = gathered.iter().map(|segment| (segment.offset, segment.bytes.len())).collect();
        assert_eq!(shape, [(0, 20), (30, 15)]);
        let (mut a, mut b) = ([0; 3], [0; 4]);
        let mut into = [SegmentMut::new(0, &mut a), SegmentMut::new(9, &mut b)];
        assert_eq!(places(&into, &mut [0; 7]).len(), 2);
        scatter(b"abcde", &mut into);
        assert_eq!((&a, &b), (b"abc", b"de\0\0"));
    }
}
