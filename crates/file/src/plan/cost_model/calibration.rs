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
    pub(crate) const NONE: Self = Self { factors: [[[1.0; STRATEGIES.len()]; 2]; 2] };

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
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: TransferDirection = TransferDirection::Write;

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
