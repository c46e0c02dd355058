//! The plan cache: a program that repeats a step, or writes the next step after it, plans nothing.
//!
//! Which plan an access repeats must be the same on all ranks. Plans lie in numbered slots that all ranks fill in the same order; a rank
//! has as candidates the slots whose access is like its own, and a slot that is a candidate on all ranks is the plan. A rank whose plan was
//! too large to keep has an empty slot, which is never a candidate.
//!
//! An access may also be like one at another offset of the file. The last such slot is a candidate too, with the distance between the two
//! accesses; if that is the same on all ranks, the plan is shifted.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::hints::TransferDirection;
use crate::layout::Pattern;
use crate::plan::{AccessSummary, ExchangePlan, ExchangeRound};

/// Plans in the cache.
const SLOTS: usize = 8;
/// The rounds of a plan may take so many bytes of memory.
const LARGEST_PLAN: usize = 64 << 10;

/// What distinguishes accesses of a rank with the same view and hints.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AccessKey {
    pub(crate) direction: TransferDirection,
    pub(crate) pattern: Pattern,
    pub(crate) window: Range<u64>,
}

impl AccessKey {
    /// The shift from `other` to it in the file, if they are alike otherwise. An empty access has any shift.
    fn shift_from(&self, other: &Self) -> Option<PlanShift> {
        let alike = self.direction == other.direction && self.pattern == other.pattern;
        let len = |key: &Self| key.window.end - key.window.start;
        if !alike || len(self) != len(other) {
            return None;
        }
        if self.window.is_empty() {
            return Some(PlanShift::Any);
        }
        let (data, extent) = self.pattern.period()?;
        let moved = self.window.start as i64 - other.window.start as i64;
        let (data, extent) = (i64::try_from(data).ok()?, i64::try_from(extent).ok()?);
        if moved % data == 0 { (moved / data).checked_mul(extent).map(PlanShift::By) } else { None }
    }
}

/// The distance of an access from a cached one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlanShift {
    /// The access is empty.
    Any,
    /// So many bytes.
    By(i64),
}

/// An exchange, and this rank's transfers in each of its rounds.
#[derive(Clone, Debug)]
pub(crate) struct CachedPlan {
    pub(crate) exchange: ExchangePlan,
    pub(crate) rounds: Arc<[Arc<ExchangeRound>]>,
}

impl CachedPlan {
    /// The same `by` bytes further in the file, for data that begins `data` bytes later.
    fn shifted(&self, by: i64, data: i64) -> Self {
        if (by, data) == (0, 0) {
            return self.clone();
        }
        let rounds = self.rounds.iter().map(|round| Arc::new(round.shifted(by, data)));
        let ExchangePlan { domains, dense } = &self.exchange;
        let exchange = ExchangePlan { domains: domains.shifted(by), dense: *dense };
        Self { exchange, rounds: rounds.collect() }
    }
}

/// The cached plans that an access of this rank may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlanCandidates {
    /// The summary of this rank's part, if it is known.
    mine: Option<AccessSummary>,
    /// The slots whose plans it may repeat, as bits, and above them those whose plans it may shift.
    slots: u64,
    /// The distance from the plan to be shifted.
    shift: Option<i64>,
}

impl PlanCandidates {
    /// The summary of this rank's part with its candidates.
    pub(crate) fn add_to(&self, mine: impl FnOnce() -> AccessSummary) -> AccessSummary {
        let mine = self.mine.unwrap_or_else(mine).with_candidates(self.slots);
        self.shift.map_or(mine, |by| mine.with_shift(by))
    }
}

struct CacheEntry {
    key: AccessKey,
    /// The summary of this rank's part.
    mine: AccessSummary,
    plan: CachedPlan,
}

/// The plans of an open file.
#[derive(Default)]
pub(crate) struct PlanCache {
    slots: [Option<CacheEntry>; SLOTS],
    /// The slots in use, the least recently used one first: the same on all ranks.
    order: VecDeque<usize>,
}

impl PlanCache {
    /// The cached plans that an access may use.
    pub(crate) fn candidates(&self, key: &AccessKey) -> PlanCandidates {
        let mut candidates = PlanCandidates::default();
        // The most recently used slots come first.
        for at in self.order.iter().rev() {
            let Some(slot) = &self.slots[*at] else { continue };
            match key.shift_from(&slot.key) {
                Some(_) if slot.key == *key => {
                    candidates.slots |= 1 << at;
                    candidates.mine = Some(slot.mine);
                }
                Some(PlanShift::By(by)) if candidates.shift.is_none() => {
                    candidates.slots |= 1 << (SLOTS + at);
                    candidates.shift = Some(by);
                }
                _ => {}
            }
            // An empty access may use any shift.
            if key.shift_from(&slot.key) == Some(PlanShift::Any) {
                candidates.slots |= 1 << (SLOTS + at);
            }
        }
        candidates
    }

    /// The plan of an access like `key`, shifted if necessary, from the first slot that is a candidate on all ranks, whose merged summaries are
    /// `all`. `may_shift` says whether a plan may be shifted so far.
    pub(crate) fn lookup(
        &mut self,
        key: &AccessKey,
        all: &AccessSummary,
        may_shift: impl Fn(i64) -> bool,
    ) -> Option<CachedPlan> {
        let first = |candidates: u64| (0..SLOTS).find(|at| candidates & 1 << at != 0);
        let shifted = || {
            let by = all.shift().filter(|by| may_shift(*by))?;
            first(all.candidates() >> SLOTS).map(|at| (at, by))
        };
        let (at, by) = first(all.candidates()).map(|at| (at, 0)).or_else(shifted)?;
        let slot = self.slots[at].as_ref()?;
        let plan = slot.plan.shifted(by, key.window.start as i64 - slot.key.window.start as i64);
        self.use_slot(at);
        // If the ranks' accesses are not where the shifts say, the plan is that of another access.
        (all.span().as_ref() == Some(plan.exchange.domains.span())).then_some(plan)
    }

    /// Inserts a plan, in place of the least recently used one. All ranks do, also those whose rounds were too large to keep.
    pub(crate) fn insert(&mut self, key: AccessKey, mine: AccessSummary, plan: Option<CachedPlan>) {
        let free = (0..SLOTS).find(|at| !self.order.contains(at));
        let at = free.or_else(|| self.order.front().copied()).unwrap_or(0);
        self.use_slot(at);
        self.slots[at] = plan.map(|plan| CacheEntry { key, mine, plan });
    }

    fn use_slot(&mut self, at: usize) {
        self.order.retain(|used| *used != at);
        self.order.push_back(at);
    }
}

/// The rounds of one access: from the cache, or set up on the way.
#[derive(Default)]
pub(crate) struct RoundSource {
    cached: Option<Arc<[Arc<ExchangeRound>]>>,
    /// Set up and not executed yet.
    ahead: VecDeque<Arc<ExchangeRound>>,
    /// All that were set up, as long as they are small enough to be kept.
    kept: Vec<Arc<ExchangeRound>>,
    size: usize,
    planned: u64,
}

impl RoundSource {
    /// Of a cached plan.
    pub(crate) fn cached(rounds: Arc<[Arc<ExchangeRound>]>) -> Self {
        Self { cached: Some(rounds), ..Self::default() }
    }

    /// The next round, `number`, if it was set up.
    pub(crate) fn next(&mut self, number: u64) -> Option<Arc<ExchangeRound>> {
        match &self.cached {
            Some(rounds) => rounds.get(number as usize).cloned(),
            None => self.ahead.pop_front(),
        }
    }

    /// Adds a round that was set up.
    pub(crate) fn add(&mut self, round: ExchangeRound) {
        let round = Arc::new(round);
        self.ahead.push_back(Arc::clone(&round));
        self.planned += 1;
        self.size += round.memory_size();
        if self.size <= LARGEST_PLAN {
            self.kept.push(round);
        } else {
            self.kept = Vec::new();
        }
    }

    /// How many rounds were planned for this access.
    pub(crate) fn planned(&self) -> u64 {
        self.planned
    }

    /// All rounds, for the cache; none if they are too large.
    pub(crate) fn into_kept(self) -> Option<Arc<[Arc<ExchangeRound>]>> {
        (self.size <= LARGEST_PLAN).then(|| self.kept.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::plan::FileDomains;

    fn key(first: u64) -> AccessKey {
        let pattern = Layout::bytes(8).unwrap().endless(0).unwrap();
        AccessKey { direction: TransferDirection::Write, pattern, window: first..first + 8 }
    }

    fn planned(rounds: usize) -> CachedPlan {
        let hints = crate::hints::Hints::default();
        let domains =
            FileDomains::new(0..8, Arc::from([0]), &hints, &aqueduct_device::Capabilities::default());
        CachedPlan {
            exchange: ExchangePlan { domains, dense: false },
            rounds: vec![Arc::default(); rounds].into(),
        }
    }

    /// The merged summary, if all ranks are like this one.
    fn all(slots: u64, span: Range<u64>) -> AccessSummary {
        let pattern = Layout::bytes(8).unwrap().endless(0).unwrap();
        AccessSummary::of(&pattern, span).with_candidates(slots)
    }

    #[test]
    fn a_plan_is_found_until_eight_others_were_used() {
        let mut cache = PlanCache::default();
        assert_eq!(cache.candidates(&key(0)), PlanCandidates::default());
        for first in 0..8 {
            cache.insert(key(first), AccessSummary::NOTHING, Some(planned(first as usize)));
        }
        let exact = |cache: &PlanCache, first| cache.candidates(&key(first)).slots & 0xff;
        assert_eq!(exact(&cache, 0), 1);
        assert_eq!(cache.lookup(&key(0), &all(1, 0..8), |_| true).unwrap().rounds.len(), 0);
        // The first was just used: the second goes.
        cache.insert(key(8), AccessSummary::NOTHING, Some(planned(8)));
        assert_eq!((exact(&cache, 0), exact(&cache, 1), exact(&cache, 8)), (1, 0, 2));
        assert_eq!(cache.lookup(&key(8), &all(0b110, 0..8), |_| true).unwrap().rounds.len(), 8);
        assert!(cache.lookup(&key(8), &all(0, 0..8), |_| true).is_none());
    }

    #[test]
    fn an_empty_slot_is_no_candidate_and_one_access_may_have_several() {
        let mut cache = PlanCache::default();
        cache.insert(key(5), AccessSummary::NOTHING, None);
        assert_eq!(cache.candidates(&key(5)), PlanCandidates::default());
        cache.insert(key(5), AccessSummary::NOTHING, Some(planned(1)));
        cache.insert(key(5), AccessSummary::NOTHING, Some(planned(2)));
        let candidates = PlanCandidates { mine: Some(AccessSummary::NOTHING), slots: 0b110, shift: None };
        assert_eq!(cache.candidates(&key(5)), candidates);
    }

    #[test]
    fn a_plan_is_shifted_if_the_shift_is_the_same_on_all_ranks() {
        let mut cache = PlanCache::default();
        cache.insert(key(0), AccessSummary::NOTHING, Some(planned(1)));
        let candidates = cache.candidates(&key(24));
        assert_eq!(candidates, PlanCandidates { mine: None, slots: 1 << SLOTS, shift: Some(24) });
        let merged = candidates.add_to(|| all(0, 24..32));
        let shifted = cache.lookup(&key(24), &merged, |_| true).unwrap();
        assert_eq!(shifted.exchange.domains.span(), &(24..32));
        assert!(cache.lookup(&key(24), &merged, |by| by % 16 == 0).is_none());
        let mut unequal = merged;
        unequal.merge(&merged.with_shift(8));
        assert!(cache.lookup(&key(24), &unequal, |_| true).is_none());
        // An empty access may use any shift.
        let nothing = AccessKey { window: 3..3, ..key(0) };
        cache.insert(nothing, AccessSummary::NOTHING, Some(planned(1)));
        let candidates = cache.candidates(&AccessKey { window: 9..9, ..key(0) });
        assert_eq!(candidates, PlanCandidates { mine: None, slots: 2 << SLOTS, shift: None });
    }

    #[test]
    fn large_rounds_are_used_and_not_kept() {
        let large = || ExchangeRound { ranges: vec![0..1; 3_000], ..ExchangeRound::default() };
        let mut rounds = RoundSource::default();
        rounds.add(large());
        assert_eq!(rounds.next(0).map(|round| round.ranges.len()), Some(3_000));
        rounds.add(large());
        assert!(rounds.next(1).is_some() && rounds.next(2).is_none());
        assert_eq!(rounds.planned(), 2);
        assert!(rounds.into_kept().is_none());
    }
}
