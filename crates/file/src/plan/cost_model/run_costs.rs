//! The learnt costs of writes to single runs, which may be system calls or copies to mapped pages.
//!
//! They are on the path of every single write, so they are updated without a lock: of two updates at
//! the same time one may be lost, which an average of many does not notice.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::machine_costs::THRESHOLDS;
use super::smoothing::Smoothing;
use crate::hints::Strategy;

/// Learnt costs of writes to single runs.
#[derive(Debug, Default)]
pub(crate) struct RunCosts {
    /// Nanoseconds per byte as bits of an `f64`, by a system call and by a copy; 0 if not measured.
    byte: [AtomicU64; 2],
    /// Accesses since the more expensive of the two was tried.
    since_retry: AtomicU32,
}

impl RunCosts {
    /// Records the measured time, in nanoseconds, of a write to one run.
    pub(crate) fn record(&self, strategy: Strategy, bytes: u64, took: f64) {
        if bytes == 0 || took <= 0.0 {
            return;
        }
        let cost = &self.byte[usize::from(strategy == Strategy::Map)];
        let average = Smoothing::COST.record(load(cost), took / bytes as f64);
        cost.store(average.to_bits(), Ordering::Relaxed);
    }

    /// The cost of a byte in nanoseconds: by a system call, and by a copy.
    pub(crate) fn of_byte(&self) -> [Option<f64>; 2] {
        [load(&self.byte[0]), load(&self.byte[1])]
    }

    /// Counts a write to a mapped run; true if the more expensive strategy is to be tried again.
    pub(crate) fn retry_is_due(&self, bytes: u64) -> bool {
        let count = self.since_retry.load(Ordering::Relaxed).saturating_add(1);
        let is_due = count > THRESHOLDS.forgotten_after && bytes >= THRESHOLDS.shortest_measured_run;
        self.since_retry.store(if is_due { 0 } else { count }, Ordering::Relaxed);
        is_due
    }
}

fn load(cost: &AtomicU64) -> Option<f64> {
    let bits = cost.load(Ordering::Relaxed);
    (bits != 0).then(|| f64::from_bits(bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{RunFacts, RunMapping, make_run_plan};

    /// Bytes of the run that is accessed again and again.
    const RUN: u64 = 1_000_000;

    /// The strategy of an access to a mapped run.
    fn choose(costs: &RunCosts) -> Strategy {
        let is_retry = costs.retry_is_due(RUN);
        let mapping = Some(RunMapping { is_present: true, costs: costs.of_byte(), is_retry });
        let facts = RunFacts { bytes: RUN, is_forced: false, is_leased: false, mapping };
        make_run_plan(&facts).estimate.strategy
    }

    #[test]
    fn the_cheaper_strategy_is_used_and_the_other_one_retried() {
        for (call, copy) in [(60e3, 20e3), (60e3, 900e3)] {
            let costs = RunCosts::default();
            let mut taken = [0; 2];
            costs.record(Strategy::List, RUN, call);
            for _ in 0..1000 {
                let strategy = choose(&costs);
                let copies = strategy == Strategy::Map;
                taken[usize::from(copies)] += 1;
                costs.record(strategy, RUN, if copies { copy } else { call });
            }
            let expensive = taken[usize::from(copy < call) ^ 1];
            assert!((5..15).contains(&expensive), "{taken:?} at {call} and {copy}");
        }
    }

    #[test]
    fn preemption_does_not_make_a_strategy_look_expensive() {
        let costs = RunCosts::default();
        let mut taken = [0; 2];
        costs.record(Strategy::List, RUN, 60e3);
        for step in 0..1000 {
            let strategy = choose(&costs);
            let copies = strategy == Strategy::Map;
            taken[usize::from(copies)] += 1;
            // Every second access is preempted, and the copies for longer than the calls.
            let lost = if step % 2 == 0 { 0.0 } else { 200e3 };
            costs.record(strategy, RUN, if copies { 30e3 + 2.0 * lost } else { 60e3 + lost });
        }
        assert!(taken[1] > 900, "{taken:?}");
    }
}
