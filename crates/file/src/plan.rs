//! Planning: pure functions from what the ranks want to a value that says who moves which bytes, and how. No I/O, no ranks.

mod bundle;
mod cost;
mod coverage;
mod domains;
mod round;
mod summary;

use std::sync::Arc;

use aqueduct_device::Capabilities;

use crate::hints::{Hints, Toggle};
pub use bundle::{Bundle, allot, runs_of, union};
pub(crate) use cost::learned;
pub use cost::{Choice, Experience, Extent, Market};
pub use coverage::Coverage;
pub use domains::{Domains, Window, aggregators};
pub use round::{Delivery, Far, Parcel, Round, Share, duty, inside, shares, speaker};
pub use summary::Summary;

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

/// How a rank does an access by itself: as the hints say, or as it has been cheapest.
pub fn independent(direction: Direction, extent: &Extent, market: &Market<'_>) -> Choice {
    let hints = market.hints;
    let toggle = match direction {
        Direction::Read => hints.sieve_read,
        Direction::Write => hints.sieve_write,
    };
    let told = match (hints.strategy, toggle) {
        // Two-phase needs company, maps a device that has them.
        (Some(Strategy::TwoPhase), _) | (None, Toggle::Automatic | Toggle::Disable) => None,
        (Some(Strategy::Map), _) if !market.can.maps || !hints.map => None,
        (Some(strategy), _) => Some(strategy),
        (None, Toggle::Enable) => Some(Strategy::Sieve),
    };
    match told {
        Some(strategy) => market.price(direction, strategy, extent),
        None => market.cheapest(direction, extent),
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

/// Whether ranks whose accesses are merged in `all` work together: as the hints say, or as it is estimated to be cheaper.
pub fn together(direction: Direction, all: &Summary, hints: &Hints) -> bool {
    let wanted = match (hints.strategy, hints.collective(direction)) {
        (Some(strategy), _) => strategy == Strategy::TwoPhase,
        (None, Toggle::Enable) => true,
        (None, Toggle::Disable) => false,
        (None, Toggle::Automatic) => all.prefers_together().unwrap_or_else(|| gains(direction, all)),
    };
    // Where a view shows a byte twice, a window of the file is no single slice of its data.
    wanted && !all.shows_twice()
}

/// Plans a collective access of all ranks, whose accesses are merged in `all`, through these `aggregators`.
pub fn collective(
    direction: Direction,
    all: &Summary,
    aggregators: &Arc<[usize]>,
    hints: &Hints,
    can: &Capabilities,
) -> Plan {
    let together = together(direction, all, hints);
    let domains = all.hull().map(|hull| Domains::new(hull, Arc::clone(aggregators), hints, can));
    match domains {
        // A few bytes at either end of a huge file would take rounds without end, nearly all of them empty.
        Some(domains) if together && domains.rounds() <= all.bytes().saturating_add(MANY_ROUNDS) => {
            Plan::Together(domains)
        }
        _ => Plan::Apart,
    }
}

/// Whether a plan may be moved `by` bytes: where granules of the file matter, windows have to begin at them afterwards too.
pub fn keeps_granules(by: i64, hints: &Hints, can: &Capabilities) -> bool {
    let matter = hints.stripe.is_some() || can.alignment > 1 || !can.coherent;
    !matter || by.unsigned_abs().is_multiple_of(domains::granule(hints, can))
}

/// Rounds that are worth it for any access; beyond, each has to move a byte at least.
const MANY_ROUNDS: u64 = 1024;

/// Ranks whose bytes are dense gain nothing from an exchange, unless they read the same ones, which are then read once.
fn gains(direction: Direction, all: &Summary) -> bool {
    let twice = all.hull().is_some_and(|hull| all.bytes() > hull.end - hull.start);
    !all.is_dense() || (direction == Direction::Read && twice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use std::ops::Range;

    /// Ranks that access so many bytes of a span: its front, and its last byte.
    fn plan(direction: Direction, parts: &[(Range<u64>, u64)], hints: &Hints) -> Plan {
        let mut all = Summary::NOTHING;
        for (span, bytes) in parts.iter().filter(|(_, bytes)| *bytes > 0) {
            let last = (span.end - span.start - 1) as i64;
            let blocks = [(bytes - 1, 0), (1, last)];
            let layout = Layout::from(crate::layout::Basic::Byte).indexed(blocks).unwrap();
            let pattern = layout.endless(span.start as i64).unwrap();
            all.merge(&Summary::of(&pattern, 0..*bytes));
        }
        collective(direction, &all, &Arc::from([0]), hints, &Capabilities::default())
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
        let extent = Extent { span: 1 << 20, bytes: 1 << 18, runs: 1 << 16, fresh: false };
        let can = Capabilities::default();
        let choose = |hints: &Hints| {
            let experience = Experience::default();
            independent(Direction::Write, &extent, &Market { hints, can: &can, experience: &experience })
                .strategy
        };
        assert_eq!(choose(&Hints::default()), Strategy::List);
        assert_eq!(choose(&Hints { sieve_write: Toggle::Enable, ..Hints::default() }), Strategy::Sieve);
    }

    #[test]
    fn a_few_bytes_of_a_huge_file_are_not_exchanged() {
        let hints = Hints { strategy: Some(Strategy::TwoPhase), ..Hints::default() };
        let far = |far: u64| plan(Direction::Write, &[(0..10, 4), (far..far + 10, 4)], &hints);
        assert_eq!(far(1 << 62), Plan::Apart);
        assert!(matches!(far(1 << 20), Plan::Together(_)));
    }
}
