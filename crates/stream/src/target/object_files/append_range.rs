//! Where a rank's part of a stream of a parcel goes in the stream's file. Pure.

use aqueduct_file::layout::{Layout, LayoutError};

use crate::declare::declaration::Declaration;
use crate::declare::rank_share::shift_layout;
use crate::declare::stream_info::StreamRegion;
use crate::target::StepBatch;

/// Room for a stream of a parcel behind what its file has.
pub(super) struct AppendRange {
    pub(super) stream: usize,
    /// Objects and bytes of all ranks.
    pub(super) count: u64,
    pub(super) bytes: u64,
    /// This rank's bytes among them, and how many they are.
    pub(super) place: Layout,
    pub(super) mine: u64,
    /// Items of the ranks before this one.
    pub(super) before: u64,
    /// Whether the next room has the lengths of the objects.
    pub(super) is_indexed: bool,
}

impl AppendRange {
    /// The room of a parcel's entry number `at`; `before` and `totals` have the items of the ranks before this one and of all, for each entry. A count that
    /// cannot be is one that no file takes.
    pub(super) fn new(
        declared: &Declaration,
        parcel: &StepBatch,
        at: usize,
        before: &[u64],
        totals: &[u64],
    ) -> Result<Self, LayoutError> {
        let entry = &parcel.entries[at];
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

    /// The parts of a chunk that belong to each room, and how many bytes of the room come before; the chunk begins behind `done` bytes of all rooms.
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
