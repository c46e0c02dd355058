//! Planning: pure functions from what the ranks want to a value that says who moves which bytes, and how. No I/O, no ranks.

mod cost;
mod coverage;
mod domains;

use std::ops::Range;

use aqueduct_device::Capabilities;

use crate::hints::{Hints, Toggle};
pub use cost::{Choice, Experience, Extent};
pub use coverage::{Coverage, interlock};
pub use domains::{Domains, Window};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// How bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Run by run.
    Direct,
    /// Many runs in one call of the device.
    List,
    /// One large access, from which the runs are picked; a write reads, changes and writes back under a lock.
    Sieve,
    /// Runs are copied where they lie in the page cache.
    Map,
    /// The ranks exchange data, and few of them access large contiguous parts of the file.
    TwoPhase,
}

impl Strategy {
    const ALL: [Self; 5] = [Self::Direct, Self::List, Self::Sieve, Self::Map, Self::TwoPhase];

    /// Its name in hints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::List => "list",
            Self::Sieve => "sieve",
            Self::Map => "map",
            Self::TwoPhase => "two-phase",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == text)
    }
}

/// How an independent access is done: as the hints say, or as it has been cheapest.
pub fn independent(
    direction: Direction,
    extent: &Extent,
    hints: &Hints,
    can: &Capabilities,
    experience: &Experience,
) -> Choice {
    let toggle = match direction {
        Direction::Read => hints.sieve_read,
        Direction::Write => hints.sieve_write,
    };
    let told = match (hints.strategy, toggle) {
        // Two-phase needs company, maps a device that has them.
        (Some(Strategy::TwoPhase), _) | (None, Toggle::Automatic | Toggle::Disable) => None,
        (Some(Strategy::Map), _) if !can.maps => None,
        (Some(strategy), _) => Some(strategy),
        (None, Toggle::Enable) => Some(Strategy::Sieve),
    };
    match told {
        Some(strategy) => experience.price(direction, strategy, extent, hints, can),
        None => experience.cheapest(direction, extent, hints, can),
    }
}

/// What one rank brings to a collective access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The bytes of the file from its first to its last one; empty if it accesses none.
    pub span: Range<u64>,
    /// How many of them it accesses.
    pub bytes: u64,
}

impl Part {
    fn is_dense(&self) -> bool {
        self.span.end - self.span.start == self.bytes
    }
}

/// A collective access, planned: the same value on every rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Each rank for itself.
    Apart,
    /// In two phases.
    Together(Domains),
}

/// The nodes of the ranks: how many, and the first rank of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// The lowest rank of each node.
    pub leaders: Vec<usize>,
}

/// Plans a collective access of `parts`, one per rank.
pub fn collective(
    direction: Direction,
    parts: &[Part],
    nodes: &Nodes,
    hints: &Hints,
    can: &Capabilities,
) -> Plan {
    let toggle = match direction {
        Direction::Read => hints.collective_read,
        Direction::Write => hints.collective_write,
    };
    let together = match (hints.strategy, toggle) {
        (Some(strategy), _) => strategy == Strategy::TwoPhase,
        (None, Toggle::Enable) => true,
        (None, Toggle::Disable) => false,
        (None, Toggle::Automatic) => gains(direction, parts),
    };
    let domains = hull(parts).map(|hull| Domains::new(hull, parts.len(), nodes, hints, can));
    let bytes = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes));
    match domains {
        // A few bytes at either end of a huge file would take rounds without end, nearly all of them empty.
        Some(domains) if together && domains.rounds() <= bytes.saturating_add(MANY_ROUNDS) => {
            Plan::Together(domains)
        }
        _ => Plan::Apart,
    }
}

/// Rounds that are worth it for any access; beyond, each has to move a byte at least.
const MANY_ROUNDS: u64 = 1024;

/// The bytes of the file from the first to the last that any rank accesses.
fn hull(parts: &[Part]) -> Option<Range<u64>> {
    let wanted = parts.iter().filter(|part| part.bytes > 0).map(|part| part.span.clone());
    wanted.reduce(|all, span| all.start.min(span.start)..all.end.max(span.end))
}

/// Ranks whose bytes are dense gain nothing from an exchange, unless they read the same ones, which are then read once.
fn gains(direction: Direction, parts: &[Part]) -> bool {
    let dense = parts.iter().all(|part| part.bytes == 0 || part.is_dense());
    let wanted: u64 = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
    let twice = hull(parts).is_some_and(|hull| wanted > hull.end - hull.start);
    !dense || (direction == Direction::Read && twice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(direction: Direction, spans: &[(Range<u64>, u64)], hints: &Hints) -> Plan {
        let part = |(span, bytes): &(Range<u64>, u64)| Part { span: span.clone(), bytes: *bytes };
        let parts: Vec<Part> = spans.iter().map(part).collect();
        let nodes = Nodes { leaders: vec![0] };
        collective(direction, &parts, &nodes, hints, &Capabilities::default())
    }

    #[test]
    fn interleaved_ranks_work_together_and_dense_ones_apart() {
        let hints = Hints::default();
        let interleaved = [(0..97, 25), (4..100, 25)];
        assert!(matches!(plan(Direction::Write, &interleaved, &hints), Plan::Together(_)));
        let dense = [(0..50, 50), (50..100, 50), (0..0, 0)];
        assert_eq!(plan(Direction::Write, &dense, &hints), Plan::Apart);
    }

    #[test]
    fn the_same_bytes_are_read_once() {
        let same = [(0..1000, 1000), (0..1000, 1000)];
        assert!(matches!(plan(Direction::Read, &same, &Hints::default()), Plan::Together(_)));
    }

    #[test]
    fn hints_decide_and_nothing_needs_no_plan() {
        let force = |strategy| Hints { strategy: Some(strategy), ..Hints::default() };
        let dense = [(0..50, 50), (50..100, 50)];
        assert!(matches!(plan(Direction::Read, &dense, &force(Strategy::TwoPhase)), Plan::Together(_)));
        let interleaved = [(0..97, 25), (4..100, 25)];
        assert_eq!(plan(Direction::Read, &interleaved, &force(Strategy::List)), Plan::Apart);
        assert_eq!(plan(Direction::Read, &[(0..0, 0)], &force(Strategy::TwoPhase)), Plan::Apart);
    }

    #[test]
    fn writes_are_sieved_only_when_told() {
        let extent = Extent { span: 1 << 20, bytes: 1 << 18, runs: 1 << 16 };
        let can = Capabilities::default();
        let choose = |hints: &Hints| {
            independent(Direction::Write, &extent, hints, &can, &Experience::default()).strategy
        };
        assert_eq!(choose(&Hints::default()), Strategy::List);
        assert_eq!(choose(&Hints { sieve_write: Toggle::Enable, ..Hints::default() }), Strategy::Sieve);
    }

    #[test]
    fn a_few_bytes_of_a_huge_file_are_not_exchanged() {
        let hints = Hints { strategy: Some(Strategy::TwoPhase), ..Hints::default() };
        let nodes = Nodes { leaders: vec![0] };
        let plan = |far: u64| {
            let parts = [Part { span: 0..10, bytes: 4 }, Part { span: far..far + 10, bytes: 4 }];
            collective(Direction::Write, &parts, &nodes, &hints, &Capabilities::default())
        };
        assert_eq!(plan(1 << 62), Plan::Apart);
        assert!(matches!(plan(1 << 20), Plan::Together(_)));
    }
}
