//! One round of a two-phase access: the transfers of one rank, and the arithmetic that gives them.

use std::ops::Range;

use super::file_domains::shifted;
use super::node_message::{merge_ranges, runs_of};
use super::{Coverage, FileDomains};
use crate::hints::TransferDirection;
use crate::layout::{Pattern, Strip};

/// A rank's data in one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalPart {
    /// Which round.
    pub(crate) round: u64,
    /// Which of the round's windows.
    pub(crate) window: usize,
    /// Which data bytes.
    pub(crate) data: Range<u64>,
}

/// A rank's data in a window of another node; it is sent through the message buffer of its own node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemotePart {
    /// In which step of the round.
    pub(crate) step: u64,
    /// Which data bytes.
    pub(crate) data: Range<u64>,
    /// Their positions in the buffer.
    pub(crate) places: Vec<Strip>,
}

/// A message of a node to an aggregator of another node (or back, for reads).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutgoingMessage {
    /// The aggregator.
    pub(crate) peer: usize,
    /// In which step of the round.
    pub(crate) step: u64,
    /// Its part of the message buffer.
    pub(crate) room: Range<u64>,
}

/// The same message, seen by the aggregator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IncomingMessage {
    /// The rank that sends for its node.
    pub(crate) peer: usize,
    /// In which step of the round.
    pub(crate) step: u64,
    /// The positions of its bytes in the file.
    pub(crate) strips: Vec<Strip>,
}

/// The transfers of one rank in one round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExchangeRound {
    /// Steps of the round, the same on all ranks: more than one if the messages of some node do not fit in its buffer at once.
    pub(crate) steps: u64,
    /// Data in windows of this node.
    pub(crate) local: Vec<LocalPart>,
    /// Data in windows of other nodes.
    pub(crate) remote: Vec<RemotePart>,
    /// Messages that this rank sends (receives, for reads) for its node.
    pub(crate) outgoing: Vec<OutgoingMessage>,
    /// As an aggregator: messages of other nodes.
    pub(crate) incoming: Vec<IncomingMessage>,
    /// As an aggregator: the ranges of the file to write or read.
    pub(crate) ranges: Vec<Range<u64>>,
}

impl ExchangeRound {
    /// The same for an access that lies `by` bytes further in the file, and whose data begins `data` bytes later.
    #[must_use]
    pub(crate) fn shifted(&self, by: i64, data: i64) -> Self {
        let mut round = self.clone();
        round.local.iter_mut().for_each(|part| part.data = shifted(&part.data, data));
        round.remote.iter_mut().for_each(|part| part.data = shifted(&part.data, data));
        round.ranges.iter_mut().for_each(|range| *range = shifted(range, by));
        let strips = round.incoming.iter_mut().flat_map(|message| &mut message.strips);
        strips.for_each(|strip| strip.offset += by);
        round
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn memory_size(&self) -> usize {
        let strips = self.remote.iter().map(|part| part.places.len());
        let strips = strips.chain(self.incoming.iter().map(|message| message.strips.len()));
        size_of::<Self>()
            + size_of_val(&self.local[..])
            + size_of_val(&self.remote[..])
            + size_of_val(&self.outgoing[..])
            + size_of_val(&self.incoming[..])
            + size_of_val(&self.ranges[..])
            + strips.sum::<usize>() * size_of::<Strip>()
    }
}

/// The parts of a rank that accesses a window of data bytes, in some rounds; only those that are not empty.
pub(crate) fn local_parts(
    domains: &FileDomains,
    rounds: Range<u64>,
    pattern: &Pattern,
    window: &Range<u64>,
) -> Vec<LocalPart> {
    let span = pattern.span(window.clone());
    let places = domains.touching(&(span.start as u64..span.end as u64));
    let all = rounds.flat_map(|round| places.clone().map(move |at| (round, at)));
    let part = |(round, at): (u64, usize)| {
        let data = data_inside(pattern, window, &domains.window(round, at).range);
        (!data.is_empty()).then_some(LocalPart { round, window: at, data })
    };
    all.filter_map(part).collect()
}

/// The data bytes of `window` that lie in a range of the file.
pub(crate) fn data_inside(pattern: &Pattern, window: &Range<u64>, range: &Range<u64>) -> Range<u64> {
    if range.is_empty() || window.is_empty() {
        return window.start..window.start;
    }
    let before = |offset: u64| {
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        pattern.bytes_before(offset).unwrap_or(0).clamp(window.start, window.end)
    };
    before(range.start)..before(range.end)
}

/// The rank of a node, by its place in it, that sends for the node to a window of another node: all ranks in turn.
pub(crate) fn node_sender(node_size: usize, round: u64, window: usize) -> usize {
    (round as usize).wrapping_add(window) % node_size
}

/// The ranges that an aggregator accesses of a window with accessed part `whole`, in which the ranks have these strips. A write: only the
/// strips, as one range if they have no gaps; `dense` if that is known already. A read: everything from the first to the last byte.
pub(crate) fn aggregator_ranges(
    direction: TransferDirection,
    whole: Range<u64>,
    dense: bool,
    strips: &[Strip],
) -> Vec<Range<u64>> {
    if direction == TransferDirection::Read {
        let spans = strips.iter().map(Strip::span);
        let all = spans.reduce(|all, span| all.start.min(span.start)..all.end.max(span.end));
        return all.map(|all| all.start as u64..all.end as u64).into_iter().collect();
    }
    let full = || Coverage::is_full(&Coverage::of_strips(strips.iter().copied()).words(), &whole);
    if whole.is_empty() {
        Vec::new()
    } else if dense || full() {
        vec![whole]
    } else {
        merge_ranges(strips.iter().flat_map(runs_of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::Hints;
    use crate::layout::{Basic, Layout};
    use aqueduct_device::Capabilities;

    #[test]
    fn parts_are_all_of_a_ranks_data() {
        let hints = Hints { collective_buffer: 64, ..Hints::default() };
        let pattern = Layout::from(Basic::I32).resized(0, 12).unwrap().endless(8).unwrap();
        let capabilities = Capabilities { block: 16, ..Capabilities::default() };
        let domains = FileDomains::new(0..1200, std::sync::Arc::from([0, 2, 5]), &hints, &capabilities);
        let mut parts = local_parts(&domains, 0..domains.rounds(), &pattern, &(40..400));
        parts.sort_by_key(|part| part.data.start);
        assert_eq!(parts.first().map(|part| part.data.start), Some(40));
        assert_eq!(parts.last().map(|part| part.data.end), Some(400));
        assert!(parts.windows(2).all(|pair| pair[0].data.end == pair[1].data.start));
    }

    // A list of ranges is intended.
    #[allow(clippy::single_range_in_vec_init)]
    #[test]
    fn an_aggregator_writes_received_bytes_only_and_reads_one_range() {
        let strip = |offset| Strip { offset, len: 4, stride: 8, count: 3 };
        assert_eq!(aggregator_ranges(TransferDirection::Write, 0..24, false, &[strip(0), strip(4)]), [0..24]);
        assert_eq!(
            aggregator_ranges(TransferDirection::Write, 0..24, false, &[strip(4)]),
            [4..8, 12..16, 20..24]
        );
        assert_eq!(aggregator_ranges(TransferDirection::Write, 0..24, true, &[]), [0..24]);
        assert_eq!(aggregator_ranges(TransferDirection::Write, 0..24, false, &[]), []);
        assert_eq!(aggregator_ranges(TransferDirection::Read, 0..24, false, &[strip(4)]), [4..24]);
        assert_eq!(aggregator_ranges(TransferDirection::Read, 0..24, false, &[]), []);
    }
}
