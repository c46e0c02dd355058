//! The best checkpoint interval.

use std::time::Duration;

/// The best time between checkpoints (J. T. Daly, FGCS 22(3), 2006), from the measured cost of checkpoints and the mean time between
/// failures.
///
/// ```
/// use std::time::Duration;
///
/// use aqueduct_checkpoint::Interval;
///
/// let mut interval = Interval::new(Duration::from_secs(24 * 3600));
/// assert!(interval.is_due(Duration::ZERO), "the first checkpoint measures the cost");
/// interval.cost(Duration::from_secs(5));
/// assert_eq!(interval.best().as_secs(), 926);
/// assert!(!interval.is_due(Duration::from_secs(900)) && interval.is_due(Duration::from_secs(930)));
/// ```
///
/// It reads no clock. Ranks that pass the same numbers get the same interval.
#[derive(Clone, Debug)]
pub struct Interval {
    between_failures: f64,
    cost: Option<f64>,
}

/// The weight of a new measurement in the exponential average.
const WEIGHT: f64 = 0.3;

impl Interval {
    /// For a machine with this mean time between failures.
    pub fn new(between_failures: Duration) -> Self {
        Self { between_failures: between_failures.as_secs_f64(), cost: None }
    }

    /// Adds a measurement: the time for which a checkpoint stopped the computation.
    pub fn cost(&mut self, cost: Duration) {
        let cost = cost.as_secs_f64();
        self.cost = Some(self.cost.map_or(cost, |before| before + WEIGHT * (cost - before)));
    }

    /// The best time from the end of a checkpoint to the start of the next; 0 before the first measurement.
    pub fn best(&self) -> Duration {
        Duration::try_from_secs_f64(self.cost.map_or(0.0, |cost| daly(cost, self.between_failures)))
            .unwrap_or(Duration::MAX)
    }

    /// Whether a checkpoint is due, this long after the last one.
    pub fn is_due(&self, since: Duration) -> bool {
        since >= self.best()
    }
}

/// Young's first-order estimate √(2δM), for comparison.
#[cfg(test)]
fn young(cost: f64, between_failures: f64) -> f64 {
    (2.0 * cost * between_failures).sqrt()
}

/// Daly's higher-order estimate.
fn daly(cost: f64, between_failures: f64) -> f64 {
    if cost >= 2.0 * between_failures {
        return between_failures;
    }
    let ratio = cost / (2.0 * between_failures);
    (2.0 * cost * between_failures).sqrt() * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - cost
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected wall time per unit of computation with random failures, which the best interval minimises.
    fn waste(interval: f64, cost: f64, between_failures: f64) -> f64 {
        between_failures * (((interval + cost) / between_failures).exp() - 1.0) / interval
    }

    #[test]
    fn other_intervals_take_longer() {
        for (cost, between_failures) in [(1.0, 1e3), (5.0, 86_400.0), (0.01, 3600.0), (300.0, 7200.0)] {
            let best = daly(cost, between_failures);
            for other in [0.5, 0.8, 1.25, 2.0] {
                assert!(waste(best, cost, between_failures) < waste(other * best, cost, between_failures));
            }
            assert!((best / young(cost, between_failures) - 1.0).abs() < 0.15);
        }
    }

    #[test]
    fn costs_are_averaged_and_the_interval_is_bounded() {
        let mut interval = Interval::new(Duration::from_secs(100));
        assert_eq!(interval.best(), Duration::ZERO);
        interval.cost(Duration::from_secs(1));
        let before = interval.best();
        interval.cost(Duration::from_secs(2));
        assert!(interval.best() > before);
        for _ in 0..50 {
            interval.cost(Duration::from_secs(1000));
        }
        assert_eq!(interval.best(), Duration::from_secs(100));
    }
}
