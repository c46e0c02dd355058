//! The history of a rank's accesses to single runs of a file.
//!
//! Two patterns are detected. *Hot regions* are accessed again and again: once their system calls
//! have cost as much as making the pages present, they are mapped, and later accesses are copies that
//! wait for no lock of the file. *Sequences* are small accesses that follow one another through the
//! file: the pages of the next ones are made present for many of them at once.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::hints::TransferDirection;
use crate::plan::{ConsecutiveCount, THRESHOLDS};

/// The history of an open file, by direction.
#[derive(Default)]
pub(super) struct AccessHistory([Mutex<RunHistory>; 2]);

impl AccessHistory {
    pub(super) fn of(&self, direction: TransferDirection) -> MutexGuard<'_, RunHistory> {
        self.0[direction as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all sequences: the file was truncated, or a page could not be mapped.
    pub(super) fn end_sequences(&self) {
        for direction in [TransferDirection::Read, TransferDirection::Write] {
            self.of(direction).end_sequence();
        }
    }
}

/// The accesses in one direction: a streak of sequential ones, and bytes moved in the region around
/// the last one.
#[derive(Debug, Default)]
pub(super) struct RunHistory {
    /// The end of the last small access.
    sequence_end: u64,
    sequence: ConsecutiveCount,
    /// Where the region begins.
    region_start: u64,
    /// Bytes moved, for each granule; empty before the first access.
    moved: Vec<u64>,
}

impl RunHistory {
    /// Adds a small access; true if it is one of a sequence.
    pub(super) fn record_small(&mut self, run: &Range<u64>) -> bool {
        let reach = self.sequence_end.saturating_add(THRESHOLDS.sequence_gap);
        let follows = (self.sequence_end..=reach).contains(&run.start);
        self.sequence_end = run.end;
        self.sequence.record(follows) >= THRESHOLDS.sequence_start
    }

    /// Ends the sequence: nothing was gained.
    pub(super) fn end_sequence(&mut self) {
        self.sequence = ConsecutiveCount::default();
    }

    /// Adds an access; true if its bytes were accessed often before, so that they are a hot region.
    pub(super) fn record(&mut self, run: &Range<u64>) -> bool {
        let (region, granule) = (THRESHOLDS.region, THRESHOLDS.granule);
        let start = run.start / region * region;
        if run.is_empty() || run.end > start + region {
            return false;
        }
        if self.moved.is_empty() || self.region_start != start {
            self.region_start = start;
            self.moved.clear();
            self.moved.resize((region / granule) as usize, 0);
        }
        let (mut at, mut before) = (run.start, 0);
        while at < run.end {
            let index = (at - start) / granule;
            let end = run.end.min(start + (index + 1) * granule);
            let moved = &mut self.moved[index as usize];
            before += *moved;
            *moved += end - at;
            at = end;
        }
        before >= THRESHOLDS.hot_accesses * granule.max(run.end - run.start)
    }
}

/// The bytes to make present for an access and the next ones, in a file of length `len`; none if the
/// access exceeds it.
pub(super) fn bytes_ahead(direction: TransferDirection, run: &Range<u64>, len: u64) -> Option<Range<u64>> {
    let ahead = match direction {
        TransferDirection::Read => THRESHOLDS.read_ahead,
        TransferDirection::Write => THRESHOLDS.write_ahead,
    };
    let end = run.end.checked_next_multiple_of(ahead)?.min(len);
    (run.end <= end).then_some(run.start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: u64 = THRESHOLDS.region;
    const GRANULE: u64 = THRESHOLDS.granule;
    const HOT_ACCESSES: u64 = THRESHOLDS.hot_accesses;
    const GAP: u64 = THRESHOLDS.sequence_gap;

    #[test]
    fn hot_regions_are_detected_at_any_offset() {
        let mut history = RunHistory::default();
        let mut times = |part: Range<u64>| (0..REGION).take_while(|_| !history.record(&part)).count() as u64;
        assert_eq!(times(0..GRANULE), HOT_ACCESSES);
        assert_eq!(times(30 * GRANULE - 5..37 * GRANULE + 20_000), HOT_ACCESSES);
        assert_eq!(times(REGION - 8..REGION), HOT_ACCESSES * GRANULE / 8);
    }

    #[test]
    fn sequential_accesses_are_not_a_hot_region() {
        let mut history = RunHistory::default();
        assert!((0..100_000).all(|step| !history.record(&(step * 64..step * 64 + 64))));
    }

    #[test]
    fn another_region_resets_the_counts_and_accesses_across_regions_are_not_counted() {
        let mut history = RunHistory::default();
        while !history.record(&(0..100_000)) {}
        assert!(!history.record(&(REGION..REGION + 100_000)));
        assert!(!history.record(&(0..100_000)));
        for _ in 0..2 * HOT_ACCESSES {
            assert!(!history.record(&(REGION - 10..REGION + 10)));
            assert!(!history.record(&(5..5)));
        }
    }

    #[test]
    fn accesses_that_follow_one_another_are_a_sequence_with_or_without_gaps() {
        for gap in [0, 100, GAP] {
            let mut history = RunHistory::default();
            let mut at = 1 << 30;
            for step in 0..50 {
                assert_eq!(
                    history.record_small(&(at..at + 64)),
                    step >= THRESHOLDS.sequence_start,
                    "step {step}, gap {gap}"
                );
                at += 64 + gap;
            }
            history.end_sequence();
            assert!(!history.record_small(&(at..at + 64)));
        }
    }

    #[test]
    fn scattered_accesses_are_not_a_sequence() {
        let mut history = RunHistory::default();
        for step in 0..1000u64 {
            let (back, far, again) = ((1000 - step) * 64, step * (GAP + 65), 4096);
            for at in [back, far, again] {
                assert!(!history.record_small(&(at..at + 64)));
            }
        }
        assert!(
            (0..100).all(|step| !history.record_small(&(step * (GAP + 65)..step * (GAP + 65) + 64))),
            "too sparse"
        );
    }

    #[test]
    fn pages_are_made_present_up_to_the_end_of_the_file() {
        let ahead = [
            (TransferDirection::Read, THRESHOLDS.read_ahead),
            (TransferDirection::Write, THRESHOLDS.write_ahead),
        ];
        for (direction, far) in ahead {
            let ahead = |run, len| bytes_ahead(direction, &run, len);
            assert_eq!(ahead(5000..9000, 1 << 30), Some(5000..far));
            assert_eq!(ahead(5000..9000, 10_000), Some(5000..10_000));
            assert_eq!(ahead(5000..9000, 8999), None);
            assert_eq!(ahead(far - 10..far + 10, 1 << 30), Some(far - 10..2 * far));
            assert_eq!(ahead(u64::MAX - 1..u64::MAX, u64::MAX), None);
        }
    }
}
