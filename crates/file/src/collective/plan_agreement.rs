//! The agreement on a plan: the ranks merge the summaries of their parts, and each computes the same plan from the result.

use std::ops::Range;
use std::sync::atomic::Ordering;

use aqueduct_comm::Comm;

use super::plan_cache::{AccessKey, CachedPlan, RoundSource};
use super::{CollectiveIo, CollectivePart};
use crate::context::{AccessScope, FileContext};
use crate::error::Result;
use crate::hints::TransferDirection;
use crate::independent::{IndependentIo, report_plan};
use crate::plan::{
    AccessFacts, AccessSize, AccessSummary, Estimate, ExchangePlan, PlanInput, RankTopology, add_estimates,
    compares_costs, keeps_alignment, make_plan, uses_two_phase,
};
use crate::trace::{self, CallPhase};

/// A plan that is the same on all ranks.
pub(super) struct AgreedPlan {
    pub(super) direction: TransferDirection,
    /// The size of this rank's part, if it was needed.
    pub(super) size: Option<AccessSize>,
    /// The exchange of a two-phase access; none if each rank accesses its own bytes.
    pub(super) exchange: Option<AgreedExchange>,
}

/// The exchange of a two-phase access.
pub(super) struct AgreedExchange {
    /// The estimated cost for this rank.
    pub(super) estimate: Estimate,
    pub(super) plan: ExchangePlan,
    /// The rounds, as far as they are known already.
    pub(super) rounds: RoundSource,
    /// For a plan that is not in the cache yet.
    pub(super) new: Option<(AccessKey, AccessSummary)>,
}

impl RankTopology for Comm {
    fn ranks(&self) -> usize {
        self.size()
    }

    fn nodes(&self) -> usize {
        self.node_count()
    }

    fn rank_at(&self, node: usize, place: usize) -> Option<usize> {
        self.ranks_of_node(node).get(place).copied()
    }
}

impl CollectiveIo {
    /// Merges the parts of all ranks and plans from the result. A plan that all ranks have cached is not made again.
    pub(super) fn agree_on_plan(
        &self,
        cx: &FileContext,
        independent: &IndependentIo,
        part: CollectivePart<'_>,
        direction: TransferDirection,
        window: &Range<u64>,
    ) -> Result<AgreedPlan> {
        // A view that comes with the access is known to its own rank only.
        let is_known = !part.has_own_view && self.all_views_contiguous.load(Ordering::Acquire);
        if is_known && cx.hints().leaves_open(direction) {
            return Ok(AgreedPlan { direction, size: None, exchange: None });
        }
        let pattern = part.pattern;
        let key = AccessKey { direction, pattern: pattern.clone(), window: window.clone() };
        let mine = self.plan_cache().candidates(&key).add_to(|| AccessSummary::of(pattern, window.clone()));
        let measure = || independent.measure_size(cx, direction, pattern, window);
        let estimates = compares_costs(&*cx.comm, &cx.capabilities) && !window.is_empty();
        let size = estimates.then(measure);
        let costs = independent.cost_scope(AccessScope::Collective, size);
        let summary = size
            .map_or(mine, |size| costs.with_model(cx, |model| add_estimates(mine, direction, &size, model)));
        let all = merge_summaries(cx, &summary)?;
        // Conflicting atomic accesses must be serialised: each rank locks and accesses its own bytes.
        if cx.is_atomic() || !uses_two_phase(direction, &all, &cx.hints()) {
            return Ok(AgreedPlan { direction, size, exchange: None });
        }
        let keeps_alignment = |by: i64| keeps_alignment(by, &cx.hints(), &cx.capabilities);
        let cached = self.plan_cache().lookup(&key, &all, keeps_alignment);
        let new = cached.is_none().then_some((key, mine));
        let (cached, rounds) =
            cached.map(|CachedPlan { exchange, rounds }| (exchange, RoundSource::cached(rounds))).unzip();
        let size = size.unwrap_or_else(measure);
        let plan = costs.with_model(cx, |model| {
            let access = AccessFacts::AllRanks { size, summary: &all, topology: &*cx.comm, cached };
            let plan = make_plan(PlanInput { direction, model: *model, access });
            if plan.exchange.is_some() {
                report_plan(cx, direction, model, size, plan.estimate);
            }
            plan
        });
        let exchange = plan.exchange.map(|exchange| AgreedExchange {
            estimate: plan.estimate,
            plan: exchange,
            rounds: rounds.unwrap_or_default(),
            new,
        });
        Ok(AgreedPlan { direction, size: Some(size), exchange })
    }
}

/// The summaries of all ranks, merged. Collective.
fn merge_summaries(cx: &FileContext, mine: &AccessSummary) -> Result<AccessSummary> {
    let _phase = trace::enter(CallPhase::Wait);
    let all = cx.comm.allreduce_with(&[mine.words()], |into, with| {
        let mut sum = AccessSummary::from_words(into);
        sum.merge(&AccessSummary::from_words(with));
        *into = sum.words();
    });
    Ok(AccessSummary::from_words(&cx.comm_result("plan", all)?[0]))
}
