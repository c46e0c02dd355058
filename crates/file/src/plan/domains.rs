//! File domains: which rank is responsible for which part of the file, in which rounds.

use std::ops::Range;
use std::sync::Arc;

use aqueduct_device::Capabilities;

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
    aggregators: Arc<[usize]>,
}

/// The largest page that clients of network file systems keep: two nodes that change one page at the same time might lose bytes.
const LARGEST_PAGE: u64 = 64 << 10;

/// Windows of all aggregators that are arranged at once, where a round has not more.
const WINDOWS_AHEAD: u64 = 256;

/// What one aggregator works on in one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The rank that accesses the file.
    pub aggregator: usize,
    /// The bytes of the file; empty if there is nothing left for it.
    pub range: Range<u64>,
}

impl Domains {
    /// Cuts `hull` among the aggregators, at multiples of what the device or the hints like.
    ///
    /// # Panics
    /// Without aggregators.
    pub fn new(hull: Range<u64>, aggregators: Arc<[usize]>, hints: &Hints, can: &Capabilities) -> Self {
        assert!(!aggregators.is_empty(), "someone has to access the file");
        let granule = granule(hints, can);
        // Domains begin at granules of the file, not of the hull: the first one may be shorter.
        let start = hull.start / granule * granule;
        let width = (hull.end - start).div_ceil(aggregators.len() as u64);
        let width = width.div_ceil(granule).saturating_mul(granule).max(granule);
        // No buffer is larger than what goes through it, whatever the hint says.
        let buffer = (hints.collective_buffer / granule * granule).clamp(granule, width);
        Self { hull: start..hull.end, exact: hull, width, buffer, aggregators }
    }

    /// The same for an access that lies `by` bytes further in the file.
    #[must_use]
    pub fn shifted(&self, by: i64) -> Self {
        let further = |range: &Range<u64>| shifted(range, by);
        Self { exact: further(&self.exact), hull: further(&self.hull), ..self.clone() }
    }

    /// What is accessed.
    pub fn exact(&self) -> &Range<u64> {
        &self.exact
    }

    /// The ranks that access the file.
    pub fn aggregators(&self) -> &[usize] {
        &self.aggregators
    }

    /// The bytes of an aggregator's buffer.
    pub fn buffer(&self) -> u64 {
        self.buffer
    }

    /// The bytes of a node's buffer for messages to other nodes: what does not fit at once takes more steps.
    pub fn room(&self) -> u64 {
        self.buffer.saturating_mul(2)
    }

    /// So many rounds are arranged at once: what is known ahead stays small, and small accesses are arranged in one go.
    pub fn ahead(&self) -> u64 {
        (WINDOWS_AHEAD / self.aggregators.len() as u64).max(1)
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
        (0..self.aggregators.len()).map(move |at| self.window(round, at))
    }

    /// What the aggregator at this place among them works on in `round`.
    ///
    /// # Panics
    /// If there are not so many aggregators.
    pub fn window(&self, round: u64, at: usize) -> Window {
        let domain = self.domain(at);
        let start = domain.start.saturating_add(round * self.buffer).min(domain.end);
        let end = start.saturating_add(self.buffer).min(domain.end);
        Window { aggregator: self.aggregators[at], range: start..end }
    }

    /// The places of the aggregators whose domains a part of the file touches.
    pub fn touching(&self, span: &Range<u64>) -> Range<usize> {
        let (start, end) = (span.start.max(self.hull.start), span.end.min(self.hull.end));
        if start >= end {
            return 0..0;
        }
        let place = |offset: u64| ((offset - self.hull.start) / self.width) as usize;
        place(start)..place(end - 1) + 1
    }

    /// The place of a rank among the aggregators, if it is one.
    pub fn place_of(&self, rank: usize) -> Option<usize> {
        self.aggregators.binary_search(&rank).ok()
    }

    fn domain(&self, at: usize) -> Range<u64> {
        let bound =
            |at: u64| self.hull.start.saturating_add(at.saturating_mul(self.width)).min(self.hull.end);
        bound(at as u64)..bound(at as u64 + 1)
    }
}

/// What domains begin at multiples of.
pub(super) fn granule(hints: &Hints, can: &Capabilities) -> u64 {
    let granule = hints.stripe.unwrap_or_else(|| u64::from(can.block)).max(1);
    if can.coherent { granule } else { granule.next_multiple_of(LARGEST_PAGE) }
}

/// A range, `by` bytes further.
pub(crate) fn shifted(range: &Range<u64>, by: i64) -> Range<u64> {
    range.start.wrapping_add_signed(by)..range.end.wrapping_add_signed(by)
}

/// The ranks that aggregate: as many as wished for, spread evenly over the nodes; without a wish two per node, for one rank to write
/// while the other's data is still being copied. `rank_at` gives the ranks of a node by their place in it.
pub fn aggregators(
    ranks: usize,
    nodes: usize,
    wish: Option<usize>,
    rank_at: impl Fn(usize, usize) -> Option<usize>,
) -> Arc<[usize]> {
    let count = wish.unwrap_or(2 * nodes).clamp(1, ranks.max(1));
    let quota = |node: usize| ((node + 1) * count).div_ceil(nodes) - (node * count).div_ceil(nodes);
    let wanted = (0..nodes).flat_map(|node| (0..quota(node)).map(move |place| (node, place)));
    let mut chosen: Vec<usize> = wanted.filter_map(|(node, place)| rank_at(node, place)).collect();
    // What small nodes cannot give, the others do.
    let mut place = count.div_ceil(nodes).saturating_sub(1);
    while chosen.len() < count && place < ranks {
        let rest = (0..nodes).filter(|node| place >= quota(*node)).filter_map(|node| rank_at(node, place));
        let missing = count - chosen.len();
        chosen.extend(rest.take(missing));
        place += 1;
    }
    chosen.sort_unstable();
    chosen.into()
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
            let chosen = aggregators(ranks, 1, wish, |_, place| (place < ranks).then_some(place));
            let domains = Domains::new(start..start + len, chosen, &hints, &can);
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
            for window in &windows {
                let near = window.start.saturating_sub(1)..window.end + 1;
                let (inside, around) = (domains.touching(window), domains.touching(&near));
                prop_assert_eq!(inside.len(), 1);
                prop_assert!(domains.domain(inside.start).contains(&window.start));
                prop_assert!(around.start <= inside.start && inside.end <= around.end);
            }
            prop_assert!(domains.windows(domains.rounds()).all(|window| window.range.is_empty()));
        }
    }

    #[test]
    fn hulls_at_the_end_of_the_file_do_not_overflow() {
        let hints = Hints::default();
        let hull = i64::MAX as u64 - 10..i64::MAX as u64;
        let domains = Domains::new(hull.clone(), Arc::from([0, 1]), &hints, &Capabilities::default());
        let last = (0..domains.rounds()).flat_map(|round| domains.windows(round).collect::<Vec<_>>());
        assert_eq!(last.map(|window| window.range.end).max(), Some(hull.end));
    }

    #[test]
    fn aggregators_are_spread_over_the_nodes() {
        let even = |node: usize, place: usize| (place < 4).then_some(4 * node + place);
        assert_eq!(*aggregators(16, 4, None, even), [0, 1, 4, 5, 8, 9, 12, 13]);
        assert_eq!(*aggregators(16, 4, Some(2), even), [0, 8]);
        assert_eq!(*aggregators(16, 4, Some(6), even), [0, 1, 4, 8, 9, 12]);
        assert_eq!(aggregators(16, 4, Some(99), even).len(), 16);
    }

    #[test]
    fn small_nodes_let_the_others_help() {
        // Nodes of 1, 2 and 5 ranks.
        let (starts, sizes) = ([0, 1, 3], [1, 2, 5]);
        let rank_at = |node: usize, place: usize| (place < sizes[node]).then(|| starts[node] + place);
        assert_eq!(*aggregators(8, 3, Some(6), rank_at), [0, 1, 2, 3, 4, 5]);
        assert_eq!(*aggregators(8, 3, Some(8), rank_at), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(*aggregators(8, 3, None, rank_at), [0, 1, 2, 3, 4, 5]);
    }
}
