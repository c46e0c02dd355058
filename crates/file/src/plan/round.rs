//! Rounds: what one rank does in one round of a collective access, and the arithmetic that says so.

use std::ops::Range;

use super::domains::shifted;
use super::{Coverage, Direction, Domains, runs_of, union};
use crate::layout::{Pattern, Strip};

/// The bytes of a rank in one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which round.
    pub round: u64,
    /// Which of the round's windows.
    pub window: usize,
    /// Which data bytes.
    pub data: Range<u64>,
}

/// A rank's data for a window of another node, on its way through the node's message buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Far {
    /// In which step of the round.
    pub step: u64,
    /// Which data bytes.
    pub data: Range<u64>,
    /// Where they lie in the buffer.
    pub places: Vec<Strip>,
}

/// A message of a node: from a part of its buffer to the aggregator, or back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The aggregator.
    pub peer: usize,
    /// In which step of the round.
    pub step: u64,
    /// Which part of the buffer.
    pub room: Range<u64>,
}

/// The same message at the aggregator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The rank that speaks for its node.
    pub peer: usize,
    /// In which step of the round.
    pub step: u64,
    /// Where the bytes belong in the file.
    pub strips: Vec<Strip>,
}

/// What one rank does in one round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Steps that the round takes on all ranks: more than one where the messages of some node do not fit its buffer at once.
    pub steps: u64,
    /// Data for windows on this node.
    pub near: Vec<Share>,
    /// Data for windows elsewhere.
    pub far: Vec<Far>,
    /// Messages that this rank sends (or receives, when reading) for its node.
    pub parcels: Vec<Parcel>,
    /// As an aggregator: messages of other nodes.
    pub deliveries: Vec<Delivery>,
    /// As an aggregator: what to write, or to read.
    pub ranges: Vec<Range<u64>>,
}

impl Round {
    /// The same for an access that lies `by` bytes further in the file, and whose data begins `data` bytes later.
    #[must_use]
    pub fn shifted(&self, by: i64, data: i64) -> Self {
        let mut round = self.clone();
        round.near.iter_mut().for_each(|share| share.data = shifted(&share.data, data));
        round.far.iter_mut().for_each(|far| far.data = shifted(&far.data, data));
        round.ranges.iter_mut().for_each(|range| *range = shifted(range, by));
        let strips = round.deliveries.iter_mut().flat_map(|delivery| &mut delivery.strips);
        strips.for_each(|strip| strip.offset += by);
        round
    }

    /// About how many bytes of memory it takes.
    pub fn weight(&self) -> usize {
        let strips = self.far.iter().map(|far| far.places.len());
        let strips = strips.chain(self.deliveries.iter().map(|delivery| delivery.strips.len()));
        size_of::<Self>()
            + size_of_val(&self.near[..])
            + size_of_val(&self.far[..])
            + size_of_val(&self.parcels[..])
            + size_of_val(&self.deliveries[..])
            + size_of_val(&self.ranges[..])
            + strips.sum::<usize>() * size_of::<Strip>()
    }
}

/// The shares of a rank that accesses a window of data bytes in some rounds; only those that are not empty.
pub fn shares(domains: &Domains, rounds: Range<u64>, pattern: &Pattern, window: &Range<u64>) -> Vec<Share> {
    let span = pattern.span(window.clone());
    let places = domains.touching(&(span.start as u64..span.end as u64));
    let all = rounds.flat_map(|round| places.clone().map(move |at| (round, at)));
    let share = |(round, at): (u64, usize)| {
        let data = inside(pattern, window, &domains.window(round, at).range);
        (!data.is_empty()).then_some(Share { round, window: at, data })
    };
    all.filter_map(share).collect()
}

/// The data bytes of `window` that lie in a range of the file.
pub fn inside(pattern: &Pattern, window: &Range<u64>, range: &Range<u64>) -> Range<u64> {
    if range.is_empty() || window.is_empty() {
        return window.start..window.start;
    }
    let before = |offset: u64| {
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        pattern.bytes_before(offset).unwrap_or(0).clamp(window.start, window.end)
    };
    before(range.start)..before(range.end)
}

/// Which rank of a node, by its place, speaks for the node about a window elsewhere: all of them in turn.
pub fn speaker(node_size: usize, round: u64, window: usize) -> usize {
    (round as usize).wrapping_add(window) % node_size
}

/// What an aggregator accesses of a window whose accessed part is `whole`, where the ranks have these strips. Writing, only what they have, in one
/// piece where that has no gaps; `dense` if this is known already. Reading, everything from the first to the last.
pub fn duty(direction: Direction, whole: Range<u64>, dense: bool, strips: &[Strip]) -> Vec<Range<u64>> {
    if direction == Direction::Read {
        let spans = strips.iter().map(Strip::span);
        let hull = spans.reduce(|all, span| all.start.min(span.start)..all.end.max(span.end));
        return hull.map(|hull| hull.start as u64..hull.end as u64).into_iter().collect();
    }
    let full = || Coverage::is_full(&Coverage::of_strips(strips.iter().copied()).words(), &whole);
    if whole.is_empty() {
        Vec::new()
    } else if dense || full() {
        vec![whole]
    } else {
        union(strips.iter().flat_map(runs_of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hints;
    use crate::layout::{Basic, Layout};
    use aqueduct_device::Capabilities;

    #[test]
    fn shares_are_all_of_a_ranks_data() {
        let hints = Hints { collective_buffer: 64, ..Hints::default() };
        let pattern = Layout::from(Basic::I32).resized(0, 12).unwrap().endless(8).unwrap();
        let can = Capabilities { block: 16, ..Capabilities::default() };
        let domains = Domains::new(0..1200, std::sync::Arc::from([0, 2, 5]), &hints, &can);
        let mut shares = shares(&domains, 0..domains.rounds(), &pattern, &(40..400));
        shares.sort_by_key(|share| share.data.start);
        assert_eq!(shares.first().map(|share| share.data.start), Some(40));
        assert_eq!(shares.last().map(|share| share.data.end), Some(400));
        assert!(shares.windows(2).all(|pair| pair[0].data.end == pair[1].data.start));
    }

    // Ranges are meant.
    #[allow(clippy::single_range_in_vec_init)]
    #[test]
    fn an_aggregator_writes_what_it_got_and_reads_what_is_wanted() {
        let strip = |offset| Strip { offset, len: 4, stride: 8, count: 3 };
        assert_eq!(duty(Direction::Write, 0..24, false, &[strip(0), strip(4)]), [0..24]);
        assert_eq!(duty(Direction::Write, 0..24, false, &[strip(4)]), [4..8, 12..16, 20..24]);
        assert_eq!(duty(Direction::Write, 0..24, true, &[]), [0..24]);
        assert_eq!(duty(Direction::Write, 0..24, false, &[]), []);
        assert_eq!(duty(Direction::Read, 0..24, false, &[strip(4)]), [4..24]);
        assert_eq!(duty(Direction::Read, 0..24, false, &[]), []);
    }
}
