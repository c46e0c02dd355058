//! The place of a rank's part of a stream in the stream's object file. Pure.

use aqueduct_file::layout::{Layout, LayoutError};

use crate::declare::declaration::Declaration;
use crate::declare::rank_share::shift_layout;
use crate::declare::stream_info::StreamRegion;
use crate::target::StepBatch;

/// The place of a batch of a stream at the end of its file.
pub(super) struct AppendRange {
    pub(super) stream: usize,
    /// Objects and bytes of all ranks.
    pub(super) count: u64,
    pub(super) bytes: u64,
    /// This rank's bytes among them.
    pub(super) place: Layout,
    pub(super) mine: u64,
    /// Items of the ranks before this one.
    pub(super) before: u64,
    /// True if the next range has the lengths of the objects.
    pub(super) is_indexed: bool,
}

impl AppendRange {
    /// The range of entry number `at` of a batch; `before` and `totals` have the items of the ranks before this one
    /// and of all ranks, for each entry. A count that overflows is larger than any file.
    pub(super) fn new(
        declared: &Declaration,
        batch: &StepBatch,
        at: usize,
        before: &[u64],
        totals: &[u64],
    ) -> Result<Self, LayoutError> {
        let entry = &batch.entries[at];
        let (stream, about) = (entry.stream, &declared.streams()[entry.stream]);
        let each = about.item_bytes().unwrap_or(u64::MAX);
        let (place, items) = match about.region {
            StreamRegion::List => {
                let mine = Layout::bytes(entry.items.saturating_mul(each))?;
                (shift_layout(&mine, before[at].saturating_mul(each))?, totals[at])
            }
            _ => (declared.place(stream).clone(), about.items().unwrap_or(u64::MAX)),
        };
        let is_indexed = about.is_indexed();
        let count = if is_indexed { totals.get(at + 1).copied().unwrap_or(0) } else { items };
        let (bytes, mine) = (items.saturating_mul(each), place.size());
        Ok(Self { stream, count, bytes, place, mine, before: before[at], is_indexed })
    }

    /// The parts of a chunk in each range, and the bytes of the range before them; the chunk begins after `done`
    /// bytes of all ranges.
    pub(super) fn parts<'c>(rooms: &[Self], done: u64, chunk: &'c [u8]) -> Vec<(u64, &'c [u8])> {
        let (mut before, mut rest) = (0, chunk);
        let part = |room: &Self| {
            let first = (done.max(before) - before).min(room.mine);
            let (now, later) = rest.split_at((room.mine - first).min(rest.len() as u64) as usize);
            (rest, before) = (later, before + room.mine);
            (first, now)
        };
        rooms.iter().map(part).collect()
    }
}
