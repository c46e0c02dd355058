//! How measured values are learnt: exponential averages and counts of consecutive events.

/// An exponential average with different weights for values above and below it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Smoothing {
    /// The weight of a value above the average.
    rise: f64,
    /// The weight of a value below the average.
    fall: f64,
    /// A value above so many times the average counts as so many times.
    outlier: f64,
}

impl Smoothing {
    /// For costs. A high value has a low weight: the process may have been descheduled, or the access
    /// was the first to touch its pages, which says nothing about the strategy.
    pub(crate) const COST: Self = Self { rise: 0.1, fall: 0.3, outlier: 3.0 };

    /// A mean of about the last `count` values.
    pub(crate) const fn mean(count: u32) -> Self {
        let weight = 1.0 / count as f64;
        Self { rise: weight, fall: weight, outlier: f64::INFINITY }
    }

    /// A maximum of about the last `count` values: it rises at once.
    pub(crate) const fn peak(count: u32) -> Self {
        Self { rise: 1.0, ..Self::mean(count) }
    }

    /// The average after another value; the value itself if it is the first.
    pub(crate) fn record(self, average: Option<f64>, value: f64) -> f64 {
        let Some(average) = average else { return value };
        let weight = if value < average { self.fall } else { self.rise };
        average + (value.min(average * self.outlier) - average) * weight
    }
}

/// Counts consecutive events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConsecutiveCount(u32);

impl ConsecutiveCount {
    /// Adds an event; the number of events since the first one that continued its predecessor.
    pub(crate) fn record(&mut self, continues: bool) -> u32 {
        self.0 = if continues { self.0.saturating_add(1) } else { 0 };
        self.0
    }

    pub(crate) fn length(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The average after `before` and `value`, in thousandths.
    fn after(smoothing: Smoothing, before: Option<f64>, value: f64) -> i64 {
        (smoothing.record(before, value) * 1e3).round() as i64
    }

    #[test]
    fn the_first_value_is_the_average() {
        assert_eq!(after(Smoothing::COST, None, 7.0), 7_000);
    }

    #[test]
    fn weights_depend_on_the_side_and_outliers_are_clipped() {
        let values = [0.0, 20.0, 1e9];
        assert_eq!(values.map(|value| after(Smoothing::COST, Some(10.0), value)), [7_000, 11_000, 12_000]);
        let values = [2.0, 20.0];
        assert_eq!(values.map(|value| after(Smoothing::peak(4), Some(10.0), value)), [8_000, 20_000]);
        assert_eq!(values.map(|value| after(Smoothing::mean(4), Some(10.0), value)), [8_000, 12_500]);
    }

    #[test]
    fn a_streak_ends_with_an_event_that_does_not_continue_it() {
        let mut streak = ConsecutiveCount::default();
        assert_eq!([true, true, false, true].map(|continues| streak.record(continues)), [1, 2, 0, 1]);
    }
}
