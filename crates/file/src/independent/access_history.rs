//! The history of a rank's accesses to single runs, in which two things are detected.
//!
//! *Hot regions* are accessed again and again: once their system calls have cost as much as making the pages present, they are mapped, and
//! later accesses are copies that wait for no lock of the file. *Sequences* are small accesses that follow one another through the file: the
//! pages of the next ones are made present for many of them at once.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::hints::{Strategy, TransferDirection};
use crate::plan::smooth_cost;

/// The history of an open file, by direction.
#[derive(Default)]
pub(super) struct AccessHistory {
    hot_regions: [Mutex<HotRegionDetector>; 2],
    sequences: [Mutex<SequentialDetector>; 2],
}

impl AccessHistory {
    pub(super) fn hot_regions(&self, direction: TransferDirection) -> MutexGuard<'_, HotRegionDetector> {
        self.hot_regions[direction as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sequences(&self, direction: TransferDirection) -> MutexGuard<'_, SequentialDetector> {
        self.sequences[direction as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets sequences: the file was truncated, or a page could not be mapped.
    pub(super) fn end_sequences(&self) {
        for direction in [TransferDirection::Read, TransferDirection::Write] {
            self.sequences(direction).end();
        }
    }
}

/// The part of a file that is observed: the region around the last access.
pub(super) const REGION: u64 = 256 << 20;
/// The unit in which accesses are counted.
const GRANULE: u64 = 64 << 10;
/// Accesses to a granule before it is mapped. Making a page writable costs about as much as writing it so often.
const HOT_ACCESSES: u64 = 4;

/// Shorter accesses say little about the cost of a byte.
const SHORTEST_MEASURED: u64 = 16 << 10;
/// After so many accesses the more expensive strategy is tried once more: the load may have changed.
const RETRY_INTERVAL: u32 = 100;

/// Counts accesses to the granules of a region in one direction, and keeps their measured costs.
#[derive(Debug, Default)]
pub(super) struct HotRegionDetector {
    /// Where the region begins.
    start: u64,
    /// Bytes moved, for each granule; empty before the first access.
    moved: Vec<u64>,
    /// The measured cost of a byte in nanoseconds: by a system call, and by a copy.
    costs: [Option<f64>; 2],
    /// Accesses since the more expensive strategy was tried.
    since_retry: u32,
}

impl HotRegionDetector {
    /// Counts an access to a part of the file; true if there have been many before.
    pub(super) fn note(&mut self, part: &Range<u64>) -> bool {
        let start = part.start / REGION * REGION;
        if part.is_empty() || part.end > start + REGION {
            return false;
        }
        if self.moved.is_empty() || self.start != start {
            self.start = start;
            self.moved.clear();
            self.moved.resize((REGION / GRANULE) as usize, 0);
        }
        let (mut at, mut before) = (part.start, 0);
        while at < part.end {
            let granule = (at - start) / GRANULE;
            let end = part.end.min(start + (granule + 1) * GRANULE);
            let moved = &mut self.moved[granule as usize];
            before += *moved;
            *moved += end - at;
            at = end;
        }
        before >= HOT_ACCESSES * GRANULE.max(part.end - part.start)
    }

    /// The measured cost of a byte in nanoseconds: by a system call, and by a copy.
    pub(super) fn costs(&self) -> [Option<f64>; 2] {
        self.costs
    }

    /// Counts an access with a choice of strategies; true if the more expensive one is to be tried again.
    pub(super) fn retry_is_due(&mut self, part: &Range<u64>) -> bool {
        self.since_retry += 1;
        let is_due = self.since_retry > RETRY_INTERVAL && is_measurable(part);
        if is_due {
            self.since_retry = 0;
        }
        is_due
    }

    /// Records the measured time of an access, in nanoseconds.
    pub(super) fn record(&mut self, strategy: Strategy, part: &Range<u64>, took: f64) {
        let cost = &mut self.costs[usize::from(strategy == Strategy::Map)];
        let measured = took / (part.end - part.start) as f64;
        *cost = Some(cost.map_or(measured, |cost| smooth_cost(cost, measured)));
    }
}

/// True if the time of an access to a part says something about the cost of a byte.
pub(super) fn is_measurable(part: &Range<u64>) -> bool {
    part.end - part.start >= SHORTEST_MEASURED
}

/// Bytes that are made present ahead of reads and of writes: pages for writes are written back even if nothing is stored there.
const AHEAD: [u64; 2] = [1 << 20, 128 << 10];
/// The next access of a sequence begins at most so far after the last one: bytes between belong to ranks that share the file pointer.
const GAP: u64 = 32 << 10;
/// Accesses before a sequence is detected.
const SEQUENCE_START: u32 = 8;

/// Detects small accesses that follow one another, in one direction.
#[derive(Debug, Default)]
pub(super) struct SequentialDetector {
    end: u64,
    length: u32,
}

impl SequentialDetector {
    /// Adds an access; true if it is one of a sequence.
    pub(super) fn note(&mut self, run: &Range<u64>) -> bool {
        let follows = (self.end..=self.end.saturating_add(GAP)).contains(&run.start);
        self.length = if follows { self.length.saturating_add(1) } else { 0 };
        self.end = run.end;
        self.length >= SEQUENCE_START
    }

    /// Ends the sequence: nothing was gained.
    pub(super) fn end(&mut self) {
        self.length = 0;
    }
}

/// The bytes to make present for an access and the next ones, in a file of length `len`; none if the access exceeds it.
pub(super) fn bytes_ahead(direction: TransferDirection, run: &Range<u64>, len: u64) -> Option<Range<u64>> {
    let end =
        run.end.checked_next_multiple_of(AHEAD[usize::from(direction == TransferDirection::Write)])?.min(len);
    (run.end <= end).then_some(run.start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::Hints;
    use crate::plan::{AccessFacts, Calibration, CostModel, PlanInput, RunFacts, RunMapping, make_plan};

    /// The strategy of an access to a mapped part.
    fn choose(detector: &mut HotRegionDetector, part: &Range<u64>) -> Strategy {
        let (hints, calibration) = (Hints::default(), Calibration::default());
        let capabilities = aqueduct_device::Capabilities { maps: true, ..Default::default() };
        let model = CostModel { hints: &hints, capabilities: &capabilities, calibration: &calibration };
        let is_retry = detector.retry_is_due(part);
        let mapping = Some(RunMapping { is_present: true, costs: detector.costs(), is_retry });
        let bytes = part.end - part.start;
        let access = AccessFacts::Run(RunFacts { bytes, is_leased: false, mapping, is_measurable: true });
        make_plan(PlanInput { direction: TransferDirection::Write, model, access }).estimate.strategy
    }

    #[test]
    fn hot_regions_are_detected_at_any_offset() {
        let mut detector = HotRegionDetector::default();
        let mut times = |part: Range<u64>| (0..REGION).take_while(|_| !detector.note(&part)).count() as u64;
        assert_eq!(times(0..GRANULE), HOT_ACCESSES);
        assert_eq!(times(30 * GRANULE - 5..37 * GRANULE + 20_000), HOT_ACCESSES);
        assert_eq!(times(REGION - 8..REGION), HOT_ACCESSES * GRANULE / 8);
    }

    #[test]
    fn sequential_accesses_are_not_a_hot_region() {
        let mut detector = HotRegionDetector::default();
        assert!((0..100_000).all(|step| !detector.note(&(step * 64..step * 64 + 64))));
    }

    #[test]
    fn the_cheaper_strategy_is_used_and_the_other_one_retried() {
        let part = 0..1_000_000;
        for (call, copy) in [(60e3, 20e3), (60e3, 900e3)] {
            let mut detector = HotRegionDetector::default();
            let mut taken = [0; 2];
            detector.record(Strategy::List, &part, call);
            for _ in 0..1000 {
                let strategy = choose(&mut detector, &part);
                let copies = strategy == Strategy::Map;
                taken[usize::from(copies)] += 1;
                detector.record(strategy, &part, if copies { copy } else { call });
            }
            let expensive = taken[usize::from(copy < call) ^ 1];
            assert!((5..15).contains(&expensive), "{taken:?} at {call} and {copy}");
        }
    }

    #[test]
    fn preemption_does_not_make_a_strategy_look_expensive() {
        let part = 0..1_000_000;
        let mut detector = HotRegionDetector::default();
        let mut taken = [0; 2];
        detector.record(Strategy::List, &part, 60e3);
        for step in 0..1000 {
            let strategy = choose(&mut detector, &part);
            let copies = strategy == Strategy::Map;
            taken[usize::from(copies)] += 1;
            // Every second access is preempted, and the copies for longer than the calls.
            let lost = if step % 2 == 0 { 0.0 } else { 200e3 };
            detector.record(strategy, &part, if copies { 30e3 + 2.0 * lost } else { 60e3 + lost });
        }
        assert!(taken[1] > 900, "{taken:?}");
    }

    #[test]
    fn another_region_resets_the_counts_and_accesses_across_regions_are_not_counted() {
        let mut detector = HotRegionDetector::default();
        while !detector.note(&(0..100_000)) {}
        assert!(!detector.note(&(REGION..REGION + 100_000)));
        assert!(!detector.note(&(0..100_000)));
        for _ in 0..2 * HOT_ACCESSES {
            assert!(!detector.note(&(REGION - 10..REGION + 10)));
            assert!(!detector.note(&(5..5)));
        }
    }

    #[test]
    fn accesses_that_follow_one_another_are_a_sequence_with_or_without_gaps() {
        for gap in [0, 100, GAP] {
            let mut detector = SequentialDetector::default();
            let mut at = 1 << 30;
            for step in 0..50 {
                assert_eq!(detector.note(&(at..at + 64)), step >= SEQUENCE_START, "step {step}, gap {gap}");
                at += 64 + gap;
            }
            detector.end();
            assert!(!detector.note(&(at..at + 64)));
        }
    }

    #[test]
    fn scattered_accesses_are_not_a_sequence() {
        let mut detector = SequentialDetector::default();
        for step in 0..1000u64 {
            let (back, far, again) = ((1000 - step) * 64, step * (GAP + 65), 4096);
            for at in [back, far, again] {
                assert!(!detector.note(&(at..at + 64)));
            }
        }
        assert!(
            (0..100).all(|step| !detector.note(&(step * (GAP + 65)..step * (GAP + 65) + 64))),
            "too sparse"
        );
    }

    #[test]
    fn pages_are_made_present_up_to_the_end_of_the_file() {
        for (direction, far) in [(TransferDirection::Read, AHEAD[0]), (TransferDirection::Write, AHEAD[1])] {
            let ahead = |run, len| bytes_ahead(direction, &run, len);
            assert_eq!(ahead(5000..9000, 1 << 30), Some(5000..far));
            assert_eq!(ahead(5000..9000, 10_000), Some(5000..10_000));
            assert_eq!(ahead(5000..9000, 8999), None);
            assert_eq!(ahead(far - 10..far + 10, 1 << 30), Some(far - 10..2 * far));
            assert_eq!(ahead(u64::MAX - 1..u64::MAX, u64::MAX), None);
        }
    }
}
