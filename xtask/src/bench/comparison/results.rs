//! What was measured, by contender, number of ranks and cell.

use std::collections::BTreeMap;

use super::case::ComparisonCase;
use super::job::{CaseOutcome, OperationCounts};

/// Operations per second, from all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OperationRate {
    pub(super) best: f64,
    pub(super) median: f64,
    /// Not measured at this size, because it would take too long, but at the next smaller one: bytes per second are taken over.
    pub(super) from_smaller_size: bool,
}

/// All that is known of a contender in a cell.
#[derive(Debug, Default)]
pub(super) struct CaseRecord {
    pub(super) seconds: Vec<f64>,
    /// Of the last round.
    pub(super) counted: Option<OperationCounts>,
    pub(super) capped: bool,
    pub(super) failed: Option<String>,
}

/// Records of all contenders.
#[derive(Debug, Default)]
pub(super) struct ComparisonResults {
    records: BTreeMap<(&'static str, usize, ComparisonCase), CaseRecord>,
}

/// The value in the middle, the mean of two where their number is even.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    Some(if values.len().is_multiple_of(2) {
        f64::midpoint(values[values.len() / 2 - 1], upper)
    } else {
        upper
    })
}

impl ComparisonResults {
    pub(super) fn add(
        &mut self,
        contender: &'static str,
        ranks: usize,
        cell: ComparisonCase,
        outcome: CaseOutcome,
    ) {
        let record = self.records.entry((contender, ranks, cell)).or_default();
        match outcome {
            CaseOutcome::Seconds(seconds, counted) => {
                record.seconds.extend(seconds);
                record.counted = counted;
            }
            CaseOutcome::Capped => record.capped = true,
            CaseOutcome::Failed(why) => record.failed = Some(why),
            CaseOutcome::Sum(_) | CaseOutcome::Memory(_) => {}
        }
    }

    /// Whether it makes sense to try this cell: none of its family has failed.
    pub(super) fn is_open(&self, contender: &'static str, ranks: usize, cell: &ComparisonCase) -> bool {
        let failed = |((name, count, other), record): (&(&str, usize, ComparisonCase), &CaseRecord)| {
            *name == contender && *count == ranks && other.family == cell.family && record.failed.is_some()
        };
        !self.records.iter().any(failed)
    }

    /// How fast a contender was, if it could do it.
    pub(super) fn rate(
        &self,
        contender: &'static str,
        ranks: usize,
        cell: &ComparisonCase,
    ) -> Option<OperationRate> {
        let of = |cell: &ComparisonCase| self.records.get(&(contender, ranks, *cell));
        let record = of(cell).filter(|record| record.failed.is_none())?;
        if let Some(middle) = median(&record.seconds) {
            let best = record.seconds.iter().copied().fold(f64::INFINITY, f64::min);
            return Some(OperationRate {
                best: best.recip(),
                median: middle.recip(),
                from_smaller_size: false,
            });
        }
        let sizes = self.records.keys().filter(|(name, count, other)| {
            *name == contender && *count == ranks && other.family == cell.family && other.bytes < cell.bytes
        });
        let smaller =
            sizes.map(|(_, _, other)| other).filter(|other| of(other).is_some_and(|record| !record.capped));
        let smaller = smaller.max().filter(|_| record.capped)?;
        let (rate, share) = (self.rate(contender, ranks, smaller)?, smaller.bytes as f64 / cell.bytes as f64);
        Some(OperationRate { best: rate.best * share, median: rate.median * share, from_smaller_size: true })
    }

    /// What one operation did, where the contender tells.
    pub(super) fn counted(
        &self,
        contender: &'static str,
        ranks: usize,
        cell: &ComparisonCase,
    ) -> Option<OperationCounts> {
        self.records.get(&(contender, ranks, *cell))?.counted
    }

    /// All failures: who, at how many ranks, in which cell, why.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&'static str, usize, ComparisonCase, String)> {
        let failed = |(key, record): (&'_ (&'static str, usize, ComparisonCase), &'_ CaseRecord)| {
            record.failed.clone().map(|why| (*key, why))
        };
        self.records.iter().filter_map(failed).map(|((name, ranks, cell), why)| (name, ranks, cell, why))
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::PATTERNS;
    use super::*;

    fn cells() -> Vec<ComparisonCase> {
        PATTERNS[1].cases(&[1000, 10_000, 100_000])
    }

    #[test]
    fn the_median_of_all_rounds_counts() {
        let (mut results, cell) = (ComparisonResults::default(), cells()[0]);
        results.add("a", 2, cell, CaseOutcome::Seconds(vec![1.0, 4.0], None));
        results.add("a", 2, cell, CaseOutcome::Seconds(vec![0.5], None));
        let rate = results.rate("a", 2, &cell).unwrap();
        assert_eq!((rate.median, rate.best, rate.from_smaller_size), (1.0, 2.0, false));
        assert_eq!((results.rate("a", 4, &cell), results.rate("b", 2, &cell)), (None, None));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
    }

    #[test]
    fn what_would_take_too_long_has_the_rate_of_the_size_before() {
        let (mut results, cells) = (ComparisonResults::default(), cells());
        results.add("a", 2, cells[0], CaseOutcome::Seconds(vec![0.5], None));
        results.add("a", 2, cells[1], CaseOutcome::Capped);
        results.add("a", 2, cells[2], CaseOutcome::Capped);
        let rate = results.rate("a", 2, &cells[2]).unwrap();
        assert!(rate.from_smaller_size && (rate.median - 0.02).abs() < 1e-12);
    }

    #[test]
    fn a_failure_is_no_figure_and_closes_the_family() {
        let (mut results, cells) = (ComparisonResults::default(), cells());
        results.add("a", 2, cells[0], CaseOutcome::Seconds(vec![0.5], None));
        results.add("a", 2, cells[1], CaseOutcome::Failed("hangs".to_owned()));
        assert_eq!(results.rate("a", 2, &cells[1]), None);
        assert!(!results.is_open("a", 2, &cells[2]) && results.is_open("a", 4, &cells[2]));
        assert!(results.is_open("a", 2, &cells[3]), "another family");
        assert_eq!(results.failures().count(), 1);
    }
}
