//! Plans kept for the next access like them: a program that writes the same step again, or the next one behind it, plans nothing.
//!
//! Which plan an access repeats must be the same on all ranks. Plans lie in numbered slots that all ranks fill in the same order; a rank
//! offers the slots whose access looks like its own, and what all ranks offer is the plan. A rank whose plan was too large to keep
//! holds an empty slot, which it never offers.
//!
//! An access may also look like one that lies elsewhere in the file. A rank offers the last such slot and tells how much further its own access
//! lies; if that is equally much on all ranks, the plan is moved.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::layout::Pattern;
use crate::plan::{Direction, Domains, Round, Summary};

/// Plans that are kept.
const SLOTS: usize = 8;
/// The most bytes that the rounds of a plan may take.
const HEAVIEST: usize = 64 << 10;

/// What tells one access of a rank from another, while view and hints stay the same.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) direction: Direction,
    pub(crate) pattern: Pattern,
    pub(crate) window: Range<u64>,
}

impl Key {
    /// How much further than `other` it lies in the file, if it is like it otherwise. Who accesses nothing is where the others are.
    fn beyond(&self, other: &Self) -> Option<Place> {
        let alike = self.direction == other.direction && self.pattern == other.pattern;
        let len = |key: &Self| key.window.end - key.window.start;
        if !alike || len(self) != len(other) {
            return None;
        }
        if self.window.is_empty() {
            return Some(Place::Anywhere);
        }
        let (data, extent) = self.pattern.period()?;
        let moved = self.window.start as i64 - other.window.start as i64;
        let (data, extent) = (i64::try_from(data).ok()?, i64::try_from(extent).ok()?);
        if moved % data == 0 { (moved / data).checked_mul(extent).map(Place::Further) } else { None }
    }
}

/// Where an access lies, seen from a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Anywhere,
    Further(i64),
}

/// A plan, and what this rank does in each of its rounds.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) domains: Domains,
    /// Whether the ranks' bytes are known to have no gaps.
    pub(crate) dense: bool,
    pub(crate) rounds: Arc<[Arc<Round>]>,
}

impl Planned {
    /// The same `by` bytes further in the file, for data that begins `data` bytes later.
    fn shifted(&self, by: i64, data: i64) -> Self {
        if (by, data) == (0, 0) {
            return self.clone();
        }
        let rounds = self.rounds.iter().map(|round| Arc::new(round.shifted(by, data)));
        Self { domains: self.domains.shifted(by), dense: self.dense, rounds: rounds.collect() }
    }
}

/// What a rank knows of an access from earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// What this rank brings, if it is known.
    mine: Option<Summary>,
    /// The slots whose plans it may repeat, as bits, and above them those whose plans it may move.
    slots: u64,
    /// How much further it lies than the plan to be moved.
    further: Option<i64>,
}

impl Offer {
    /// What this rank brings, together with what it offers.
    pub(crate) fn tell(&self, mine: impl FnOnce() -> Summary) -> Summary {
        let mine = self.mine.unwrap_or_else(mine).known_as(self.slots);
        self.further.map_or(mine, |by| mine.further(by))
    }
}

struct Entry {
    key: Key,
    /// What this rank brings.
    mine: Summary,
    planned: Planned,
}

/// The plans of an open file.
#[derive(Default)]
pub(crate) struct Cache {
    slots: [Option<Entry>; SLOTS],
    /// The slots in use, the one used longest ago first: the same on all ranks.
    order: VecDeque<usize>,
}

impl Cache {
    /// What this rank knows of an access.
    pub(crate) fn offer(&self, key: &Key) -> Offer {
        let mut offer = Offer::default();
        // Those used last come first.
        for at in self.order.iter().rev() {
            let Some(slot) = &self.slots[*at] else { continue };
            match key.beyond(&slot.key) {
                Some(_) if slot.key == *key => {
                    offer.slots |= 1 << at;
                    offer.mine = Some(slot.mine);
                }
                Some(Place::Further(by)) if offer.further.is_none() => {
                    offer.slots |= 1 << (SLOTS + at);
                    offer.further = Some(by);
                }
                _ => {}
            }
            // Who accesses nothing goes with the others.
            if key.beyond(&slot.key) == Some(Place::Anywhere) {
                offer.slots |= 1 << (SLOTS + at);
            }
        }
        offer
    }

    /// The plan of an access like `key` in the first of the slots that all ranks have offered, moved there if need be: what they offered and told,
    /// merged, is `all`. `fits` says whether a plan may be moved so far.
    pub(crate) fn recall(&mut self, key: &Key, all: &Summary, fits: impl Fn(i64) -> bool) -> Option<Planned> {
        let first = |offered: u64| (0..SLOTS).find(|at| offered & 1 << at != 0);
        let moved = || {
            let by = all.shift().filter(|by| fits(*by))?;
            first(all.known() >> SLOTS).map(|at| (at, by))
        };
        let (at, by) = first(all.known()).map(|at| (at, 0)).or_else(moved)?;
        let slot = self.slots[at].as_ref()?;
        let planned = slot.planned.shifted(by, key.window.start as i64 - slot.key.window.start as i64);
        self.use_slot(at);
        // Where ranks lie elsewhere than their shifts say, the plan is another's.
        (all.hull().as_ref() == Some(planned.domains.exact())).then_some(planned)
    }

    /// Keeps a plan, in the place of the one used longest ago. All ranks do, also those whose rounds were too heavy to keep.
    pub(crate) fn keep(&mut self, key: Key, mine: Summary, planned: Option<Planned>) {
        let free = (0..SLOTS).find(|at| !self.order.contains(at));
        let at = free.or_else(|| self.order.front().copied()).unwrap_or(0);
        self.use_slot(at);
        self.slots[at] = planned.map(|planned| Entry { key, mine, planned });
    }

    fn use_slot(&mut self, at: usize) {
        self.order.retain(|used| *used != at);
        self.order.push_back(at);
    }
}

/// The rounds of one access as they come: from the last access like it, or planned on the way.
#[derive(Default)]
pub(crate) struct Rounds {
    known: Option<Arc<[Arc<Round>]>>,
    /// Planned and not yet taken.
    ahead: VecDeque<Arc<Round>>,
    /// All that were planned, as long as they are light enough to be kept.
    kept: Vec<Arc<Round>>,
    weight: usize,
    planned: u64,
}

impl Rounds {
    /// Of a plan that was kept.
    pub(crate) fn known(rounds: Arc<[Arc<Round>]>) -> Self {
        Self { known: Some(rounds), ..Self::default() }
    }

    /// The next round, `number`, if it is planned.
    pub(crate) fn next(&mut self, number: u64) -> Option<Arc<Round>> {
        match &self.known {
            Some(rounds) => rounds.get(number as usize).cloned(),
            None => self.ahead.pop_front(),
        }
    }

    /// Adds a round that has been planned, to be taken.
    pub(crate) fn add(&mut self, round: Round) {
        let round = Arc::new(round);
        self.ahead.push_back(Arc::clone(&round));
        self.planned += 1;
        self.weight += round.weight();
        if self.weight <= HEAVIEST {
            self.kept.push(round);
        } else {
            self.kept = Vec::new();
        }
    }

    /// How many rounds were planned for this access.
    pub(crate) fn planned(&self) -> u64 {
        self.planned
    }

    /// All rounds to be kept: none if they are too heavy.
    pub(crate) fn into_kept(self) -> Option<Arc<[Arc<Round>]>> {
        (self.weight <= HEAVIEST).then(|| self.kept.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    fn key(first: u64) -> Key {
        let pattern = Layout::bytes(8).unwrap().endless(0).unwrap();
        Key { direction: Direction::Write, pattern, window: first..first + 8 }
    }

    fn planned(rounds: usize) -> Planned {
        let hints = crate::Hints::default();
        let domains = Domains::new(0..8, Arc::from([0]), &hints, &aqueduct_device::Capabilities::default());
        Planned { domains, dense: false, rounds: vec![Arc::default(); rounds].into() }
    }

    /// What all ranks tell, if all are like this one.
    fn all(slots: u64, hull: Range<u64>) -> Summary {
        let pattern = Layout::bytes(8).unwrap().endless(0).unwrap();
        Summary::of(&pattern, hull).known_as(slots)
    }

    #[test]
    fn a_plan_is_found_by_its_access_until_eight_others_came() {
        let mut cache = Cache::default();
        assert_eq!(cache.offer(&key(0)), Offer::default());
        for first in 0..8 {
            cache.keep(key(first), Summary::NOTHING, Some(planned(first as usize)));
        }
        let exact = |cache: &Cache, first| cache.offer(&key(first)).slots & 0xff;
        assert_eq!(exact(&cache, 0), 1);
        assert_eq!(cache.recall(&key(0), &all(1, 0..8), |_| true).unwrap().rounds.len(), 0);
        // The first was just used: the second goes.
        cache.keep(key(8), Summary::NOTHING, Some(planned(8)));
        assert_eq!((exact(&cache, 0), exact(&cache, 1), exact(&cache, 8)), (1, 0, 2));
        assert_eq!(cache.recall(&key(8), &all(0b110, 0..8), |_| true).unwrap().rounds.len(), 8);
        assert!(cache.recall(&key(8), &all(0, 0..8), |_| true).is_none());
    }

    #[test]
    fn an_empty_slot_is_never_offered_and_one_access_may_have_several() {
        let mut cache = Cache::default();
        cache.keep(key(5), Summary::NOTHING, None);
        assert_eq!(cache.offer(&key(5)), Offer::default());
        cache.keep(key(5), Summary::NOTHING, Some(planned(1)));
        cache.keep(key(5), Summary::NOTHING, Some(planned(2)));
        let offer = Offer { mine: Some(Summary::NOTHING), slots: 0b110, further: None };
        assert_eq!(cache.offer(&key(5)), offer);
    }

    #[test]
    fn a_plan_moves_with_its_access_if_all_ranks_move_equally() {
        let mut cache = Cache::default();
        cache.keep(key(0), Summary::NOTHING, Some(planned(1)));
        let offer = cache.offer(&key(24));
        assert_eq!(offer, Offer { mine: None, slots: 1 << SLOTS, further: Some(24) });
        let told = offer.tell(|| all(0, 24..32));
        let moved = cache.recall(&key(24), &told, |_| true).unwrap();
        assert_eq!(moved.domains.exact(), &(24..32));
        assert!(cache.recall(&key(24), &told, |by| by % 16 == 0).is_none());
        let mut unequal = told;
        unequal.merge(&told.further(8));
        assert!(cache.recall(&key(24), &unequal, |_| true).is_none());
        // Who accesses nothing goes with whoever else moves.
        let nothing = Key { window: 3..3, ..key(0) };
        cache.keep(nothing, Summary::NOTHING, Some(planned(1)));
        let offer = cache.offer(&Key { window: 9..9, ..key(0) });
        assert_eq!(offer, Offer { mine: None, slots: 2 << SLOTS, further: None });
    }

    #[test]
    fn heavy_rounds_are_used_and_not_kept() {
        let heavy = || Round { ranges: vec![0..1; 3_000], ..Round::default() };
        let mut rounds = Rounds::default();
        rounds.add(heavy());
        assert_eq!(rounds.next(0).map(|round| round.ranges.len()), Some(3_000));
        rounds.add(heavy());
        assert!(rounds.next(1).is_some() && rounds.next(2).is_none());
        assert_eq!(rounds.planned(), 2);
        assert!(rounds.into_kept().is_none());
    }
}
