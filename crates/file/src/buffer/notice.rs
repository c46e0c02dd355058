//! What the ranks of a machine tell one another of what they hold: a place in shared memory for each, written by its rank alone.
//!
//! Nobody sends or answers anything: whoever is about to access bytes that another rank has accepted before looks here, and waits, asleep, until that
//! rank's own thread has written them.

use std::ops::Range;
use std::time::Duration;

use aqueduct_comm::{Comm, Region, Result};

use super::batch::{Hull, Turn};
use super::reach::{Lane, Reach};
use super::slots::{SLOTS, Slot, Slots};
use crate::error::Kind;
use crate::sync::{AtomicU64, Ordering, sleep, yield_now};

/// Words of a rank: what it holds at large, and its slots.
const WORDS: usize = SLOT + SLOTS * SLOT_WORDS;
/// Which words of a rank mean what.
const VERSION: usize = 0;
const TURN: usize = 1;
const ACCEPTED: usize = 2;
const WRITTEN: usize = 3;
const OLDER: usize = 4;
const FRESH: usize = 6;
/// Set by those who wait.
const HURRY: usize = 8;
/// How many slots there have been, how many are written, and whether they are not told.
const HEAD: usize = 9;
const TAIL: usize = 10;
const CROWDED: usize = 11;
/// What could not be written: why, and between which bytes. Set once.
const LOST_KIND: usize = 12;
const LOST_START: usize = 13;
const LOST_END: usize = 14;
const SLOT: usize = 16;
const SLOT_WORDS: usize = 8;

/// What a rank holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The number of the last collective access that it has begun.
    pub(crate) turn: u64,
    /// Parts it has accepted, and how many of them it has written.
    pub(crate) accepted: u64,
    pub(crate) written: u64,
    /// Where those lie that are not written: before the collective access, and in it.
    pub(crate) older: Hull,
    pub(crate) fresh: Hull,
}

impl Held {
    /// Whether an access must wait: what is held may touch the same bytes and is not a part of the same collective access.
    fn stands_before(&self, hull: Hull, turn: Turn) -> bool {
        let same = turn == Some(self.turn);
        self.accepted > self.written && (self.older.meets(hull) || (!same && self.fresh.meets(hull)))
    }
}

/// The places of all ranks.
#[derive(Debug)]
pub(crate) struct Notice {
    region: Region,
    rank: usize,
    /// The other ranks of this machine.
    others: Vec<usize>,
}

impl Notice {
    /// Collective.
    pub(crate) fn new(comm: &Comm) -> Result<Self> {
        let region = comm.region(comm.size() * WORDS * size_of::<u64>())?;
        let rank = comm.rank();
        let node =
            (0..comm.node_count()).map(|node| comm.ranks_of_node(node)).find(|ranks| ranks.contains(&rank));
        let others = node.into_iter().flatten().copied().filter(|other| *other != rank).collect();
        Ok(Self { region, rank, others })
    }

    fn word(&self, rank: usize, word: usize) -> &AtomicU64 {
        self.region.atomic((rank * WORDS + word) * size_of::<u64>()).expect("every rank has its place")
    }

    /// How many ranks share this machine.
    pub(crate) fn neighbours(&self) -> usize {
        self.others.len() + 1
    }

    /// Tells what this rank holds. One thread of the rank at a time.
    pub(crate) fn tell(&self, held: &Held, slots: &Slots) {
        let put = |word, value| self.word(self.rank, word).store(value, Ordering::SeqCst);
        let version = self.word(self.rank, VERSION);
        // Odd while it changes.
        version.fetch_add(1, Ordering::SeqCst);
        put(TURN, held.turn);
        put(ACCEPTED, held.accepted);
        put(WRITTEN, held.written);
        put(OLDER, held.older.start);
        put(OLDER + 1, held.older.end);
        put(FRESH, held.fresh.start);
        put(FRESH + 1, held.fresh.end);
        put(HEAD, slots.head);
        put(TAIL, slots.tail);
        put(CROWDED, u64::from(slots.crowded));
        version.fetch_add(1, Ordering::SeqCst);
    }

    /// Tells one slot, before it is [told](Notice::tell) that it is there. Whoever reads it meanwhile does so at the same time as this rank accesses the
    /// file, and need not know of it; one that is read over again is written.
    pub(crate) fn tell_slot(&self, place: usize, slot: &Slot) {
        let Reach { hull, lane } = slot.reach;
        let words = [hull.start, hull.end, lane.period, lane.start, lane.len, slot.turn, slot.last];
        for (word, value) in words.into_iter().enumerate() {
            self.word(self.rank, SLOT + place * SLOT_WORDS + word).store(value, Ordering::SeqCst);
        }
    }

    fn slot(&self, rank: usize, number: u64) -> Slot {
        let first = SLOT + (number as usize % SLOTS) * SLOT_WORDS;
        let get = |word| self.word(rank, first + word).load(Ordering::SeqCst);
        let lane = Lane { period: get(2), start: get(3), len: get(4) };
        let reach = Reach { hull: Hull { start: get(0), end: get(1) }, lane };
        Slot { reach, turn: get(5), last: get(6) }
    }

    /// What a rank holds, and which of its slots are in use, if they are told.
    fn look(&self, rank: usize) -> (Held, Option<Range<u64>>) {
        let get = |word| self.word(rank, word).load(Ordering::SeqCst);
        loop {
            let version = get(VERSION);
            let hull = |word| Hull { start: get(word), end: get(word + 1) };
            let held = Held {
                turn: get(TURN),
                accepted: get(ACCEPTED),
                written: get(WRITTEN),
                older: hull(OLDER),
                fresh: hull(FRESH),
            };
            let slots = (get(CROWDED) == 0).then(|| get(TAIL)..get(HEAD));
            if version.is_multiple_of(2) && version == get(VERSION) {
                return (held, slots);
            }
            yield_now();
        }
    }

    /// The part of another rank that must be written before an access; none where nothing stands before it.
    fn stands_before(&self, other: usize, reach: &Reach, turn: Turn) -> Option<u64> {
        let (held, slots) = self.look(other);
        if !held.stands_before(reach.hull, turn) {
            return None;
        }
        let Some(slots) = slots else { return Some(held.accepted) };
        let slots = slots.map(|number| self.slot(other, number));
        let before = slots.filter(|slot| turn != Some(slot.turn) && slot.reach.meets(reach));
        before.map(|slot| slot.last).max()
    }

    /// Waits, asleep, until nothing that other ranks had accepted before stands before an access.
    pub(crate) fn wait_for_others(&self, reach: &Reach, turn: Turn) {
        for other in &self.others {
            let Some(part) = self.stands_before(*other, reach, turn) else { continue };
            let mut pause = Duration::from_micros(20);
            while self.look(*other).0.written < part {
                self.word(*other, HURRY).fetch_max(part, Ordering::SeqCst);
                sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
            }
        }
    }

    /// Tells that what this rank held could not be written; before it is [told](Notice::tell) that nothing is held any more.
    pub(crate) fn tell_loss(&self, lost: Hull, kind: Kind) {
        let put = |word, value| self.word(self.rank, word).store(value, Ordering::SeqCst);
        put(LOST_START, lost.start);
        put(LOST_END, lost.end);
        put(LOST_KIND, kind as u64);
    }

    /// Another rank of this machine that has lost bytes which may be among these, and why.
    pub(crate) fn lost_by_another(&self, hull: Hull) -> Option<(usize, Hull, Kind)> {
        self.others.iter().find_map(|other| {
            let get = |word| self.word(*other, word).load(Ordering::SeqCst);
            let kind = u8::try_from(get(LOST_KIND)).ok().filter(|kind| *kind > 0)?;
            let lost = Hull { start: get(LOST_START), end: get(LOST_END) };
            lost.meets(hull).then_some((*other, lost, Kind::from_code(kind)))
        })
    }

    /// Whether another rank waits for more than has been written.
    pub(crate) fn is_hurried(&self, written: u64) -> bool {
        self.word(self.rank, HURRY).load(Ordering::SeqCst) > written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Hull = Hull { start: 100, end: 200 };

    #[test]
    fn accesses_of_one_collective_call_do_not_wait_for_one_another() {
        let held = Held { turn: 3, accepted: 2, written: 1, older: Hull::NOTHING, fresh: HERE };
        assert!(!held.stands_before(HERE, Some(3)));
        assert!(held.stands_before(HERE, Some(4)) && held.stands_before(HERE, None));
        let older = Held { older: HERE, ..held };
        assert!(older.stands_before(HERE, Some(3)));
        assert!(!older.stands_before(Hull { start: 200, end: 300 }, None));
        assert!(!Held { written: 2, ..older }.stands_before(HERE, None), "everything is written");
    }
}
