//! File domains: which aggregator accesses which part of the file, in which rounds.

use std::ops::Range;
use std::sync::Arc;

use aqueduct_device::Capabilities;

use crate::hints::Hints;

/// The accessed part of the file, divided into one domain per aggregator. A domain is accessed in windows of one buffer, one per round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileDomains {
    /// The bytes from the first to the last that any rank accesses.
    span: Range<u64>,
    /// The same, aligned at its start.
    aligned: Range<u64>,
    /// The bytes of a domain; the last one may be shorter.
    width: u64,
    buffer: u64,
    aggregators: Arc<[usize]>,
}

/// The largest page that clients of network file systems keep: two nodes that change one page at the same time might lose bytes.
const LARGEST_PAGE: u64 = 64 << 10;

/// Windows of all aggregators that are set up at once, unless one round has more.
const WINDOWS_AHEAD: u64 = 256;

/// The part of the file that one aggregator accesses in one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AggregatorWindow {
    /// The rank that accesses the file.
    pub(crate) aggregator: usize,
    /// The bytes of the file; empty if there is nothing left for it.
    pub(crate) range: Range<u64>,
}

impl FileDomains {
    /// Divides `span` among the aggregators, at multiples of the alignment that the device or the hints give.
    ///
    /// # Panics
    /// Without aggregators.
    pub(crate) fn new(
        span: Range<u64>,
        aggregators: Arc<[usize]>,
        hints: &Hints,
        capabilities: &Capabilities,
    ) -> Self {
        assert!(!aggregators.is_empty(), "there is at least one aggregator");
        let alignment = alignment(hints, capabilities);
        // Domains are aligned in the file, not in the span: the first one may be shorter.
        let start = span.start / alignment * alignment;
        let width = (span.end - start).div_ceil(aggregators.len() as u64);
        let width = width.div_ceil(alignment).saturating_mul(alignment).max(alignment);
        // No buffer is larger than what goes through it, whatever the hint says.
        let buffer = (hints.collective_buffer / alignment * alignment).clamp(alignment, width);
        Self { aligned: start..span.end, span, width, buffer, aggregators }
    }

    /// The same for an access that lies `by` bytes further in the file.
    #[must_use]
    pub(crate) fn shifted(&self, by: i64) -> Self {
        let further = |range: &Range<u64>| shifted(range, by);
        Self { span: further(&self.span), aligned: further(&self.aligned), ..self.clone() }
    }

    /// The bytes from the first to the last that any rank accesses.
    pub(crate) fn span(&self) -> &Range<u64> {
        &self.span
    }

    /// The ranks that access the file.
    pub(crate) fn aggregators(&self) -> &[usize] {
        &self.aggregators
    }

    /// The bytes of an aggregator's buffer.
    pub(crate) fn buffer(&self) -> u64 {
        self.buffer
    }

    /// The bytes of a node's buffer for messages to other nodes: a round with more takes several steps.
    pub(crate) fn message_buffer(&self) -> u64 {
        self.buffer.saturating_mul(2)
    }

    /// The number of rounds that are set up at once: their description stays small, and small accesses are set up in one step.
    pub(crate) fn rounds_per_setup(&self) -> u64 {
        (WINDOWS_AHEAD / self.aggregators.len() as u64).max(1)
    }

    /// The accessed part of a window: windows are aligned, accesses need not be.
    pub(crate) fn touched(&self, range: &Range<u64>) -> Range<u64> {
        let start = range.start.max(self.span.start).min(range.end);
        start..range.end
    }

    /// How many rounds it takes.
    pub(crate) fn rounds(&self) -> u64 {
        let longest = self.width.min(self.aligned.end - self.aligned.start);
        longest.div_ceil(self.buffer)
    }

    /// The windows of `round`.
    pub(crate) fn windows(&self, round: u64) -> impl Iterator<Item = AggregatorWindow> {
        (0..self.aggregators.len()).map(move |at| self.window(round, at))
    }

    /// The window of an aggregator in `round`, by its index.
    ///
    /// # Panics
    /// If there are not so many aggregators.
    pub(crate) fn window(&self, round: u64, at: usize) -> AggregatorWindow {
        let domain = self.domain(at);
        let start = domain.start.saturating_add(round * self.buffer).min(domain.end);
        let end = start.saturating_add(self.buffer).min(domain.end);
        AggregatorWindow { aggregator: self.aggregators[at], range: start..end }
    }

    /// The indices of the aggregators whose domains a part of the file touches.
    pub(crate) fn touching(&self, span: &Range<u64>) -> Range<usize> {
        let (start, end) = (span.start.max(self.aligned.start), span.end.min(self.aligned.end));
        if start >= end {
            return 0..0;
        }
        let place = |offset: u64| ((offset - self.aligned.start) / self.width) as usize;
        place(start)..place(end - 1) + 1
    }

    /// The index of a rank among the aggregators, if it is one.
    pub(crate) fn aggregator_index(&self, rank: usize) -> Option<usize> {
        self.aggregators.binary_search(&rank).ok()
    }

    /// The part of the file of an aggregator, by its index.
    pub(crate) fn domain(&self, at: usize) -> Range<u64> {
        let bound =
            |at: u64| self.aligned.start.saturating_add(at.saturating_mul(self.width)).min(self.aligned.end);
        bound(at as u64)..bound(at as u64 + 1)
    }
}

/// Domains begin at multiples of this.
pub(super) fn alignment(hints: &Hints, capabilities: &Capabilities) -> u64 {
    let alignment = hints.stripe.unwrap_or_else(|| u64::from(capabilities.block)).max(1);
    if capabilities.coherent { alignment } else { alignment.next_multiple_of(LARGEST_PAGE) }
}

/// True if a plan may be moved by so many bytes: if alignment matters, windows have to be aligned afterwards too.
pub(crate) fn keeps_alignment(by: i64, hints: &Hints, capabilities: &Capabilities) -> bool {
    let matters = hints.stripe.is_some() || capabilities.alignment > 1 || !capabilities.coherent;
    !matters || by.unsigned_abs().is_multiple_of(alignment(hints, capabilities))
}

/// A range, `by` bytes further.
pub(crate) fn shifted(range: &Range<u64>, by: i64) -> Range<u64> {
    range.start.wrapping_add_signed(by)..range.end.wrapping_add_signed(by)
}

/// Which ranks are on which node.
pub(crate) trait RankTopology {
    fn ranks(&self) -> usize;
    fn nodes(&self) -> usize;
    /// The rank at this place of a node.
    fn rank_at(&self, node: usize, place: usize) -> Option<usize>;
}

/// The ranks that aggregate: as many as wanted, spread evenly over the nodes. Two per node by default: one writes while the data of the
/// other is still being copied.
pub(crate) fn choose_aggregators(topology: &dyn RankTopology, wanted: Option<usize>) -> Arc<[usize]> {
    let (ranks, nodes) = (topology.ranks(), topology.nodes());
    let count = wanted.unwrap_or(2 * nodes).clamp(1, ranks.max(1));
    let quota = |node: usize| ((node + 1) * count).div_ceil(nodes) - (node * count).div_ceil(nodes);
    let seats = (0..nodes).flat_map(|node| (0..quota(node)).map(move |place| (node, place)));
    let mut chosen: Vec<usize> = seats.filter_map(|(node, place)| topology.rank_at(node, place)).collect();
    // If small nodes have too few ranks, the other nodes provide more.
    let mut place = count.div_ceil(nodes).saturating_sub(1);
    while chosen.len() < count && place < ranks {
        let rest =
            (0..nodes).filter(|node| place >= quota(*node)).filter_map(|node| topology.rank_at(node, place));
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

    /// The ranks of each node.
    struct Nodes(Vec<Vec<usize>>);

    impl RankTopology for Nodes {
        fn ranks(&self) -> usize {
            self.0.iter().map(Vec::len).sum()
        }

        fn nodes(&self) -> usize {
            self.0.len()
        }

        fn rank_at(&self, node: usize, place: usize) -> Option<usize> {
            self.0[node].get(place).copied()
        }
    }

    proptest! {
        #[test]
        fn windows_cover_the_span_once_in_order(
            start in 0u64..10_000,
            len in 1u64..100_000,
            ranks in 1usize..9,
            wish in proptest::option::of(1usize..12),
            buffer in 1u64..20_000,
            block in 1u32..5_000,
        ) {
            let hints = Hints { aggregators: wish, collective_buffer: buffer, ..Hints::default() };
            let capabilities = Capabilities { block, ..Capabilities::default() };
            let chosen = choose_aggregators(&Nodes(vec![(0..ranks).collect()]), wish);
            let domains = FileDomains::new(start..start + len, chosen, &hints, &capabilities);
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
    fn spans_at_the_end_of_the_file_do_not_overflow() {
        let hints = Hints::default();
        let span = i64::MAX as u64 - 10..i64::MAX as u64;
        let domains = FileDomains::new(span.clone(), Arc::from([0, 1]), &hints, &Capabilities::default());
        let last = (0..domains.rounds()).flat_map(|round| domains.windows(round).collect::<Vec<_>>());
        assert_eq!(last.map(|window| window.range.end).max(), Some(span.end));
    }

    #[test]
    fn aggregators_are_spread_over_the_nodes() {
        let even = Nodes((0..4).map(|node| (4 * node..4 * node + 4).collect()).collect());
        assert_eq!(*choose_aggregators(&even, None), [0, 1, 4, 5, 8, 9, 12, 13]);
        assert_eq!(*choose_aggregators(&even, Some(2)), [0, 8]);
        assert_eq!(*choose_aggregators(&even, Some(6)), [0, 1, 4, 8, 9, 12]);
        assert_eq!(choose_aggregators(&even, Some(99)).len(), 16);
    }

    #[test]
    fn other_nodes_provide_aggregators_that_small_nodes_lack() {
        // Nodes of 1, 2 and 5 ranks.
        let nodes = Nodes(vec![vec![0], vec![1, 2], vec![3, 4, 5, 6, 7]]);
        assert_eq!(*choose_aggregators(&nodes, Some(6)), [0, 1, 2, 3, 4, 5]);
        assert_eq!(*choose_aggregators(&nodes, Some(8)), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(*choose_aggregators(&nodes, None), [0, 1, 2, 3, 4, 5]);
    }
}
