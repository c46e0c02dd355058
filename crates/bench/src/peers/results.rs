//! The results, by candidate, number of ranks and case.

use std::collections::BTreeMap;

use super::job::{CaseOutcome, OperationCounts};
use crate::cases::BenchCase;
use crate::timing::median;

/// Operations per second, from all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OperationRate {
    pub(super) best: f64,
    pub(super) median: f64,
    /// Not measured at this size, which would take too long: the bandwidth is that of the next smaller one.
    pub(super) from_smaller_size: bool,
}

/// The results of one candidate in one case.
#[derive(Debug, Default)]
pub(super) struct CaseRecord {
    pub(super) seconds: Vec<f64>,
    /// Of the last round.
    pub(super) counted: Option<OperationCounts>,
    pub(super) capped: bool,
    pub(super) failed: Option<String>,
}

/// Records of all candidates.
#[derive(Debug, Default)]
pub(super) struct ComparisonResults {
    records: BTreeMap<(&'static str, usize, BenchCase), CaseRecord>,
}

impl ComparisonResults {
    pub(super) fn add(
        &mut self,
        candidate: &'static str,
        ranks: usize,
        case: BenchCase,
        outcome: CaseOutcome,
    ) {
        let record = self.records.entry((candidate, ranks, case)).or_default();
        match outcome {
            CaseOutcome::Seconds(seconds, counted) => {
                record.seconds.extend(seconds);
                record.counted = counted;
            }
            CaseOutcome::Capped => record.capped = true,
            CaseOutcome::Failed(why) => record.failed = Some(why),
            CaseOutcome::Sum(_) | CaseOutcome::Memory(_) | CaseOutcome::Lifetimes(_) => {}
        }
    }

    /// Whether no case of the family has failed.
    pub(super) fn is_open(&self, candidate: &'static str, ranks: usize, case: &BenchCase) -> bool {
        let failed = |((name, count, other), record): (&(&str, usize, BenchCase), &CaseRecord)| {
            *name == candidate && *count == ranks && other.family == case.family && record.failed.is_some()
        };
        !self.records.iter().any(failed)
    }

    /// The rate of a candidate, if it did not fail.
    pub(super) fn rate(
        &self,
        candidate: &'static str,
        ranks: usize,
        case: &BenchCase,
    ) -> Option<OperationRate> {
        let of = |case: &BenchCase| self.records.get(&(candidate, ranks, *case));
        let record = of(case).filter(|record| record.failed.is_none())?;
        if let Some(middle) = median(&record.seconds) {
            let best = record.seconds.iter().copied().fold(f64::INFINITY, f64::min);
            return Some(OperationRate {
                best: best.recip(),
                median: middle.recip(),
                from_smaller_size: false,
            });
        }
        let sizes = self.records.keys().filter(|(name, count, other)| {
            *name == candidate && *count == ranks && other.family == case.family && other.bytes < case.bytes
        });
        let smaller =
            sizes.map(|(_, _, other)| other).filter(|other| of(other).is_some_and(|record| !record.capped));
        let smaller = smaller.max().filter(|_| record.capped)?;
        let (rate, share) = (self.rate(candidate, ranks, smaller)?, smaller.bytes as f64 / case.bytes as f64);
        Some(OperationRate { best: rate.best * share, median: rate.median * share, from_smaller_size: true })
    }

    /// The counters of one operation, if the candidate prints them.
    pub(super) fn counted(
        &self,
        candidate: &'static str,
        ranks: usize,
        case: &BenchCase,
    ) -> Option<OperationCounts> {
        self.records.get(&(candidate, ranks, *case))?.counted
    }

    /// All failures: candidate, number of ranks, case, reason.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&'static str, usize, BenchCase, String)> {
        let failed = |(key, record): (&'_ (&'static str, usize, BenchCase), &'_ CaseRecord)| {
            record.failed.clone().map(|why| (*key, why))
        };
        self.records.iter().filter_map(failed).map(|((name, ranks, case), why)| (name, ranks, case, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::PATTERNS;

    fn cases() -> Vec<BenchCase> {
        PATTERNS[1].cases(&[1000, 10_000, 100_000])
    }

    #[test]
    fn the_median_of_all_rounds_counts() {
        let (mut results, case) = (ComparisonResults::default(), cases()[0]);
        results.add("a", 2, case, CaseOutcome::Seconds(vec![1.0, 4.0], None));
        results.add("a", 2, case, CaseOutcome::Seconds(vec![0.5], None));
        let rate = results.rate("a", 2, &case).unwrap();
        assert_eq!((rate.median, rate.best, rate.from_smaller_size), (1.0, 2.0, false));
        assert_eq!((results.rate("a", 4, &case), results.rate("b", 2, &case)), (None, None));
    }

    #[test]
    fn capped_cases_have_the_bandwidth_of_the_size_before() {
        let (mut results, cases) = (ComparisonResults::default(), cases());
        results.add("a", 2, cases[0], CaseOutcome::Seconds(vec![0.5], None));
        results.add("a", 2, cases[1], CaseOutcome::Capped);
        results.add("a", 2, cases[2], CaseOutcome::Capped);
        let rate = results.rate("a", 2, &cases[2]).unwrap();
        assert!(rate.from_smaller_size && (rate.median - 0.02).abs() < 1e-12);
    }

    #[test]
    fn a_failure_excludes_the_family() {
        let (mut results, cases) = (ComparisonResults::default(), cases());
        results.add("a", 2, cases[0], CaseOutcome::Seconds(vec![0.5], None));
        results.add("a", 2, cases[1], CaseOutcome::Failed("hangs".to_owned()));
        assert_eq!(results.rate("a", 2, &cases[1]), None);
        assert!(!results.is_open("a", 2, &cases[2]) && results.is_open("a", 4, &cases[2]));
        assert!(results.is_open("a", 2, &cases[3]), "another family");
        assert_eq!(results.failures().count(), 1);
    }
}
