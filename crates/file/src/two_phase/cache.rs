//! Plans kept for the next access like them: a program that writes the same step again plans nothing.
//!
//! Which plan an access repeats must be the same on all ranks. Plans lie in numbered slots that all ranks fill in the same order; a rank
//! offers the slots whose access looks like its own, and what all ranks offer is the plan. A rank whose plan was too large to keep
//! holds an empty slot, which it never offers.

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

/// A plan, and what this rank does in each of its rounds.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) domains: Domains,
    /// Whether the ranks' bytes are known to have no gaps.
    pub(crate) dense: bool,
    pub(crate) rounds: Arc<[Arc<Round>]>,
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
    /// What this rank brings, if it is known, and the slots it may repeat, as bits.
    pub(crate) fn offer(&self, key: &Key) -> (Option<Summary>, u64) {
        let fitting = self.slots.iter().enumerate();
        let fitting =
            fitting.filter_map(|(at, slot)| Some((at, slot.as_ref().filter(|slot| slot.key == *key)?)));
        fitting.fold((None, 0), |(_, bits), (at, slot)| (Some(slot.mine), bits | 1 << at))
    }

    /// The plan in the first of the slots that all ranks have offered.
    pub(crate) fn recall(&mut self, offered: u64) -> Option<Planned> {
        let at = (0..SLOTS).find(|at| offered & 1 << at != 0)?;
        self.use_slot(at);
        self.slots[at].as_ref().map(|slot| slot.planned.clone())
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

    #[test]
    fn a_plan_is_found_by_its_access_until_eight_others_came() {
        let mut cache = Cache::default();
        assert_eq!(cache.offer(&key(0)).1, 0);
        for first in 0..8 {
            cache.keep(key(first), Summary::NOTHING, Some(planned(first as usize)));
        }
        assert_eq!(cache.offer(&key(0)).1, 1);
        assert_eq!(cache.recall(1).unwrap().rounds.len(), 0);
        // The first was just used: the second goes.
        cache.keep(key(8), Summary::NOTHING, Some(planned(8)));
        assert_eq!((cache.offer(&key(0)).1, cache.offer(&key(1)).1, cache.offer(&key(8)).1), (1, 0, 2));
        assert_eq!(cache.recall(0b110).unwrap().rounds.len(), 8);
        assert!(cache.recall(0).is_none());
    }

    #[test]
    fn an_empty_slot_is_never_offered_and_one_access_may_have_several() {
        let mut cache = Cache::default();
        cache.keep(key(5), Summary::NOTHING, None);
        assert_eq!(cache.offer(&key(5)), (None, 0));
        cache.keep(key(5), Summary::NOTHING, Some(planned(1)));
        cache.keep(key(5), Summary::NOTHING, Some(planned(2)));
        assert_eq!(cache.offer(&key(5)), (Some(Summary::NOTHING), 0b110));
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
