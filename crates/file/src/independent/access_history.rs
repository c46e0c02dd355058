//! The history of a rank's writes to single runs of a file.
//!
//! Two patterns are detected. *Hot regions* are written again and again: once their system calls
//! have cost as much as making the pages present, they are mapped, and later writes are copies that
//! wait for no lock of the file. *Sequences* are small writes that follow one another through the
//! file: the pages of the next ones are made present for many of them at once.
//!
//! The history takes no lock. If threads write at the same time, it may miss some writes; it only
//! says what is likely to be cheaper.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::plan::THRESHOLDS;

/// The writes of an open file: the last small ones, and bytes written in the region around the last one.
#[derive(Debug, Default)]
pub(super) struct WriteHistory {
    /// The end of the last small write.
    sequence_end: AtomicU64,
    /// Consecutive small writes that followed their predecessors.
    sequence: AtomicU32,
    /// Where the region begins.
    region_start: AtomicU64,
    /// Bytes written, for each granule of the region.
    written: OnceLock<Box<[AtomicU64]>>,
}

impl WriteHistory {
    /// Adds a small write; true if it is one of a sequence.
    pub(super) fn record_small(&self, run: &Range<u64>) -> bool {
        let before = self.sequence_end.load(Relaxed);
        let follows = (before..=before.saturating_add(THRESHOLDS.sequence_gap)).contains(&run.start);
        self.sequence_end.store(run.end, Relaxed);
        let sequence = if follows { self.sequence.load(Relaxed).saturating_add(1) } else { 0 };
        self.sequence.store(sequence, Relaxed);
        sequence >= THRESHOLDS.sequence_start
    }

    /// Ends the sequence: nothing was gained, the file was truncated, or a page could not be mapped.
    pub(super) fn end_sequence(&self) {
        self.sequence.store(0, Relaxed);
    }

    /// Adds a write; true if its bytes were written often before, so that they are a hot region.
    pub(super) fn record(&self, run: &Range<u64>) -> bool {
        let (region, granule) = (THRESHOLDS.region, THRESHOLDS.granule);
        let start = run.start / region * region;
        if run.is_empty() || run.end > start + region {
            return false;
        }
        let granules = || (0..region / granule).map(|_| AtomicU64::new(0)).collect();
        let written = self.written.get_or_init(granules);
        if self.region_start.swap(start, Relaxed) != start {
            written.iter().for_each(|bytes| bytes.store(0, Relaxed));
        }
        let (mut at, mut before) = (run.start, 0);
        while at < run.end {
            let index = (at - start) / granule;
            let end = run.end.min(start + (index + 1) * granule);
            let bytes = &written[index as usize];
            let moved = bytes.load(Relaxed);
            before += moved;
            bytes.store(moved + (end - at), Relaxed);
            at = end;
        }
        before >= THRESHOLDS.hot_accesses * granule.max(run.end - run.start)
    }
}

/// The bytes to make present for a write and the next ones, in a file of length `len`; none if the
/// write exceeds it.
pub(super) fn bytes_ahead(run: &Range<u64>, len: u64) -> Option<Range<u64>> {
    let end = run.end.checked_next_multiple_of(THRESHOLDS.write_ahead)?.min(len);
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
        let history = WriteHistory::default();
        let times = |part: Range<u64>| (0..REGION).take_while(|_| !history.record(&part)).count() as u64;
        assert_eq!(times(0..GRANULE), HOT_ACCESSES);
        assert_eq!(times(30 * GRANULE - 5..37 * GRANULE + 20_000), HOT_ACCESSES);
        assert_eq!(times(REGION - 8..REGION), HOT_ACCESSES * GRANULE / 8);
    }

    #[test]
    fn sequential_accesses_are_not_a_hot_region() {
        let history = WriteHistory::default();
        assert!((0..100_000).all(|step| !history.record(&(step * 64..step * 64 + 64))));
    }

    #[test]
    fn another_region_resets_the_counts_and_accesses_across_regions_are_not_counted() {
        let history = WriteHistory::default();
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
            let history = WriteHistory::default();
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
        let history = WriteHistory::default();
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
        let far = THRESHOLDS.write_ahead;
        let ahead = |run, len| bytes_ahead(&run, len);
        assert_eq!(ahead(5000..9000, 1 << 30), Some(5000..far));
        assert_eq!(ahead(5000..9000, 10_000), Some(5000..10_000));
        assert_eq!(ahead(5000..9000, 8999), None);
        assert_eq!(ahead(far - 10..far + 10, 1 << 30), Some(far - 10..2 * far));
        assert_eq!(ahead(u64::MAX - 1..u64::MAX, u64::MAX), None);
    }
}
