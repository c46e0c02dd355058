//! What the ranks of a machine tell one another of what they hold: a place in shared memory for each, written by its rank alone.
//!
//! Nobody sends or answers anything: whoever is about to access bytes that another rank has accepted before looks here, and waits, asleep, until that
//! rank's own thread has written them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aqueduct_comm::{Comm, Region, Result};

use super::batch::{Hull, Turn};

const WORDS: usize = 16;
/// Which words of a rank mean what.
const VERSION: usize = 0;
const TURN: usize = 1;
const ACCEPTED: usize = 2;
const WRITTEN: usize = 3;
const OLDER: usize = 4;
const FRESH: usize = 6;
/// Set by those who wait.
const HURRY: usize = 8;

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
    pub(crate) fn tell(&self, held: &Held) {
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
        version.fetch_add(1, Ordering::SeqCst);
    }

    fn look(&self, rank: usize) -> Held {
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
            if version.is_multiple_of(2) && version == get(VERSION) {
                return held;
            }
            std::thread::yield_now();
        }
    }

    /// Waits, asleep, until nothing that other ranks had accepted before stands before an access.
    pub(crate) fn wait_for_others(&self, hull: Hull, turn: Turn) {
        for other in &self.others {
            let accepted = self.look(*other).accepted;
            let mut pause = Duration::from_micros(20);
            loop {
                let held = self.look(*other);
                if held.written >= accepted || !held.stands_before(hull, turn) {
                    break;
                }
                self.word(*other, HURRY).fetch_max(accepted, Ordering::SeqCst);
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
            }
        }
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
