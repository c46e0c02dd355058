//! The memory of reads: of a list of segments, or contiguous for strips.

use aqueduct_device::{SegmentMut, SegmentRange, Strip, strip};

/// The bytes of strips, and the end of their last byte.
pub(super) fn extent_of(strips: &[Strip]) -> (u64, u64) {
    let ends = strips.iter().filter(|strip| strip.size() > 0).map(|strip| strip.span().end as u64);
    (strip::total(strips), ends.max().unwrap_or(0))
}

/// The ranges of a list that are not empty.
pub(super) fn ranges_of<E: SegmentRange>(segments: &[E]) -> Vec<Strip> {
    let filled = segments.iter().filter(|segment| segment.size() > 0);
    filled.map(|segment| Strip::run(segment.start(), segment.size())).collect()
}

/// What is to be read: strips and their memory.
pub(super) trait ReadMemory {
    /// The first bytes of it.
    fn parts(&mut self, bytes: u64) -> Vec<(Strip, &mut [u8])>;
}

/// Segments of a list.
pub(super) struct SegmentMemory<'s, 'b>(pub(super) &'s mut [SegmentMut<'b>]);

impl ReadMemory for SegmentMemory<'_, '_> {
    fn parts(&mut self, bytes: u64) -> Vec<(Strip, &mut [u8])> {
        let mut left = bytes;
        let parts = self.0.iter_mut().map_while(|segment| {
            let len = left.min(segment.bytes.len() as u64);
            left -= len;
            (left > 0 || len > 0)
                .then(|| (Strip::run(segment.offset, len), &mut segment.bytes[..len as usize]))
        });
        parts.collect()
    }
}

/// Contiguous memory for strips.
pub(super) struct StripMemory<'a>(pub(super) &'a [Strip], pub(super) &'a mut [u8]);

impl ReadMemory for StripMemory<'_> {
    fn parts(&mut self, bytes: u64) -> Vec<(Strip, &mut [u8])> {
        let (strips, mut rest) = (strip::front(self.0, bytes), &mut *self.1);
        let take = |strip: Strip| {
            let (part, later) = std::mem::take(&mut rest).split_at_mut(strip.size() as usize);
            rest = later;
            (strip, part)
        };
        strips.into_iter().map(take).collect()
    }
}
