//! What another plan of recorded accesses would do: planning is a pure function, so that it is computed and not guessed.
//!
//! ```
//! use aqueduct_file::replan::{RecordedAccess, replan};
//! use aqueduct_file::trace::FileExtent;
//! use aqueduct_file::{Info, Strategy};
//!
//! // Two ranks on two nodes write every other block of 4 KiB.
//! let rows = [0, 4096].map(|offset| FileExtent { stride: 8192, count: 1000, ..FileExtent::run(offset, 4096) });
//! let ranks: Vec<RecordedAccess> = (0..2)
//!     .map(|rank| RecordedAccess { rank, node: rank, extents: rows[rank..=rank].to_vec() })
//!     .collect();
//! let planned = replan(true, &ranks, "", &Info::new()).unwrap();
//! assert_eq!((planned.strategy, planned.device_calls), (Strategy::TwoPhase, 2));
//! assert_eq!(planned.exchanged, 1000 * 4096);
//! ```

use std::time::Duration;

use aqueduct_device::Capabilities;
use aqueduct_device::units::ByteRate;

use crate::context::AccessScope;
use crate::hints::{Hints, Info, Strategy, TransferDirection};
use crate::layout::{Basic, Layout, Member, Pattern, Vector};
use crate::plan::{
    AccessFacts, AccessSize, AccessSummary, Calibration, CostModel, PlanInput, RankTopology, add_estimates,
    compares_costs, data_inside, make_plan,
};
use crate::trace::FileExtent;

/// A rank's part of an access.
#[derive(Clone, Debug, Default)]
pub struct RecordedAccess {
    /// The rank in the communicator of the file.
    pub rank: usize,
    /// Its node.
    pub node: usize,
    /// The bytes of the file.
    pub extents: Vec<FileExtent>,
}

/// What a plan does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanOutcome {
    /// Its strategy.
    pub strategy: Strategy,
    /// Ranks that access the file in two-phase I/O, else 0.
    pub aggregators: usize,
    /// Rounds of two-phase I/O.
    pub rounds: u64,
    /// Bytes that go from one rank to another.
    pub exchanged: u64,
    /// Of these, bytes that go to another node.
    pub between_nodes: u64,
    /// Accesses to the device by all ranks, lists counted run by run.
    pub device_calls: u64,
    /// The estimated time of the slowest rank in nanoseconds, from the constants of the cost model.
    pub nanoseconds: f64,
}

/// The nodes of the ranks.
struct RecordedTopology(Vec<Vec<usize>>);

impl RankTopology for RecordedTopology {
    fn ranks(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    fn nodes(&self) -> usize {
        self.0.len()
    }

    fn rank_at(&self, node: usize, place: usize) -> Option<usize> {
        self.0.get(node)?.get(place).copied()
    }
}

/// Plans the accesses of all ranks as one collective call with these hints, for a device with the `capabilities` that a trace has of the
/// file. None if there is nothing to access, or if extents exceed the maximum file size.
pub fn replan(
    is_write: bool,
    accesses: &[RecordedAccess],
    capabilities: &str,
    hints: &Info,
) -> Option<PlanOutcome> {
    let direction = if is_write { TransferDirection::Write } else { TransferDirection::Read };
    let (hints, calibration) = (Hints::parse(hints), Calibration::default());
    let capabilities = parse_capabilities(capabilities);
    let model = CostModel::new(&hints, &capabilities, &calibration).in_scope(AccessScope::Collective);
    let topology = topology(accesses);
    let patterns = accesses.iter().map(|access| pattern(&access.extents)).collect::<Option<Vec<_>>>()?;
    let sizes: Vec<AccessSize> =
        patterns.iter().map(|pattern| AccessSize::of(pattern, &(0..pattern.size()), is_write)).collect();
    let compares = compares_costs(&topology, &capabilities);
    let mut all = AccessSummary::NOTHING;
    for (pattern, size) in patterns.iter().zip(&sizes).filter(|(pattern, _)| pattern.size() > 0) {
        let mine = AccessSummary::of(pattern, 0..pattern.size());
        all.merge(&if compares { add_estimates(mine, direction, size, &model) } else { mine });
    }
    let largest = *sizes.iter().max_by_key(|size| size.bytes)?;
    let access = AccessFacts::AllRanks { size: largest, summary: &all, topology: &topology, cached: None };
    all.span()?;
    let plan = make_plan(PlanInput { direction, model, access });
    let Some(exchange) = plan.exchange else {
        let strategy = plan.estimate.strategy;
        let calls = if strategy == Strategy::Map { 0 } else { sizes.iter().map(|size| size.runs).sum() };
        return Some(PlanOutcome {
            strategy,
            aggregators: 0,
            rounds: 0,
            exchanged: 0,
            between_nodes: 0,
            device_calls: calls,
            nanoseconds: plan.estimate.nanoseconds,
        });
    };
    let domains = &exchange.domains;
    let mut outcome = PlanOutcome {
        strategy: Strategy::TwoPhase,
        aggregators: domains.aggregators().len(),
        rounds: domains.rounds(),
        exchanged: 0,
        between_nodes: 0,
        device_calls: 0,
        nanoseconds: plan.estimate.nanoseconds,
    };
    for (at, aggregator) in domains.aggregators().iter().enumerate() {
        let domain = domains.domain(at);
        outcome.device_calls += (domain.end - domain.start).div_ceil(domains.buffer());
        let node_of = |rank| accesses.iter().find(|access| access.rank == rank).map(|access| access.node);
        for (access, pattern) in
            accesses.iter().zip(&patterns).filter(|(access, _)| access.rank != *aggregator)
        {
            let inside = data_inside(pattern, &(0..pattern.size()), &domain);
            outcome.exchanged += inside.end - inside.start;
            if node_of(*aggregator) != Some(access.node) {
                outcome.between_nodes += inside.end - inside.start;
            }
        }
    }
    Some(outcome)
}

fn topology(accesses: &[RecordedAccess]) -> RecordedTopology {
    let mut numbers: Vec<usize> = accesses.iter().map(|access| access.node).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let of_node = |node: &usize| {
        let mut ranks: Vec<usize> =
            accesses.iter().filter(|access| access.node == *node).map(|access| access.rank).collect();
        ranks.sort_unstable();
        ranks
    };
    RecordedTopology(numbers.iter().map(of_node).collect())
}

/// The pattern of extents.
fn pattern(extents: &[FileExtent]) -> Option<Pattern> {
    let mut sorted = extents.to_vec();
    sorted.sort_by_key(|extent| extent.offset);
    let members = sorted.iter().map(|extent| {
        let run = Layout::from(Basic::Byte).contiguous(extent.len).ok()?;
        let row =
            run.hvector(Vector { count: extent.count, block: 1, stride: i64::try_from(extent.stride).ok()? });
        let stride = i64::try_from(extent.row_stride).ok()?;
        let layout = row.ok()?.hvector(Vector { count: extent.rows, block: 1, stride }).ok()?;
        Some(Member { count: 1, displacement: i64::try_from(extent.offset).ok()?, layout })
    });
    let members = members.collect::<Option<Vec<_>>>()?;
    Layout::structure(members).ok()?.tiled(1).ok()
}

/// The capabilities that matter for planning, as a fact of a trace.
pub(crate) fn describe_capabilities(capabilities: &Capabilities) -> String {
    let Capabilities { maps, native_lists, native_strips, coherent, alignment, block, .. } = capabilities;
    let flags = [
        ("maps", maps),
        ("native_lists", native_lists),
        ("native_strips", native_strips),
        ("coherent", coherent),
    ];
    let flags = flags.iter().filter(|(_, set)| **set).map(|(name, _)| (*name).to_owned());
    let numbers = [format!("alignment:{alignment}"), format!("block:{block}")];
    let latency = capabilities.latency.map(|latency| format!("latency:{}", latency.as_nanos()));
    let bandwidth = capabilities.bandwidth.map(|rate| format!("bandwidth:{}", rate.0));
    flags.chain(numbers).chain(latency).chain(bandwidth).collect::<Vec<_>>().join(" ")
}

fn parse_capabilities(text: &str) -> Capabilities {
    let has = |name: &str| text.split(' ').any(|word| word == name);
    let value = |name: &str| text.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
    let number =
        |name: &str, default: u32| value(name).and_then(|value| value.parse().ok()).unwrap_or(default).max(1);
    let large = |name: &str| value(name).and_then(|value| value.parse().ok());
    let default = Capabilities::default();
    Capabilities {
        maps: has("maps"),
        native_lists: has("native_lists"),
        native_strips: has("native_strips"),
        latency: large("latency").map(Duration::from_nanos),
        bandwidth: large("bandwidth").map(ByteRate),
        coherent: text.is_empty() || has("coherent"),
        alignment: number("alignment", default.alignment),
        block: number("block", default.block),
        ..default
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(hints: &[(&str, &str)]) -> Info {
        let mut info = Info::new();
        hints.iter().for_each(|(key, value)| info.set(*key, *value));
        info
    }

    fn interleaved(ranks: usize, nodes: usize) -> Vec<RecordedAccess> {
        let of = |rank: usize| {
            let run = FileExtent::run(rank as u64 * 1024, 1024);
            let extent = FileExtent { stride: 1024 * ranks as u64, count: 10_000, ..run };
            RecordedAccess { rank, node: rank * nodes / ranks, extents: vec![extent] }
        };
        (0..ranks).map(of).collect()
    }

    #[test]
    fn more_aggregators_keep_more_bytes_on_their_rank() {
        let exchanged = |nodes: &str| {
            let hints = info(&[("cb_nodes", nodes)]);
            let outcome = replan(true, &interleaved(8, 4), "coherent", &hints).unwrap();
            assert_eq!(outcome.strategy, Strategy::TwoPhase);
            assert_eq!(outcome.aggregators.to_string(), nodes);
            outcome.exchanged
        };
        // With interleaved runs each aggregator has an eighth of its domain itself.
        let all = 8 * 10_000 * 1024;
        assert_eq!(exchanged("1"), all * 7 / 8);
        assert!(exchanged("4").abs_diff(all * 7 / 8) < all / 100);
    }

    #[test]
    fn capabilities_survive_their_description() {
        let capabilities = Capabilities {
            native_lists: true,
            native_strips: true,
            latency: Some(Duration::from_micros(40)),
            bandwidth: Some(ByteRate(10_000_000_000)),
            block: 1 << 20,
            ..Capabilities::default()
        };
        for capabilities in [capabilities, Capabilities::default()] {
            assert_eq!(parse_capabilities(&describe_capabilities(&capabilities)), capabilities);
        }
    }

    #[test]
    fn separate_parts_need_no_exchange() {
        let parts: Vec<RecordedAccess> = (0..4)
            .map(|rank| RecordedAccess {
                rank,
                node: rank,
                extents: vec![FileExtent::run((rank as u64) << 20, 1 << 20)],
            })
            .collect();
        let outcome = replan(true, &parts, "coherent", &Info::new()).unwrap();
        assert_eq!((outcome.exchanged, outcome.device_calls), (0, 4));
        let forced = info(&[("romio_cb_write", "enable"), ("cb_nodes", "4")]);
        let outcome = replan(true, &parts, "coherent", &forced).unwrap();
        assert_eq!((outcome.strategy, outcome.exchanged), (Strategy::TwoPhase, 0));
    }

    #[test]
    fn capabilities_come_back() {
        let capabilities =
            Capabilities { maps: true, alignment: 512, block: 4096, ..Capabilities::default() };
        let text = describe_capabilities(&capabilities);
        assert_eq!(describe_capabilities(&parse_capabilities(&text)), text);
    }
}
