//! The table of pending writes of a node, in shared memory: one row per rank, which only that rank writes.
//!
//! No messages are sent: before a rank accesses bytes that another rank has accepted, it reads that rank's row and sleeps until the drain
//! thread of that rank has written them.

use std::ops::Range;
use std::time::Duration;

use aqueduct_comm::{Comm, Result, SharedRegion};

use super::footprint::{ByteSpan, Footprint, StridePhase};
use super::pending_slots::{CollectiveSeq, PendingSlot, PendingSlots, SLOTS};
use crate::error::Kind;
use crate::sync::{AtomicU64, Ordering, sleep, yield_now};

/// Words of a row: the spans of pending writes, and the slots.
const WORDS: usize = SLOT + SLOTS * SLOT_WORDS;
/// The words of a row.
const VERSION: usize = 0;
const COLLECTIVE_SEQ: usize = 1;
const ACCEPTED: usize = 2;
const WRITTEN: usize = 3;
const OLDER: usize = 4;
const FRESH: usize = 6;
/// Set by ranks that wait.
const FLUSH_REQUESTED: usize = 8;
/// The number of slots so far, of those that are written, and whether they are not published.
const HEAD: usize = 9;
const TAIL: usize = 10;
const CROWDED: usize = 11;
/// A failed write: the kind of error, and the span. Set once.
const LOST_KIND: usize = 12;
const LOST_START: usize = 13;
const LOST_END: usize = 14;
const SLOT: usize = 16;
const SLOT_WORDS: usize = 8;

/// The pending writes of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingWrites {
    /// The number of the last collective access that it has begun.
    pub(crate) collective_seq: u64,
    /// Parts that were accepted, and parts that are written.
    pub(crate) accepted: u64,
    pub(crate) written: u64,
    /// The spans of those that are not written: before the collective access, and in it.
    pub(crate) older: ByteSpan,
    pub(crate) fresh: ByteSpan,
}

impl PendingWrites {
    /// True if an access must wait: the pending writes may overlap it and are not parts of the same collective access.
    fn must_precede(&self, span: ByteSpan, collective_seq: CollectiveSeq) -> bool {
        let same = collective_seq == Some(self.collective_seq);
        self.accepted > self.written && (self.older.overlaps(span) || (!same && self.fresh.overlaps(span)))
    }
}

/// The rows of all ranks.
#[derive(Debug)]
pub(crate) struct PendingTable {
    region: SharedRegion,
    rank: usize,
    /// The other ranks of this machine.
    others: Vec<usize>,
}

impl PendingTable {
    /// Collective.
    pub(crate) fn new(comm: &Comm) -> Result<Self> {
        let region = comm.shared_region(comm.size() * WORDS * size_of::<u64>())?;
        let rank = comm.rank();
        let node =
            (0..comm.node_count()).map(|node| comm.ranks_of_node(node)).find(|ranks| ranks.contains(&rank));
        let others = node.into_iter().flatten().copied().filter(|other| *other != rank).collect();
        Ok(Self { region, rank, others })
    }

    fn word(&self, rank: usize, word: usize) -> &AtomicU64 {
        self.region.atomic((rank * WORDS + word) * size_of::<u64>()).expect("every rank has a row")
    }

    /// The number of ranks of this node.
    pub(crate) fn node_size(&self) -> usize {
        self.others.len() + 1
    }

    /// Publishes the pending writes of this rank. One thread of the rank at a time.
    pub(crate) fn publish(&self, pending: &PendingWrites, slots: &PendingSlots) {
        let put = |word, value| self.word(self.rank, word).store(value, Ordering::SeqCst);
        let version = self.word(self.rank, VERSION);
        // Odd while it changes.
        version.fetch_add(1, Ordering::SeqCst);
        put(COLLECTIVE_SEQ, pending.collective_seq);
        put(ACCEPTED, pending.accepted);
        put(WRITTEN, pending.written);
        put(OLDER, pending.older.start);
        put(OLDER + 1, pending.older.end);
        put(FRESH, pending.fresh.start);
        put(FRESH + 1, pending.fresh.end);
        put(HEAD, slots.head);
        put(TAIL, slots.tail);
        put(CROWDED, u64::from(slots.crowded));
        version.fetch_add(1, Ordering::SeqCst);
    }

    /// Publishes one slot, before [`publish`](PendingTable::publish) says that it exists. A rank that reads it in between accesses the file at
    /// the same time as this rank, and need not wait; a slot that is reused has been written.
    pub(crate) fn publish_slot(&self, place: usize, slot: &PendingSlot) {
        let Footprint { span, phase } = slot.footprint;
        let words =
            [span.start, span.end, phase.period, phase.start, phase.len, slot.collective_seq, slot.last];
        for (word, value) in words.into_iter().enumerate() {
            self.word(self.rank, SLOT + place * SLOT_WORDS + word).store(value, Ordering::SeqCst);
        }
    }

    fn slot(&self, rank: usize, number: u64) -> PendingSlot {
        let first = SLOT + (number as usize % SLOTS) * SLOT_WORDS;
        let get = |word| self.word(rank, first + word).load(Ordering::SeqCst);
        let phase = StridePhase { period: get(2), start: get(3), len: get(4) };
        let footprint = Footprint { span: ByteSpan { start: get(0), end: get(1) }, phase };
        PendingSlot { footprint, collective_seq: get(5), last: get(6) }
    }

    /// The pending writes of a rank, and which of its slots are in use, if they are published.
    fn read(&self, rank: usize) -> (PendingWrites, Option<Range<u64>>) {
        let get = |word| self.word(rank, word).load(Ordering::SeqCst);
        loop {
            let version = get(VERSION);
            let span = |word| ByteSpan { start: get(word), end: get(word + 1) };
            let pending = PendingWrites {
                collective_seq: get(COLLECTIVE_SEQ),
                accepted: get(ACCEPTED),
                written: get(WRITTEN),
                older: span(OLDER),
                fresh: span(FRESH),
            };
            let slots = (get(CROWDED) == 0).then(|| get(TAIL)..get(HEAD));
            if version.is_multiple_of(2) && version == get(VERSION) {
                return (pending, slots);
            }
            yield_now();
        }
    }

    /// The part of another rank that must be written before an access; none if there is none.
    fn must_precede(
        &self,
        other: usize,
        footprint: &Footprint,
        collective_seq: CollectiveSeq,
    ) -> Option<u64> {
        let (pending, slots) = self.read(other);
        if !pending.must_precede(footprint.span, collective_seq) {
            return None;
        }
        let Some(slots) = slots else { return Some(pending.accepted) };
        let slots = slots.map(|number| self.slot(other, number));
        let before = slots
            .filter(|slot| collective_seq != Some(slot.collective_seq) && slot.footprint.overlaps(footprint));
        before.map(|slot| slot.last).max()
    }

    /// Sleeps until everything that other ranks had accepted before, and that overlaps an access, is written.
    pub(crate) fn wait_for_others(&self, footprint: &Footprint, collective_seq: CollectiveSeq) {
        for other in &self.others {
            let Some(part) = self.must_precede(*other, footprint, collective_seq) else { continue };
            let mut pause = Duration::from_micros(20);
            while self.read(*other).0.written < part {
                self.word(*other, FLUSH_REQUESTED).fetch_max(part, Ordering::SeqCst);
                sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
            }
        }
    }

    /// Publishes that pending writes of this rank have failed; before [`publish`](PendingTable::publish) says that nothing is pending.
    pub(crate) fn publish_loss(&self, lost: ByteSpan, kind: Kind) {
        let put = |word, value| self.word(self.rank, word).store(value, Ordering::SeqCst);
        put(LOST_START, lost.start);
        put(LOST_END, lost.end);
        put(LOST_KIND, kind as u64);
    }

    /// Another rank of this node whose failed writes may overlap a span, their span, and the kind of error.
    pub(crate) fn lost_by_another(&self, span: ByteSpan) -> Option<(usize, ByteSpan, Kind)> {
        self.others.iter().find_map(|other| {
            let get = |word| self.word(*other, word).load(Ordering::SeqCst);
            let kind = u8::try_from(get(LOST_KIND)).ok().filter(|kind| *kind > 0)?;
            let lost = ByteSpan { start: get(LOST_START), end: get(LOST_END) };
            lost.overlaps(span).then_some((*other, lost, Kind::from_code(kind)))
        })
    }

    /// True if another rank waits for more than has been written.
    pub(crate) fn is_flush_requested(&self, written: u64) -> bool {
        self.word(self.rank, FLUSH_REQUESTED).load(Ordering::SeqCst) > written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ByteSpan = ByteSpan { start: 100, end: 200 };

    #[test]
    fn accesses_of_one_collective_call_do_not_wait_for_one_another() {
        let pending =
            PendingWrites { collective_seq: 3, accepted: 2, written: 1, older: ByteSpan::EMPTY, fresh: HERE };
        assert!(!pending.must_precede(HERE, Some(3)));
        assert!(pending.must_precede(HERE, Some(4)) && pending.must_precede(HERE, None));
        let older = PendingWrites { older: HERE, ..pending };
        assert!(older.must_precede(HERE, Some(3)));
        assert!(!older.must_precede(ByteSpan { start: 200, end: 300 }, None));
        assert!(!PendingWrites { written: 2, ..older }.must_precede(HERE, None), "everything is written");
    }
}
