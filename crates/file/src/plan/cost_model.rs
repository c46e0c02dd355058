//! The cost model: the estimated cost of an access with each strategy.
//!
//! An estimate is computed from the size of the access and the costs of the machine
//! ([`MachineCosts`], all constants), and corrected by measured times ([`Calibration`]). What is
//! learnt is learnt in one way: by [`Smoothing`] and [`ConsecutiveCount`], which the detectors of access
//! patterns and the pacing of write buffers use too.

mod calibration;
mod machine_costs;
mod run_costs;
mod smoothing;

use std::ops::Range;

use aqueduct_device::Capabilities;

use crate::context::AccessScope;
use crate::hints::{Hints, Strategy, Toggle, TransferDirection};
use crate::layout::Pattern;
pub(crate) use calibration::Calibration;
use machine_costs::PAGE;
pub(crate) use machine_costs::{MachineCosts, THRESHOLDS};
pub(crate) use run_costs::RunCosts;
pub(crate) use smoothing::{ConsecutiveCount, Smoothing};

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

impl AccessSize {
    /// Of a window of data bytes.
    pub(crate) fn of(pattern: &Pattern, window: &Range<u64>, new_pages: bool) -> Self {
        let (span, bytes) = (pattern.file_span(window), window.end - window.start);
        Self { span: span.end - span.start, bytes, runs: estimate_runs(pattern, window), new_pages }
    }
}

/// The number of runs of a window, estimated from its first strips.
fn estimate_runs(pattern: &Pattern, window: &Range<u64>) -> u64 {
    let (mut runs, mut bytes) = (0u64, 0);
    for strip in pattern.strips(window.clone()).take(THRESHOLDS.sampled_strips) {
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

/// Costs of accesses to a device, in nanoseconds.
struct DeviceCosts {
    call: f64,
    /// A further run in a list.
    list_entry: f64,
    byte: f64,
}

/// The strategies of one rank by itself.
const INDEPENDENT: [Strategy; 3] = [Strategy::List, Strategy::Sieve, Strategy::Map];
/// All strategies that are calibrated.
const STRATEGIES: [Strategy; 4] = [Strategy::List, Strategy::Sieve, Strategy::Map, Strategy::TwoPhase];

/// What estimates are computed from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostModel<'a> {
    /// The hints in force.
    pub(crate) hints: &'a Hints,
    pub(crate) capabilities: &'a Capabilities,
    pub(crate) machine: &'a MachineCosts,
    pub(crate) calibration: &'a Calibration,
    /// Whose calibration counts: that of independent or of collective calls.
    pub(crate) scope: AccessScope,
}

impl<'a> CostModel<'a> {
    /// The model of independent calls with documented costs.
    pub(crate) fn new(
        hints: &'a Hints,
        capabilities: &'a Capabilities,
        calibration: &'a Calibration,
    ) -> Self {
        let (machine, scope) = (&MachineCosts::DOCUMENTED, AccessScope::Independent);
        Self { hints, capabilities, machine, calibration, scope }
    }

    /// The same model with the calibration of another scope.
    #[must_use]
    pub(crate) fn in_scope(self, scope: AccessScope) -> Self {
        Self { scope, ..self }
    }

    /// The strategy of one rank by itself with the lowest estimated cost.
    pub(crate) fn cheapest(&self, direction: TransferDirection, size: &AccessSize) -> Estimate {
        let estimates = INDEPENDENT.iter().map(|strategy| self.estimate(direction, *strategy, size));
        let cheapest = estimates.filter(|estimate| estimate.nanoseconds.is_finite());
        let cheapest = cheapest.min_by(|a, b| a.nanoseconds.total_cmp(&b.nanoseconds));
        cheapest.unwrap_or(Estimate { strategy: Strategy::List, nanoseconds: f64::NAN })
    }

    /// The estimates of all strategies of the scope.
    pub(crate) fn estimates(&self, direction: TransferDirection, size: &AccessSize) -> Vec<Estimate> {
        let strategies =
            if self.scope == AccessScope::Collective { &STRATEGIES[..] } else { &INDEPENDENT[..] };
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
        Estimate { strategy, nanoseconds: nominal * self.calibration.factor(self.scope, direction, strategy) }
    }

    /// The costs of the device: those in its capabilities, or else those of the machine. `call` is the latter of a call.
    fn device_costs(&self, call: f64) -> DeviceCosts {
        let (machine, Capabilities { alignment, latency, bandwidth, .. }) = (self.machine, self.capabilities);
        let direct = *alignment > 1;
        let call = if direct { machine.direct_call } else { call };
        let list_entry = if direct { machine.direct_list_entry } else { machine.list_entry };
        let byte = if direct { machine.direct_byte } else { machine.byte };
        DeviceCosts {
            call: latency.map_or(call, |latency| latency.as_nanos() as f64),
            list_entry,
            byte: bandwidth.map_or(byte, |rate| 1e9 / rate.0.max(1) as f64),
        }
    }

    /// The cost of one strategy before calibration, in nanoseconds; none if it is not available.
    fn nominal(&self, direction: TransferDirection, strategy: Strategy, size: &AccessSize) -> Option<f64> {
        let (runs, span, bytes) = (size.runs as f64, size.span as f64, size.bytes as f64);
        let (hints, machine) = (self.hints, self.machine);
        let (call, page, sieve, buffer) = match direction {
            TransferDirection::Read => {
                (machine.read_call, machine.read_page, hints.sieve_read, hints.read_buffer)
            }
            TransferDirection::Write => {
                (machine.write_call, machine.write_page, hints.sieve_write, hints.write_buffer)
            }
        };
        let DeviceCosts { call, list_entry, byte } = self.device_costs(call);
        let (call, page, byte) = if size.new_pages {
            (call + machine.new_call, page + machine.new_page, byte + machine.new_byte)
        } else {
            (call, page, byte)
        };
        let moved = bytes * byte;
        match strategy {
            Strategy::List if self.capabilities.native_strips => {
                Some(call + runs * machine.copied_run + moved)
            }
            Strategy::List if self.capabilities.native_lists => Some(runs * list_entry + moved),
            Strategy::Direct | Strategy::List => Some(runs * call + moved),
            Strategy::Map if self.capabilities.maps && hints.map => {
                Some((span / PAGE + 1.0) * page + runs * machine.copied_run + moved)
            }
            Strategy::Map => None,
            // Reading, changing and writing back is safe only if all writers lock; see `Hints::sieve_write`.
            Strategy::Sieve if direction == TransferDirection::Write || sieve == Toggle::Disable => None,
            Strategy::Sieve => {
                let windows = (span / buffer as f64).ceil();
                Some(windows * call + span * byte + runs * machine.copied_run + bytes * machine.byte)
            }
            Strategy::TwoPhase => {
                // The exchange has the write to the page cache in it.
                let slower = self.capabilities.bandwidth.map_or(0.0, |_| byte - machine.byte);
                let latency = self.capabilities.latency.map_or(0.0, |_| call);
                let exchange = runs * machine.copied_run + bytes * (machine.exchanged_byte + slower);
                Some(machine.barriers + latency + exchange)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aqueduct_device::units::ByteRate;

    use super::*;

    fn choice(span: u64, bytes: u64, runs: u64, capabilities: Capabilities) -> Strategy {
        let size = AccessSize { span, bytes, runs, new_pages: false };
        let (hints, calibration) = (Hints::default(), Calibration::default());
        CostModel::new(&hints, &capabilities, &calibration).cheapest(TransferDirection::Read, &size).strategy
    }

    #[test]
    fn dense_small_runs_are_sieved_and_sparse_ones_listed() {
        let capabilities = Capabilities::default();
        assert_eq!(choice(4 << 20, 1 << 20, 1 << 18, capabilities), Strategy::Sieve);
        assert_eq!(choice(1 << 40, 400, 100, capabilities), Strategy::List);
        assert_eq!(choice(1 << 20, 1 << 20, 1, capabilities), Strategy::List);
    }

    #[test]
    fn capabilities_of_the_device_change_the_strategy() {
        let lists = Capabilities { native_lists: true, ..Capabilities::default() };
        assert_eq!(choice(4 << 20, 1 << 20, 1 << 10, lists), Strategy::List);
        let maps = Capabilities { maps: true, ..Capabilities::default() };
        assert_eq!(choice(4 << 20, 1 << 20, 1 << 18, maps), Strategy::Map);
        assert_eq!(choice(1 << 40, 400, 100, maps), Strategy::List);
    }

    #[test]
    fn the_first_choice_uses_the_costs_of_the_device() {
        // A thousand runs of 4 KiB in 8 MiB: calls in the page cache, two large reads if each call takes a millisecond.
        let (span, bytes, runs) = (8 << 20, 4 << 20, 1 << 10);
        let slow = Capabilities { latency: Some(Duration::from_millis(1)), ..Capabilities::default() };
        assert_eq!(choice(span, bytes, runs, Capabilities::default()), Strategy::List);
        assert_eq!(choice(span, bytes, runs, slow), Strategy::Sieve);
        // Over a slow network what lies between the runs costs more than calls.
        let narrow = Capabilities { bandwidth: Some(ByteRate(10_000_000)), ..Capabilities::default() };
        assert_eq!(choice(4 << 20, 1 << 20, 1 << 14, Capabilities::default()), Strategy::Sieve);
        assert_eq!(choice(4 << 20, 1 << 20, 1 << 14, narrow), Strategy::List);
        // A server takes strips: of runs of 4 bytes nothing between them is read.
        let lists = Capabilities { native_lists: true, ..Capabilities::default() };
        let server = Capabilities {
            native_strips: true,
            latency: Some(Duration::from_micros(40)),
            bandwidth: Some(ByteRate(1_000_000_000)),
            ..lists
        };
        assert_eq!(choice(8 << 20, 4 << 20, 1 << 20, lists), Strategy::Sieve);
        assert_eq!(choice(8 << 20, 4 << 20, 1 << 20, server), Strategy::List);
    }

    #[test]
    fn medium_sized_interleaved_pieces_of_a_new_file_are_aggregated() {
        let capabilities = Capabilities { maps: true, ..Capabilities::default() };
        let (hints, calibration) = (Hints::default(), Calibration::default());
        let model = CostModel::new(&hints, &capabilities, &calibration);
        let aggregates = |piece: u64, new_pages| {
            let size = AccessSize { span: 128 * piece, bytes: 64 * piece, runs: 64, new_pages };
            let two_phase = model.estimate(TransferDirection::Write, Strategy::TwoPhase, &size);
            two_phase.nanoseconds < model.cheapest(TransferDirection::Write, &size).nanoseconds
        };
        assert!(aggregates(64 << 10, true) && !aggregates(64 << 10, false));
        assert!(!aggregates(1 << 20, true) && !aggregates(1 << 20, false));
    }

    #[test]
    fn direct_io_prefers_few_large_operations() {
        let direct = Capabilities { native_lists: true, alignment: 4096, ..Capabilities::default() };
        assert_eq!(choice(8 << 20, 4 << 20, 1 << 10, direct), Strategy::Sieve);
        assert_eq!(choice(1 << 30, 4 << 20, 1 << 10, direct), Strategy::List);
    }

    #[test]
    fn a_strategy_that_is_slower_than_estimated_is_left_and_retried_later() {
        let (hints, capabilities) =
            (Hints::default(), Capabilities { maps: true, ..Capabilities::default() });
        let size = AccessSize { span: 4 << 20, bytes: 2 << 20, runs: 512, new_pages: false };
        let mut calibration = Calibration::default();
        let ask = |calibration: &Calibration| {
            CostModel::new(&hints, &capabilities, calibration).cheapest(TransferDirection::Write, &size)
        };
        assert_eq!(ask(&calibration).strategy, Strategy::Map);
        let mut tries = 0;
        while ask(&calibration).strategy == Strategy::Map {
            let choice = ask(&calibration);
            calibration.record(AccessScope::Independent, TransferDirection::Write, choice, 20e6);
            tries += 1;
        }
        assert!(tries < 8, "{tries} slow accesses before another strategy was used");
        let mut others = 0;
        while ask(&calibration).strategy == Strategy::List {
            let choice = ask(&calibration);
            calibration.record(
                AccessScope::Independent,
                TransferDirection::Write,
                choice,
                choice.nanoseconds,
            );
            others += 1;
        }
        assert!((10..1000).contains(&others), "tried again after {others} accesses");
    }

    #[test]
    fn slow_first_accesses_and_preemptions_do_not_change_the_strategy() {
        let (hints, capabilities) =
            (Hints::default(), Capabilities { maps: true, ..Capabilities::default() });
        let size = AccessSize { span: 2 << 20, bytes: 1 << 20, runs: 1 << 18, new_pages: false };
        let mut calibration = Calibration::default();
        for access in 0..100 {
            let model = CostModel::new(&hints, &capabilities, &calibration);
            let independent = model.cheapest(TransferDirection::Write, &size);
            let two_phase = model.estimate(TransferDirection::Write, Strategy::TwoPhase, &size);
            assert!(
                independent.strategy == Strategy::Map && independent.nanoseconds < two_phase.nanoseconds,
                "access {access}"
            );
            // The first access makes the pages present; every fifth is preempted.
            let took = if access % 5 == 0 { 3e6 } else { 300e3 };
            calibration.record(AccessScope::Independent, TransferDirection::Write, independent, took);
        }
    }
}
