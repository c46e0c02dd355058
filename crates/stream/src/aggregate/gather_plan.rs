//! How the bytes of a group's batch are assembled from those of the members, window by window. Pure.

use std::ops::Range;

use aqueduct_file::layout::{LayoutError, Pattern};

use crate::pack::chunk_bounds::ChunkBounds;

/// A batch of a group. Its bytes are in file order, and so are those of each member among them: a window of the group
/// is a range of each member.
#[derive(Clone, Debug)]
pub(crate) struct GatherPlan {
    /// The places of each member's bytes.
    member_patterns: Vec<Pattern>,
    /// The number of items of the group for each stream of the batch.
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

    /// The number of windows of at most `capacity` bytes.
    pub(crate) fn windows(&self, capacity: u64) -> u64 {
        self.bounds.count(capacity)
    }

    /// The window that begins at `start`.
    pub(crate) fn window(&self, start: u64, capacity: u64) -> Range<u64> {
        start..self.bounds.end(start, capacity)
    }

    /// The bytes of a member that are in a window.
    pub(crate) fn member_range(&self, member: usize, window: &Range<u64>) -> Range<u64> {
        let spot = &self.member_patterns[member];
        spot.data_within(window.start as i64..window.end as i64).unwrap_or(0..0)
    }

    /// The place of these bytes of a member in the window, if they are contiguous there.
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

    /// Copies a member's bytes, from number `first` on, into the window that begins at `start`.
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
