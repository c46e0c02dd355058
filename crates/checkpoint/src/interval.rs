//! How often a checkpoint pays.

use std::time::Duration;

/// The best time between checkpoints, after Young and Daly, from what they have cost so far and the mean time between failures.
///
/// ```
/// use std::time::Duration;
///
/// use aqueduct_checkpoint::Interval;
///
/// let mut interval = Interval::new(Duration::from_secs(24 * 3600));
/// assert!(interval.is_due(Duration::ZERO), "the first one tells what one costs");
/// interval.cost(Duration::from_secs(5));
/// assert_eq!(interval.best().as_secs(), 926);
/// assert!(!interval.is_due(Duration::from_secs(900)) && interval.is_due(Duration::from_secs(930)));
/// ```
///
/// A pure value: it looks at no clock. Ranks that must agree feed it the same numbers.
#[derive(Clone, Debug)]
pub struct Interval {
    between_failures: f64,
    cost: Option<f64>,
}

/// A new measurement counts this much beside those before it.
const WEIGHT: f64 = 0.3;

impl Interval {
    /// For a machine that fails this often.
    pub fn new(between_failures: Duration) -> Self {
        Self { between_failures: between_failures.as_secs_f64(), cost: None }
    }

    /// Takes in what a checkpoint has kept the program from computing.
    pub fn cost(&mut self, cost: Duration) {
        let cost = cost.as_secs_f64();
        self.cost = Some(self.cost.map_or(cost, |before| before + WEIGHT * (cost - before)));
    }

    /// The best time from the end of a checkpoint to the beginning of the next; nothing as long as no cost is known.
    pub fn best(&self) -> Duration {
        Duration::try_from_secs_f64(self.cost.map_or(0.0, |cost| daly(cost, self.between_failures)))
            .unwrap_or(Duration::MAX)
    }

    /// Whether it is time, so long after the last one.
    pub fn is_due(&self, since: Duration) -> bool {
        since >= self.best()
    }
}

/// Young's first order, √(2δM): for comparison.
#[cfg(test)]
fn young(cost: f64, between_failures: f64) -> f64 {
    (2.0 * cost * between_failures).sqrt()
}

/// Daly's higher order.
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

    /// The mean time a run of length 1 takes with failures at random: what the interval is to make small.
    fn waste(interval: f64, cost: f64, between_failures: f64) -> f64 {
        between_failures * (((interval + cost) / between_failures).exp() - 1.0) / interval
    }

    #[test]
    fn no_interval_is_better() {
        for (cost, between_failures) in [(1.0, 1e3), (5.0, 86_400.0), (0.01, 3600.0), (300.0, 7200.0)] {
            let best = daly(cost, between_failures);
            for other in [0.5, 0.8, 1.25, 2.0] {
                assert!(waste(best, cost, between_failures) < waste(other * best, cost, between_failures));
            }
            assert!((best / young(cost, between_failures) - 1.0).abs() < 0.15);
        }
    }

    #[test]
    fn costs_are_smoothed_and_absurd_ones_bounded() {
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
