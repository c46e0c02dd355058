//! Planning: one pure function, [`make_plan`], from facts about an access to a value that says how it is done. No I/O, no ranks.
//!
//! The facts are the size of the access or the merged accesses of all ranks, hints, capabilities of the device, and a cost model that
//! executors correct by measured costs. The plan is a strategy with its estimated cost and, for two-phase I/O, the file domains. What a
//! rank does in each round of a two-phase access follows from the domains by the arithmetic in `exchange_round` and `node_message`.
//!
//! Two-phase I/O, data sieving and list I/O: Thakur, Gropp, Lusk, "Data Sieving and Collective I/O in ROMIO", Frontiers 1999,
//! <https://doi.org/10.1109/FMPC.1999.750599>.

mod access_summary;
mod cost_model;
mod coverage;
mod exchange_round;
mod file_domains;
mod node_message;
mod strategy;
mod strategy_report;
#[cfg(test)]
mod tests;

pub(crate) use access_summary::AccessSummary;
pub(crate) use cost_model::{
    AccessSize, Calibration, ConsecutiveCount, CostModel, Estimate, RunCosts, Smoothing, THRESHOLDS,
};
pub(crate) use coverage::Coverage;
pub(crate) use exchange_round::{
    ExchangeRound, IncomingMessage, LocalPart, OutgoingMessage, RemotePart, aggregator_ranges, data_inside,
    local_parts, node_sender,
};
pub(crate) use file_domains::{AggregatorWindow, FileDomains, RankTopology, keeps_alignment};
#[cfg(test)]
pub(crate) use node_message::runs_of;
pub(crate) use node_message::{NodeMessage, assign_steps, merge_ranges};
pub(crate) use strategy::{
    RunFacts, RunMapping, compares_costs, is_announced, is_measurable_run, may_map_runs, uses_two_phase,
};
pub(crate) use strategy_report::StrategyReport;

use crate::hints::{Strategy, TransferDirection};

/// What is known of an access when it is planned.
pub(crate) struct PlanInput<'a> {
    pub(crate) direction: TransferDirection,
    pub(crate) model: CostModel<'a>,
    pub(crate) access: AccessFacts<'a>,
}

/// The access itself.
pub(crate) enum AccessFacts<'a> {
    /// Several runs, accessed by one rank.
    OneRank(AccessSize),
    /// A collective access.
    AllRanks {
        /// The size of this rank's part.
        size: AccessSize,
        /// The parts of all ranks, merged.
        summary: &'a AccessSummary,
        topology: &'a dyn RankTopology,
        /// The exchange of an earlier access like this one, which need not be planned again.
        cached: Option<ExchangePlan>,
    },
}

/// How an access is done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AccessPlan {
    /// The strategy of this rank, and its estimated cost.
    pub(crate) estimate: Estimate,
    /// True if the time that the access takes predicts the time of later ones.
    pub(crate) is_measured: bool,
    /// For two-phase I/O: which rank accesses which part of the file. The same value on every rank.
    pub(crate) exchange: Option<ExchangePlan>,
}

/// The exchange of a two-phase access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExchangePlan {
    pub(crate) domains: FileDomains,
    /// True if the ranks' bytes are known to have no gaps.
    pub(crate) dense: bool,
}

/// Plans a write of one rank to one contiguous run of the file: by a system call, or through mapped pages. It needs no cost model:
/// measured costs come with the facts. Reads are always done by a system call: the length of the file would have to be asked for
/// before and after the copy, which costs more than the call.
pub(crate) fn make_run_plan(facts: &RunFacts) -> AccessPlan {
    let (estimate, is_measured) = strategy::choose_for_run(facts);
    AccessPlan { estimate, is_measured, exchange: None }
}

/// Plans an access: strategy, estimated cost and file domains.
pub(crate) fn make_plan(input: PlanInput<'_>) -> AccessPlan {
    let PlanInput { direction, model, access } = input;
    let alone = |estimate, is_measured| AccessPlan { estimate, is_measured, exchange: None };
    match access {
        AccessFacts::OneRank(size) => alone(strategy::choose_independent(direction, &size, &model), true),
        AccessFacts::AllRanks { size, summary, topology, cached } => {
            let exchange = cached.or_else(|| strategy::plan_exchange(direction, summary, topology, &model));
            match exchange {
                Some(exchange) => AccessPlan {
                    estimate: model.estimate(direction, Strategy::TwoPhase, &size),
                    is_measured: true,
                    exchange: Some(exchange),
                },
                None => alone(strategy::choose_independent(direction, &size, &model), true),
            }
        }
    }
}

/// The summary of this rank's part of a collective access with its estimated costs, in nanoseconds: by itself, and in two phases.
pub(crate) fn add_estimates(
    summary: AccessSummary,
    direction: TransferDirection,
    size: &AccessSize,
    model: &CostModel<'_>,
) -> AccessSummary {
    let independent = strategy::choose_independent(direction, size, model);
    let two_phase = model.estimate(direction, Strategy::TwoPhase, size);
    summary.with_costs(independent.nanoseconds, two_phase.nanoseconds)
}
