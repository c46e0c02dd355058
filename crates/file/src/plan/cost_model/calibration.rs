//! The calibration: what a rank has learnt of the costs of its accesses to a file.

use super::machine_costs::THRESHOLDS;
use super::smoothing::Smoothing;
use super::{Estimate, STRATEGIES};
use crate::context::AccessScope;
use crate::hints::{Strategy, TransferDirection};

/// Learnt costs of an open file. Independent and collective calls are calibrated separately: in
/// collective ones all ranks share the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Calibration {
    /// Measured time divided by nominal time, by scope, direction and strategy; 1 if nothing is known.
    factors: [[[f64; STRATEGIES.len()]; 2]; 2],
    /// Costs of writes to single runs that may be mapped.
    runs: RunCosts,
}

/// Learnt costs of writes to single runs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RunCosts {
    /// Nanoseconds per byte: by a system call, and by a copy from or to mapped pages.
    byte: [Option<f64>; 2],
    /// Accesses since the more expensive of the two was tried.
    since_retry: u32,
}

/// Factors beyond these are errors of measurement.
const FACTORS: [f64; 2] = [1e-3, 1e3];

impl Default for Calibration {
    fn default() -> Self {
        Self::NONE
    }
}

impl Calibration {
    /// Without any measurement.
    pub(crate) const NONE: Self = Self {
        factors: [[[1.0; STRATEGIES.len()]; 2]; 2],
        runs: RunCosts { byte: [None; 2], since_retry: 0 },
    };

    pub(super) fn factor(&self, scope: AccessScope, direction: TransferDirection, strategy: Strategy) -> f64 {
        let place = STRATEGIES.iter().position(|calibrated| *calibrated == strategy);
        place.map_or(1.0, |place| self.factors[scope as usize][direction as usize][place])
    }

    /// Records the measured time of an access, in nanoseconds.
    pub(crate) fn record(
        &mut self,
        scope: AccessScope,
        direction: TransferDirection,
        estimate: Estimate,
        took: f64,
    ) {
        let shortest = THRESHOLDS.shortest_measured_time as f64;
        if !estimate.nanoseconds.is_finite() || estimate.nanoseconds.max(took) < shortest {
            return;
        }
        let factors = &mut self.factors[scope as usize][direction as usize];
        for (strategy, factor) in STRATEGIES.iter().zip(factors) {
            if *strategy == estimate.strategy {
                // The estimate includes the factor.
                let measured = *factor * took / estimate.nanoseconds;
                *factor = Smoothing::COST.record(Some(*factor), measured).clamp(FACTORS[0], FACTORS[1]);
            } else {
                *factor = Smoothing::mean(THRESHOLDS.forgotten_after).record(Some(*factor), 1.0);
            }
        }
    }

    /// Records the measured time, in nanoseconds, of a write to one run.
    pub(crate) fn record_run(&mut self, strategy: Strategy, bytes: u64, took: f64) {
        let cost = &mut self.runs.byte[usize::from(strategy == Strategy::Map)];
        *cost = Some(Smoothing::COST.record(*cost, took / bytes as f64));
    }

    /// The learnt cost of a byte of a single run in nanoseconds: by a system call, and by a copy.
    pub(crate) fn run_costs(&self) -> [Option<f64>; 2] {
        self.runs.byte
    }

    /// Counts a write to a mapped run; true if the more expensive strategy is to be tried again.
    pub(crate) fn retry_is_due(&mut self, bytes: u64) -> bool {
        let since_retry = &mut self.runs.since_retry;
        *since_retry = since_retry.saturating_add(1);
        let is_due = *since_retry > THRESHOLDS.forgotten_after && bytes >= THRESHOLDS.shortest_measured_run;
        if is_due {
            *since_retry = 0;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{RunFacts, RunMapping, make_run_plan};

    const WRITE: TransferDirection = TransferDirection::Write;
    /// Bytes of the run that is accessed again and again.
    const RUN: u64 = 1_000_000;

    /// The strategy of an access to a mapped run.
    fn choose(calibration: &mut Calibration) -> Strategy {
        let is_retry = calibration.retry_is_due(RUN);
        let mapping = Some(RunMapping { is_present: true, costs: calibration.run_costs(), is_retry });
        let facts = RunFacts { bytes: RUN, is_forced: false, is_leased: false, mapping };
        make_run_plan(&facts).estimate.strategy
    }

    #[test]
    fn the_cheaper_strategy_is_used_and_the_other_one_retried() {
        for (call, copy) in [(60e3, 20e3), (60e3, 900e3)] {
            let mut calibration = Calibration::default();
            let mut taken = [0; 2];
            calibration.record_run(Strategy::List, RUN, call);
            for _ in 0..1000 {
                let strategy = choose(&mut calibration);
                let copies = strategy == Strategy::Map;
                taken[usize::from(copies)] += 1;
                calibration.record_run(strategy, RUN, if copies { copy } else { call });
            }
            let expensive = taken[usize::from(copy < call) ^ 1];
            assert!((5..15).contains(&expensive), "{taken:?} at {call} and {copy}");
        }
    }

    #[test]
    fn preemption_does_not_make_a_strategy_look_expensive() {
        let mut calibration = Calibration::default();
        let mut taken = [0; 2];
        calibration.record_run(Strategy::List, RUN, 60e3);
        for step in 0..1000 {
            let strategy = choose(&mut calibration);
            let copies = strategy == Strategy::Map;
            taken[usize::from(copies)] += 1;
            // Every second access is preempted, and the copies for longer than the calls.
            let lost = if step % 2 == 0 { 0.0 } else { 200e3 };
            calibration.record_run(strategy, RUN, if copies { 30e3 + 2.0 * lost } else { 60e3 + lost });
        }
        assert!(taken[1] > 900, "{taken:?}");
    }

    #[test]
    fn scopes_are_calibrated_separately() {
        let mut calibration = Calibration::default();
        let estimate = Estimate { strategy: Strategy::List, nanoseconds: 10_000.0 };
        calibration.record(AccessScope::Collective, WRITE, estimate, 20_000.0);
        let factor = |scope| (calibration.factor(scope, WRITE, Strategy::List) * 1e3).round() as i64;
        assert_eq!(factor(AccessScope::Independent), 1_000);
        assert_eq!(factor(AccessScope::Collective), 1_100);
    }
}
