//! The choice of a strategy: by the hints, or by the lowest estimated cost.

use super::cost_model::{AccessSize, CostModel, Estimate, THRESHOLDS};
use super::file_domains::{FileDomains, RankTopology, choose_aggregators};
use super::{AccessSummary, ExchangePlan};
use crate::hints::{Hints, Strategy, Toggle, TransferDirection};
use aqueduct_device::Capabilities;

/// Facts about a write to one contiguous run of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunFacts {
    /// Bytes of the run.
    pub(crate) bytes: u64,
    /// True if a hint has chosen mapped I/O.
    pub(crate) is_forced: bool,
    /// True if its pages were made present ahead of a sequence of small accesses.
    pub(crate) is_leased: bool,
    /// Its mapping, if it was accessed often enough to have one.
    pub(crate) mapping: Option<RunMapping>,
}

/// A run that could be accessed through mapped pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunMapping {
    /// True if its pages were touched before.
    pub(crate) is_present: bool,
    /// Measured costs of a byte in nanoseconds: by a system call, and by a copy.
    pub(crate) costs: [Option<f64>; 2],
    /// True if the strategy that was more expensive is to be tried again.
    pub(crate) is_retry: bool,
}

/// The strategies of a run, in the order of [`RunMapping::costs`].
const RUN_STRATEGIES: [Strategy; 2] = [Strategy::List, Strategy::Map];

impl RunMapping {
    /// Both strategies with their estimated costs; not a number before they were tried.
    pub(crate) fn estimates(&self, bytes: u64) -> [Estimate; 2] {
        [0, 1].map(|at: usize| Estimate {
            strategy: RUN_STRATEGIES[at],
            nanoseconds: self.costs[at].map_or(f64::NAN, |cost| cost * bytes as f64),
        })
    }

    pub(super) fn cheapest(&self, bytes: u64) -> Estimate {
        let [call, copy] = self.costs;
        let copies = call.is_none() || copy.is_none_or(|copy| Some(copy) <= call);
        self.estimates(bytes)[usize::from(copies != self.is_retry)]
    }
}

/// True if runs may be accessed through mapped pages.
pub(crate) fn may_map_runs(hints: &Hints, capabilities: &Capabilities) -> bool {
    capabilities.maps && hints.map && hints.strategy.is_none_or(|strategy| strategy == Strategy::Map)
}

/// True if the time of an access to one run depends on its bytes more than on the system call.
pub(crate) fn is_measurable_run(bytes: u64) -> bool {
    bytes >= THRESHOLDS.shortest_measured_run
}

/// True if the device gets a hint before a write of so many bytes to a new file.
pub(crate) fn is_announced(bytes: u64) -> bool {
    bytes >= THRESHOLDS.shortest_write_hint
}

/// True if ranks estimate the costs of a collective access: in one machine's page cache independent
/// I/O may be cheaper.
pub(crate) fn compares_costs(topology: &dyn RankTopology, capabilities: &Capabilities) -> bool {
    capabilities.maps && topology.nodes() == 1
}

/// The strategy of one run, and whether the time that it takes predicts the time of later accesses: not if it makes pages present, which
/// later accesses find.
pub(super) fn choose_for_run(facts: &RunFacts) -> (Estimate, bool) {
    let is_measurable = is_measurable_run(facts.bytes);
    let unknown = |strategy| Estimate { strategy, nanoseconds: f64::NAN };
    if facts.is_leased {
        return (unknown(Strategy::Map), false);
    }
    match facts.mapping {
        Some(_) if facts.is_forced => (unknown(Strategy::Map), false),
        Some(mapping) => {
            let estimate = mapping.cheapest(facts.bytes);
            let makes_pages = estimate.strategy == Strategy::Map && !mapping.is_present;
            (estimate, !makes_pages && is_measurable)
        }
        None => (unknown(Strategy::List), is_measurable),
    }
}

/// The strategy of one rank by itself.
pub(super) fn choose_independent(
    direction: TransferDirection,
    size: &AccessSize,
    model: &CostModel<'_>,
) -> Estimate {
    let hints = model.hints;
    let toggle = match direction {
        TransferDirection::Read => hints.sieve_read,
        TransferDirection::Write => hints.sieve_write,
    };
    let forced = match (hints.strategy, toggle) {
        // Two-phase I/O needs a collective call, mapped I/O a device with mappings.
        (Some(Strategy::TwoPhase), _) | (None, Toggle::Automatic | Toggle::Disable) => None,
        (Some(Strategy::Map), _) if !model.capabilities.maps || !hints.map => None,
        (Some(strategy), _) => Some(strategy),
        (None, Toggle::Enable) => Some(Strategy::Sieve),
    };
    match forced {
        Some(strategy) => model.estimate(direction, strategy, size),
        None => model.cheapest(direction, size),
    }
}

/// True if the ranks whose accesses are merged in `summary` exchange data: by the hints, or by the estimated cost.
pub(crate) fn uses_two_phase(direction: TransferDirection, summary: &AccessSummary, hints: &Hints) -> bool {
    let wanted = match (hints.strategy, hints.collective(direction)) {
        (Some(strategy), _) => strategy == Strategy::TwoPhase,
        (None, Toggle::Enable) => true,
        (None, Toggle::Disable) => false,
        (None, Toggle::Automatic) => {
            summary.prefers_two_phase().unwrap_or_else(|| gains_from_exchange(direction, summary))
        }
    };
    // If a view shows a byte twice, a window of the file is not one slice of its data.
    wanted && !summary.shows_twice()
}

/// The exchange of a collective access, if there is to be one.
pub(super) fn plan_exchange(
    direction: TransferDirection,
    summary: &AccessSummary,
    topology: &dyn RankTopology,
    model: &CostModel<'_>,
) -> Option<ExchangePlan> {
    let (hints, capabilities) = (model.hints, model.capabilities);
    let span = summary.span().filter(|_| uses_two_phase(direction, summary, hints))?;
    // Writers of a file in one machine's page cache wait for one another: a second aggregator would not help.
    let one = direction == TransferDirection::Write && capabilities.maps && topology.nodes() == 1;
    let aggregators = choose_aggregators(topology, hints.aggregators.or(one.then_some(1)));
    let domains = FileDomains::new(span, aggregators, hints, capabilities);
    // A few bytes at either end of a huge file would take an enormous number of rounds, nearly all of them empty.
    let few_rounds = domains.rounds() <= summary.bytes().saturating_add(THRESHOLDS.many_rounds);
    few_rounds.then(|| ExchangePlan { domains, dense: summary.interlocks() })
}

/// Ranks whose bytes are contiguous gain nothing from an exchange, unless they read the same bytes, which are then read once.
fn gains_from_exchange(direction: TransferDirection, summary: &AccessSummary) -> bool {
    let twice = summary.span().is_some_and(|span| summary.bytes() > span.end - span.start);
    !summary.is_dense() || (direction == TransferDirection::Read && twice)
}
