//! What an independent access costs each way: an estimate from its size and from constants, corrected by what accesses have cost.

use aqueduct_device::Capabilities;

use super::{Direction, Strategy};
use crate::hints::{Hints, Toggle};

/// The size of an access, as far as its cost depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes from the first to the last one.
    pub span: u64,
    /// Bytes accessed.
    pub bytes: u64,
    /// Contiguous runs they fall into.
    pub runs: u64,
    /// Whether its pages are new: it makes the file longer, or fills a hole.
    pub fresh: bool,
}

/// A way to do an access, and how long that is estimated to take, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The way.
    pub strategy: Strategy,
    /// Nanoseconds.
    pub estimate: f64,
}

// Nanoseconds, measured on the page cache of a common machine.
const READ_CALL: f64 = 500.0;
const WRITE_CALL: f64 = 1500.0;
/// A run of a list, where the device takes lists.
const LISTED: f64 = 100.0;
/// The same past the page cache, where each is an operation of the medium.
const PAST_CALL: f64 = 80_000.0;
const PAST_LISTED: f64 = 8_000.0;
const PAST_BYTE: f64 = 0.4;
/// A page made present, once for all later accesses.
const READ_PAGE: f64 = 40.0;
const WRITE_PAGE: f64 = 300.0;
const PAGE: f64 = 4096.0;
/// What a call, a page and a byte cost beyond that where the pages are new, and the ranks wait for one another.
const NEW_CALL: f64 = 20_000.0;
const NEW_PAGE: f64 = 4000.0;
const NEW_BYTE: f64 = 0.25;
/// A byte moved.
const BYTE: f64 = 0.15;
/// A run picked out of a buffer or put into it.
const PICK: f64 = 2.0;

/// A byte moved through the buffers of a node.
const EXCHANGED: f64 = 0.5;
/// A collective call that exchanges: its meetings.
const MEETINGS: f64 = 20_000.0;

/// What prices are made from.
#[derive(Clone, Copy, Debug)]
pub struct Market<'a> {
    /// The hints in force.
    pub hints: &'a Hints,
    /// What the device can do.
    pub can: &'a Capabilities,
    /// What accesses have cost so far.
    pub experience: &'a Experience,
}

impl Market<'_> {
    /// The way for one rank alone that is estimated to be cheapest.
    pub fn cheapest(&self, direction: Direction, extent: &Extent) -> Choice {
        let prices = ALONE.iter().map(|way| self.price(direction, *way, extent));
        let cheapest = prices.filter(|choice| choice.estimate.is_finite());
        let cheapest = cheapest.min_by(|a, b| a.estimate.total_cmp(&b.estimate));
        cheapest.unwrap_or(Choice { strategy: Strategy::List, estimate: f64::NAN })
    }

    /// All ways with their prices, those for one rank alone or all.
    pub fn prices(&self, direction: Direction, extent: &Extent, together: bool) -> Vec<Choice> {
        let ways = if together { &WAYS[..] } else { &ALONE[..] };
        ways.iter().map(|way| self.price(direction, *way, extent)).collect()
    }

    /// What one way is estimated to cost; not a number where it is not to be had.
    pub fn price(&self, direction: Direction, strategy: Strategy, extent: &Extent) -> Choice {
        let estimate = self.estimate(direction, strategy, extent).unwrap_or(f64::NAN);
        Choice { strategy, estimate: estimate * self.experience.factor(direction, strategy) }
    }

    /// What one way costs without experience; none if it is not to be had.
    fn estimate(&self, direction: Direction, strategy: Strategy, extent: &Extent) -> Option<f64> {
        let (runs, span, bytes) = (extent.runs as f64, extent.span as f64, extent.bytes as f64);
        let hints = self.hints;
        let (call, page, sieve, buffer) = match direction {
            Direction::Read => (READ_CALL, READ_PAGE, hints.sieve_read, hints.read_buffer),
            Direction::Write => (WRITE_CALL, WRITE_PAGE, hints.sieve_write, hints.write_buffer),
        };
        let (call, listed, byte) =
            if self.can.alignment > 1 { (PAST_CALL, PAST_LISTED, PAST_BYTE) } else { (call, LISTED, BYTE) };
        let (call, page, byte) = if extent.fresh {
            (call + NEW_CALL, page + NEW_PAGE, byte + NEW_BYTE)
        } else {
            (call, page, byte)
        };
        let moved = bytes * byte;
        match strategy {
            Strategy::List if self.can.native_lists => Some(runs * listed + moved),
            Strategy::Direct | Strategy::List => Some(runs * call + moved),
            Strategy::Map if self.can.maps && hints.map => {
                Some((span / PAGE + 1.0) * page + runs * PICK + moved)
            }
            Strategy::Map => None,
            // Reading, changing and writing back is safe only if all writers lock; see `Hints::sieve_write`.
            Strategy::Sieve if direction == Direction::Write || sieve == Toggle::Disable => None,
            Strategy::Sieve => {
                let windows = (span / buffer as f64).ceil();
                Some(windows * call + span * byte + runs * PICK + bytes * BYTE)
            }
            Strategy::TwoPhase => Some(MEETINGS + runs * PICK + bytes * EXCHANGED),
        }
    }
}

/// How many times as long as estimated each way has taken, lately; 1 where nothing is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experience {
    factors: [[f64; WAYS.len()]; 2],
}

/// The ways among which a rank alone chooses.
const ALONE: [Strategy; 3] = [Strategy::List, Strategy::Sieve, Strategy::Map];
/// All of which the cost is learned.
const WAYS: [Strategy; 4] = [Strategy::List, Strategy::Sieve, Strategy::Map, Strategy::TwoPhase];
/// How much an access counts that took less than was expected.
const BETTER: f64 = 0.3;
/// The same, if it took more: it may have lost its core meanwhile, or have been the first to touch its pages, which tells nothing about
/// the way it was done.
const WORSE: f64 = 0.1;
/// An access that took more than so many times as long as expected counts as if it had not taken longer.
const SURPRISE: f64 = 3.0;
/// How fast what was not tried is forgotten: by then the file, or the load, may be another.
const FORGET: f64 = 0.01;
/// Shorter accesses, in nanoseconds, tell more about the clock.
const TELLING: f64 = 5_000.0;

impl Default for Experience {
    fn default() -> Self {
        Self { factors: [[1.0; WAYS.len()]; 2] }
    }
}

impl Experience {
    fn factor(&self, direction: Direction, strategy: Strategy) -> f64 {
        let place = WAYS.iter().position(|way| *way == strategy);
        place.map_or(1.0, |place| self.factors[direction as usize][place])
    }

    /// Learns what an access took, in nanoseconds.
    pub fn learn(&mut self, direction: Direction, choice: Choice, took: f64) {
        if !choice.estimate.is_finite() || choice.estimate.max(took) < TELLING {
            return;
        }
        let factors = &mut self.factors[direction as usize];
        for (way, factor) in WAYS.iter().zip(factors) {
            if *way == choice.strategy {
                // The estimate had the factor in it.
                *factor = learned(*factor, *factor * took / choice.estimate).clamp(1e-3, 1e3);
            } else {
                *factor += (1.0 - *factor) * FORGET;
            }
        }
    }
}

/// What is expected after something else was seen.
pub(crate) fn learned(expected: f64, seen: f64) -> f64 {
    let weight = if seen < expected { BETTER } else { WORSE };
    expected + (seen.min(expected * SURPRISE) - expected) * weight
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(span: u64, bytes: u64, runs: u64, can: Capabilities) -> Strategy {
        let extent = Extent { span, bytes, runs, fresh: false };
        let (hints, experience) = (Hints::default(), Experience::default());
        Market { hints: &hints, can: &can, experience: &experience }
            .cheapest(Direction::Read, &extent)
            .strategy
    }

    #[test]
    fn dense_small_runs_are_sieved_and_sparse_ones_listed() {
        let can = Capabilities::default();
        assert_eq!(choice(4 << 20, 1 << 20, 1 << 18, can), Strategy::Sieve);
        assert_eq!(choice(1 << 40, 400, 100, can), Strategy::List);
        assert_eq!(choice(1 << 20, 1 << 20, 1, can), Strategy::List);
    }

    #[test]
    fn devices_are_taken_at_their_word() {
        let lists = Capabilities { native_lists: true, ..Capabilities::default() };
        assert_eq!(choice(4 << 20, 1 << 20, 1 << 10, lists), Strategy::List);
        let maps = Capabilities { maps: true, ..Capabilities::default() };
        assert_eq!(choice(4 << 20, 1 << 20, 1 << 18, maps), Strategy::Map);
        assert_eq!(choice(1 << 40, 400, 100, maps), Strategy::List);
    }

    #[test]
    fn interleaved_pieces_of_a_new_file_are_put_together_first() {
        let can = Capabilities { maps: true, ..Capabilities::default() };
        let (hints, experience) = (Hints::default(), Experience::default());
        let market = Market { hints: &hints, can: &can, experience: &experience };
        let together = |piece: u64, fresh| {
            let extent = Extent { span: 128 * piece, bytes: 64 * piece, runs: 64, fresh };
            let together = market.price(Direction::Write, Strategy::TwoPhase, &extent);
            together.estimate < market.cheapest(Direction::Write, &extent).estimate
        };
        assert!(together(64 << 10, true) && !together(64 << 10, false));
        assert!(!together(1 << 20, true) && !together(1 << 20, false));
    }

    #[test]
    fn past_the_page_cache_few_large_operations_are_cheap() {
        let past = Capabilities { native_lists: true, alignment: 4096, ..Capabilities::default() };
        assert_eq!(choice(8 << 20, 4 << 20, 1 << 10, past), Strategy::Sieve);
        assert_eq!(choice(1 << 30, 4 << 20, 1 << 10, past), Strategy::List);
    }

    #[test]
    fn what_turns_out_dear_is_left_and_tried_again_later() {
        let (hints, can) = (Hints::default(), Capabilities { maps: true, ..Capabilities::default() });
        let extent = Extent { span: 4 << 20, bytes: 2 << 20, runs: 512, fresh: false };
        let mut experience = Experience::default();
        let ask = |experience: &Experience| {
            Market { hints: &hints, can: &can, experience }.cheapest(Direction::Write, &extent)
        };
        assert_eq!(ask(&experience).strategy, Strategy::Map);
        let mut tries = 0;
        while ask(&experience).strategy == Strategy::Map {
            let choice = ask(&experience);
            experience.learn(Direction::Write, choice, 20e6);
            tries += 1;
        }
        assert!(tries < 8, "{tries} dear accesses before it gave up");
        let mut others = 0;
        while ask(&experience).strategy == Strategy::List {
            let choice = ask(&experience);
            experience.learn(Direction::Write, choice, choice.estimate);
            others += 1;
        }
        assert!((10..1000).contains(&others), "tried again after {others} accesses");
    }

    #[test]
    fn a_dear_beginning_does_not_spoil_what_is_cheap_from_then_on() {
        let (hints, can) = (Hints::default(), Capabilities { maps: true, ..Capabilities::default() });
        let extent = Extent { span: 2 << 20, bytes: 1 << 20, runs: 1 << 18, fresh: false };
        let mut experience = Experience::default();
        for access in 0..100 {
            let market = Market { hints: &hints, can: &can, experience: &experience };
            let alone = market.cheapest(Direction::Write, &extent);
            let together = market.price(Direction::Write, Strategy::TwoPhase, &extent);
            assert!(alone.strategy == Strategy::Map && alone.estimate < together.estimate, "access {access}");
            // The first one makes the pages, and every fifth loses its core.
            let took = if access % 5 == 0 { 3e6 } else { 300e3 };
            experience.learn(Direction::Write, alone, took);
        }
    }
}
