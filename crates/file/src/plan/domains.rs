//! File domains: which rank is responsible for which part of the file, in which rounds.

use std::ops::Range;

use aqueduct_device::Capabilities;

use super::Nodes;
use crate::hints::Hints;

/// The part of the file that an access touches, cut into one domain per aggregator, each worked off in windows of one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    /// What is accessed.
    exact: Range<u64>,
    /// The same from a granule of the file on.
    hull: Range<u64>,
    /// The bytes of a domain; the last one may be shorter.
    width: u64,
    buffer: u64,
    aggregators: Vec<usize>,
}

/// What one aggregator works on in one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The rank that accesses the file.
    pub aggregator: usize,
    /// The bytes of the file; empty if there is nothing left for it.
    pub range: Range<u64>,
}

impl Domains {
    /// Cuts `hull` among the aggregators of `ranks` ranks, at multiples of what the device or the hints like.
    pub fn new(hull: Range<u64>, ranks: usize, nodes: &Nodes, hints: &Hints, can: &Capabilities) -> Self {
        let aggregators = choose(ranks, nodes, hints.aggregators);
        let granule = hints.stripe.unwrap_or_else(|| u64::from(can.block)).max(1);
        // Domains begin at granules of the file, not of the hull: the first one may be shorter.
        let start = hull.start / granule * granule;
        let width = (hull.end - start).div_ceil(aggregators.len() as u64);
        let width = width.div_ceil(granule).saturating_mul(granule).max(granule);
        // No buffer is larger than what goes through it, whatever the hint says.
        let buffer = (hints.collective_buffer / granule * granule).clamp(granule, width);
        Self { hull: start..hull.end, exact: hull, width, buffer, aggregators }
    }

    /// The ranks that access the file.
    pub fn aggregators(&self) -> &[usize] {
        &self.aggregators
    }

    /// The bytes of an aggregator's buffer.
    pub fn buffer(&self) -> u64 {
        self.buffer
    }

    /// What of a range is accessed at all: windows begin at granules, accesses need not.
    pub fn touched(&self, range: &Range<u64>) -> Range<u64> {
        let start = range.start.max(self.exact.start).min(range.end);
        start..range.end
    }

    /// How many rounds it takes.
    pub fn rounds(&self) -> u64 {
        let longest = self.width.min(self.hull.end - self.hull.start);
        longest.div_ceil(self.buffer)
    }

    /// What each aggregator works on in `round`.
    pub fn windows(&self, round: u64) -> impl Iterator<Item = Window> {
        self.aggregators.iter().enumerate().map(move |(at, aggregator)| {
            let domain = self.domain(at);
            let start = domain.start.saturating_add(round * self.buffer).min(domain.end);
            let end = start.saturating_add(self.buffer).min(domain.end);
            Window { aggregator: *aggregator, range: start..end }
        })
    }

    fn domain(&self, at: usize) -> Range<u64> {
        let bound =
            |at: u64| self.hull.start.saturating_add(at.saturating_mul(self.width)).min(self.hull.end);
        bound(at as u64)..bound(at as u64 + 1)
    }
}

/// As many aggregators as asked for, spread over the nodes; without a wish two per node, for one rank to write while the other's
/// data is still being copied.
fn choose(ranks: usize, nodes: &Nodes, wish: Option<usize>) -> Vec<usize> {
    let count = wish.unwrap_or(2 * nodes.leaders.len()).clamp(1, ranks);
    let mut chosen: Vec<usize> = nodes.leaders.iter().copied().take(count).collect();
    let rest = (0..ranks).filter(|rank| !nodes.leaders.contains(rank));
    let missing = count - chosen.len();
    chosen.extend(rest.take(missing));
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn windows_cover_the_hull_once_in_order(
            start in 0u64..10_000,
            len in 1u64..100_000,
            ranks in 1usize..9,
            wish in proptest::option::of(1usize..12),
            buffer in 1u64..20_000,
            block in 1u32..5_000,
        ) {
            let hints = Hints { aggregators: wish, collective_buffer: buffer, ..Hints::default() };
            let can = Capabilities { block, ..Capabilities::default() };
            let domains = Domains::new(start..start + len, ranks, &Nodes { leaders: vec![0] }, &hints, &can);
            let mut windows: Vec<Range<u64>> = (0..domains.rounds())
                .flat_map(|round| domains.windows(round).map(|window| window.range).collect::<Vec<_>>())
                .filter(|range| !range.is_empty())
                .collect();
            windows.sort_by_key(|range| range.start);
            prop_assert!(windows[0].start <= start && start - windows[0].start < u64::from(block));
            prop_assert_eq!(windows.last().unwrap().end, start + len);
            prop_assert!(windows.windows(2).all(|pair| pair[0].end == pair[1].start));
            let all_inside = domains.aggregators().iter().all(|rank| *rank < ranks);
            prop_assert!(all_inside && domains.aggregators().is_sorted());
            prop_assert!(domains.windows(domains.rounds()).all(|window| window.range.is_empty()));
        }
    }

    #[test]
    fn hulls_at_the_end_of_the_file_do_not_overflow() {
        let hints = Hints::default();
        let hull = i64::MAX as u64 - 10..i64::MAX as u64;
        let domains =
            Domains::new(hull.clone(), 3, &Nodes { leaders: vec![0] }, &hints, &Capabilities::default());
        let last = (0..domains.rounds()).flat_map(|round| domains.windows(round).collect::<Vec<_>>());
        assert_eq!(last.map(|window| window.range.end).max(), Some(hull.end));
    }
}
