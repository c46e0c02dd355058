//! The cost model: what an access costs with each strategy, estimated from its size and from constants, corrected by measured costs.

use std::ops::Range;

use aqueduct_device::Capabilities;

use crate::context::AccessScope;
use crate::hints::{Hints, Strategy, Toggle, TransferDirection};
use crate::layout::Pattern;

/// The size of an access, as far as its cost depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessSize {
    /// Bytes from the first to the last one.
    pub(crate) span: u64,
    /// Bytes accessed.
    pub(crate) bytes: u64,
    /// Contiguous runs they fall into.
    pub(crate) runs: u64,
    /// True if its pages are new: it extends the file, or fills a hole.
    pub(crate) new_pages: bool,
}

/// Strips from which the number of runs is estimated.
const SAMPLE: usize = 64;

impl AccessSize {
    /// Of a window of data bytes.
    pub(crate) fn of(pattern: &Pattern, window: &Range<u64>, new_pages: bool) -> Self {
        let (span, bytes) = (pattern.file_span(window), window.end - window.start);
        Self { span: span.end - span.start, bytes, runs: estimate_runs(pattern, window), new_pages }
    }
}

/// The number of runs of a window, estimated from its first strips: counting all could cost more than it saves.
fn estimate_runs(pattern: &Pattern, window: &Range<u64>) -> u64 {
    let (mut runs, mut bytes) = (0u64, 0);
    for strip in pattern.strips(window.clone()).take(SAMPLE) {
        runs += strip.count;
        bytes += strip.size();
    }
    let all = window.end - window.start;
    if bytes == 0 { 0 } else { (u128::from(runs) * u128::from(all) / u128::from(bytes)) as u64 }
}

/// A strategy and the time that it is estimated to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) strategy: Strategy,
    pub(crate) nanoseconds: f64,
}

// Nanoseconds, measured on the page cache of a common machine.
const READ_CALL: f64 = 500.0;
const WRITE_CALL: f64 = 1500.0;
/// A run of a list, where the device takes lists.
const LISTED: f64 = 100.0;
/// The same with direct I/O, where each is an operation of the medium.
const DIRECT_CALL: f64 = 80_000.0;
const DIRECT_LISTED: f64 = 8_000.0;
const DIRECT_BYTE: f64 = 0.4;
/// A page made present, once for all later accesses.
const READ_PAGE: f64 = 40.0;
const WRITE_PAGE: f64 = 300.0;
const PAGE: f64 = 4096.0;
/// Additional costs of a call, a page and a byte if the pages are new and the ranks wait for one another.
const NEW_CALL: f64 = 20_000.0;
const NEW_PAGE: f64 = 4000.0;
const NEW_BYTE: f64 = 0.25;
/// A byte moved.
const BYTE: f64 = 0.15;
/// A run picked out of a buffer or put into it.
const PICK: f64 = 2.0;

/// A byte moved through the buffers of a node.
const EXCHANGED: f64 = 0.5;
/// The barriers of a collective call that exchanges data.
const BARRIERS: f64 = 20_000.0;

/// What estimates are computed from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostModel<'a> {
    /// The hints in force.
    pub(crate) hints: &'a Hints,
    pub(crate) capabilities: &'a Capabilities,
    pub(crate) calibration: &'a Calibration,
}

impl CostModel<'_> {
    /// The strategy of one rank by itself with the lowest estimated cost.
    pub(crate) fn cheapest(&self, direction: TransferDirection, size: &AccessSize) -> Estimate {
        let estimates = INDEPENDENT.iter().map(|strategy| self.estimate(direction, *strategy, size));
        let cheapest = estimates.filter(|estimate| estimate.nanoseconds.is_finite());
        let cheapest = cheapest.min_by(|a, b| a.nanoseconds.total_cmp(&b.nanoseconds));
        cheapest.unwrap_or(Estimate { strategy: Strategy::List, nanoseconds: f64::NAN })
    }

    /// The estimates of all strategies of a scope.
    pub(crate) fn estimates(
        &self,
        direction: TransferDirection,
        size: &AccessSize,
        scope: AccessScope,
    ) -> Vec<Estimate> {
        let strategies = if scope == AccessScope::Collective { &STRATEGIES[..] } else { &INDEPENDENT[..] };
        strategies.iter().map(|strategy| self.estimate(direction, *strategy, size)).collect()
    }

    /// The estimated cost of one strategy; not a number if it is not available.
    pub(crate) fn estimate(
        &self,
        direction: TransferDirection,
        strategy: Strategy,
        size: &AccessSize,
    ) -> Estimate {
        let nominal = self.nominal(direction, strategy, size).unwrap_or(f64::NAN);
        Estimate { strategy, nanoseconds: nominal * self.calibration.factor(direction, strategy) }
    }

    /// The cost of one strategy before calibration, in nanoseconds; none if it is not available.
    fn nominal(&self, direction: TransferDirection, strategy: Strategy, size: &AccessSize) -> Option<f64> {
        let (runs, span, bytes) = (size.runs as f64, size.span as f64, size.bytes as f64);
        let hints = self.hints;
        let (call, page, sieve, buffer) = match direction {
            TransferDirection::Read => (READ_CALL, READ_PAGE, hints.sieve_read, hints.read_buffer),
            TransferDirection::Write => (WRITE_CALL, WRITE_PAGE, hints.sieve_write, hints.write_buffer),
        };
        let (call, listed, byte) = if self.capabilities.alignment > 1 {
            (DIRECT_CALL, DIRECT_LISTED, DIRECT_BYTE)
        } else {
            (call, LISTED, BYTE)
        };
        let (call, page, byte) = if size.new_pages {
            (call + NEW_CALL, page + NEW_PAGE, byte + NEW_BYTE)
        } else {
            (call, page, byte)
        };
        let moved = bytes * byte;
        match strategy {
            Strategy::List if self.capabilities.native_lists => Some(runs * listed + moved),
            Strategy::Direct | Strategy::List => Some(runs * call + moved),
            Strategy::Map if self.capabilities.maps && hints.map => {
                Some((span / PAGE + 1.0) * page + runs * PICK + moved)
            }
            Strategy::Map => None,
            // Reading, changing and writing back is safe only if all writers lock; see `Hints::sieve_write`.
            Strategy::Sieve if direction == TransferDirection::Write || sieve == Toggle::Disable => None,
            Strategy::Sieve => {
                let windows = (span / buffer as f64).ceil();
                Some(windows * call + span * byte + runs * PICK + bytes * BYTE)
            }
            Strategy::TwoPhase => Some(BARRIERS + runs * PICK + bytes * EXCHANGED),
        }
    }
}

/// Measured time divided by nominal time of each strategy, smoothed; 1 if nothing is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Calibration {
    factors: [[f64; STRATEGIES.len()]; 2],
}

/// The strategies of one rank by itself.
const INDEPENDENT: [Strategy; 3] = [Strategy::List, Strategy::Sieve, Strategy::Map];
/// All strategies that are calibrated.
const STRATEGIES: [Strategy; 4] = [Strategy::List, Strategy::Sieve, Strategy::Map, Strategy::TwoPhase];
/// The weight of an access that took less time than estimated.
const FASTER_WEIGHT: f64 = 0.3;
/// The weight of an access that took more time: the process may have been descheduled, or the access was the first to touch its
/// pages, which says nothing about the strategy.
const SLOWER_WEIGHT: f64 = 0.1;
/// A measured time above so many times the estimated one counts as so many times.
const OUTLIER: f64 = 3.0;
/// How fast the factors of other strategies return to 1: the file or the load may have changed.
const DECAY: f64 = 0.01;
/// Shorter accesses, in nanoseconds, are not measured exactly enough.
const SHORTEST_MEASURED: f64 = 5_000.0;

impl Default for Calibration {
    fn default() -> Self {
        Self { factors: [[1.0; STRATEGIES.len()]; 2] }
    }
}

impl Calibration {
    fn factor(&self, direction: TransferDirection, strategy: Strategy) -> f64 {
        let place = STRATEGIES.iter().position(|calibrated| *calibrated == strategy);
        place.map_or(1.0, |place| self.factors[direction as usize][place])
    }

    /// Records the measured time of an access, in nanoseconds.
    pub(crate) fn record(&mut self, direction: TransferDirection, estimate: Estimate, took: f64) {
        if !estimate.nanoseconds.is_finite() || estimate.nanoseconds.max(took) < SHORTEST_MEASURED {
            return;
        }
        let factors = &mut self.factors[direction as usize];
        for (strategy, factor) in STRATEGIES.iter().zip(factors) {
            if *strategy == estimate.strategy {
                // The estimate includes the factor.
                *factor = smooth_cost(*factor, *factor * took / estimate.nanoseconds).clamp(1e-3, 1e3);
            } else {
                *factor += (1.0 - *factor) * DECAY;
            }
        }
    }
}

/// The expected cost after another one was measured.
pub(crate) fn smooth_cost(expected: f64, measured: f64) -> f64 {
    let weight = if measured < expected { FASTER_WEIGHT } else { SLOWER_WEIGHT };
    expected + (measured.min(expected * OUTLIER) - expected) * weight
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(span: u64, bytes: u64, runs: u64, capabilities: Capabilities) -> Strategy {
        let size = AccessSize { span, bytes, runs, new_pages: false };
        let (hints, calibration) = (Hints::default(), Calibration::default());
        CostModel { hints: &hints, capabilities: &capabilities, calibration: &calibration }
            .cheapest(TransferDirection::Read, &size)
            .strategy
    }

    #[test]
    fn dense_small_runs_are_sieved_and_sparse_ones_listed() {
        let capabilities = Capabilities::default();
        assert_eq!(choice(4 << 20, 1 << 20, 1 << 18, capabilities), Strategy::Sieve);
        assert_eq!(choice(1 << 40, 400, 100, capabilities), Strategy::List);
        assert_eq!(choice(1 << 20, 1 << 20, 1, capabilities), Strategy::List);
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
        let capabilities = Capabilities { maps: true, ..Capabilities::default() };
        let (hints, calibration) = (Hints::default(), Calibration::default());
        let model = CostModel { hints: &hints, capabilities: &capabilities, calibration: &calibration };
        let together = |piece: u64, new_pages| {
            let size = AccessSize { span: 128 * piece, bytes: 64 * piece, runs: 64, new_pages };
            let together = model.estimate(TransferDirection::Write, Strategy::TwoPhase, &size);
            together.nanoseconds < model.cheapest(TransferDirection::Write, &size).nanoseconds
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
        let (hints, capabilities) =
            (Hints::default(), Capabilities { maps: true, ..Capabilities::default() });
        let size = AccessSize { span: 4 << 20, bytes: 2 << 20, runs: 512, new_pages: false };
        let mut calibration = Calibration::default();
        let ask = |calibration: &Calibration| {
            CostModel { hints: &hints, capabilities: &capabilities, calibration }
                .cheapest(TransferDirection::Write, &size)
        };
        assert_eq!(ask(&calibration).strategy, Strategy::Map);
        let mut tries = 0;
        while ask(&calibration).strategy == Strategy::Map {
            let choice = ask(&calibration);
            calibration.record(TransferDirection::Write, choice, 20e6);
            tries += 1;
        }
        assert!(tries < 8, "{tries} dear accesses before it gave up");
        let mut others = 0;
        while ask(&calibration).strategy == Strategy::List {
            let choice = ask(&calibration);
            calibration.record(TransferDirection::Write, choice, choice.nanoseconds);
            others += 1;
        }
        assert!((10..1000).contains(&others), "tried again after {others} accesses");
    }

    #[test]
    fn a_dear_beginning_does_not_spoil_what_is_cheap_from_then_on() {
        let (hints, capabilities) =
            (Hints::default(), Capabilities { maps: true, ..Capabilities::default() });
        let size = AccessSize { span: 2 << 20, bytes: 1 << 20, runs: 1 << 18, new_pages: false };
        let mut calibration = Calibration::default();
        for access in 0..100 {
            let model = CostModel { hints: &hints, capabilities: &capabilities, calibration: &calibration };
            let alone = model.cheapest(TransferDirection::Write, &size);
            let together = model.estimate(TransferDirection::Write, Strategy::TwoPhase, &size);
            assert!(
                alone.strategy == Strategy::Map && alone.nanoseconds < together.nanoseconds,
                "access {access}"
            );
            // The first one makes the pages, and every fifth loses its core.
            let took = if access % 5 == 0 { 3e6 } else { 300e3 };
            calibration.record(TransferDirection::Write, alone, took);
        }
    }
}
