//! How the bytes of a parcel of a group are put together: window by window, from what the members have. Pure.

use std::ops::Range;

use aqueduct_file::layout::{LayoutError, Pattern};

use crate::pack::chunk_bounds::ChunkBounds;

/// A parcel of a group. Its bytes are in the order of the file; so are those of each member among them, so that a window of the one is a range of the other.
#[derive(Clone, Debug)]
pub(crate) struct GatherPlan {
    /// Where each member's bytes lie.
    member_patterns: Vec<Pattern>,
    /// How many items the group has of each stream of the parcel.
    items: Vec<u64>,
    bounds: ChunkBounds,
}

impl GatherPlan {
    pub(super) fn new(spots: Vec<Pattern>, items: Vec<u64>, sizes: Vec<(u64, u64)>) -> Self {
        Self { member_patterns: spots, items, bounds: ChunkBounds::new(sizes) }
    }

    pub(crate) fn items(&self) -> &[u64] {
        &self.items
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bounds.bytes()
    }

    /// How many windows of at most so many bytes there are.
    pub(crate) fn windows(&self, capacity: u64) -> u64 {
        self.bounds.count(capacity)
    }

    /// The window that begins at `start`.
    pub(crate) fn window(&self, start: u64, capacity: u64) -> Range<u64> {
        start..self.bounds.end(start, capacity)
    }

    /// Which of a member's bytes lie in a window.
    pub(crate) fn member_range(&self, member: usize, window: &Range<u64>) -> Range<u64> {
        let spot = &self.member_patterns[member];
        spot.data_within(window.start as i64..window.end as i64).unwrap_or(0..0)
    }

    /// Where these of a member's bytes lie in the window, if they lie side by side.
    pub(crate) fn contiguous_run(
        &self,
        member: usize,
        bytes: &Range<u64>,
        window: &Range<u64>,
    ) -> Option<Range<usize>> {
        let run = self.member_patterns[member].runs(bytes.clone()).next()?;
        let start = (run.offset - window.start as i64) as usize;
        (run.len == bytes.end - bytes.start).then(|| start..start + run.len as usize)
    }

    /// Puts a member's bytes, from number `first` of them on, into the window that begins at `start`.
    pub(crate) fn scatter(
        &self,
        member: usize,
        first: u64,
        bytes: &[u8],
        start: u64,
        window: &mut [u8],
    ) -> Result<(), LayoutError> {
        self.member_patterns[member].shifted(-(start as i64))?.scatter(bytes, first, window)
    }

    #[cfg(test)]
    pub(super) fn member_pattern(&self, member: usize) -> &Pattern {
        &self.member_patterns[member]
    }
}
