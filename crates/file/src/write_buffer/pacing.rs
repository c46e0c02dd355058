//! Pacing of the drain thread: writes without a pause between them are a snapshot. The size of
//! snapshots and the interval between them give the memory to keep and the rate to write at.
//!
//! Pure: times are arguments.

use std::fmt;
use std::time::Duration;

use aqueduct_device::units::{ByteRate, ByteSize};

use crate::plan::{ConsecutiveCount, Smoothing};

/// About so many snapshots determine the averages.
const REMEMBERED: u32 = 4;
/// Accesses with a shorter pause between them belong to one snapshot.
const PAUSE: Duration = Duration::from_millis(2);
/// Intervals that differ by less than this share of their average are regular.
const TOLERANCE: f64 = 0.25;
/// Memory that is kept in addition to that of a snapshot, as a share of it.
const SPARE_MEMORY: f64 = 0.25;
/// The share of an interval in which a snapshot is to be written.
const DRAIN_TIME: f64 = 0.75;

/// A snapshot: when it began, when its last access ended, its bytes.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    start: Duration,
    end: Duration,
    bytes: u64,
}

impl Snapshot {
    /// True if an access that begins now is a part of it: the program has not computed for longer than
    /// it has written.
    fn continues(&self, now: Duration) -> bool {
        now.saturating_sub(self.end) <= PAUSE.max(self.end.saturating_sub(self.start))
    }
}

/// What was observed, and the resulting memory and rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pacing {
    /// Bytes of the largest of the last snapshots.
    pub(crate) snapshot: u64,
    /// The interval between snapshots, if it is regular.
    pub(crate) interval: Option<Duration>,
    /// Memory to keep allocated for the next one.
    pub(crate) keep: u64,
    /// Bytes per second to write at; none: as fast as possible.
    pub(crate) rate: Option<u64>,
}

impl fmt::Display for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "snapshots of {}", ByteSize(self.snapshot))?;
        match self.interval {
            Some(interval) => write!(f, " every {interval:.1?}")?,
            None => write!(f, ", not regular")?,
        }
        write!(f, ": {} of memory kept, written ", ByteSize(self.keep))?;
        match self.rate {
            Some(rate) => write!(f, "at {}", ByteRate(rate)),
            None => write!(f, "as fast as possible"),
        }
    }
}

/// Observes the writes of a rank.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotObserver {
    /// The memory limit.
    cap: u64,
    current: Option<Snapshot>,
    /// Bytes of the largest of the last complete snapshots.
    largest: Option<f64>,
    /// The average interval between the starts of snapshots, in nanoseconds.
    interval: Option<f64>,
    /// How many there were.
    intervals: u32,
    /// The last ones that were like the average.
    regular: ConsecutiveCount,
}

impl SnapshotObserver {
    pub(crate) fn new(cap: u64) -> Self {
        Self {
            cap,
            current: None,
            largest: None,
            interval: None,
            intervals: 0,
            regular: ConsecutiveCount::default(),
        }
    }

    /// Records an access of so many bytes that was accepted from `start` to `end`; true if it began a
    /// new snapshot.
    pub(crate) fn record(&mut self, start: Duration, end: Duration, bytes: u64) -> bool {
        if let Some(snapshot) = self.current.as_mut().filter(|snapshot| snapshot.continues(start)) {
            snapshot.end = end;
            snapshot.bytes += bytes;
            return false;
        }
        if let Some(last) = self.current.replace(Snapshot { start, end, bytes }) {
            self.largest = Some(Smoothing::peak(REMEMBERED).record(self.largest, last.bytes as f64));
            self.record_interval(start.saturating_sub(last.start).as_nanos() as f64);
        }
        true
    }

    /// An interval that is far from the average replaces it: the program has changed its pace.
    fn record_interval(&mut self, interval: f64) {
        let average = self.interval.filter(|average| (interval - average).abs() <= average * TOLERANCE);
        self.regular.record(average.is_some());
        self.intervals = self.intervals.saturating_add(1);
        self.interval = Some(Smoothing::mean(REMEMBERED).record(average, interval));
    }

    /// The pacing by the last snapshots; none before the second has begun.
    pub(crate) fn pacing(&self) -> Option<Pacing> {
        let (largest, interval) = (self.largest? as u64, self.interval?);
        let snapshot = largest.max(self.current.map_or(0, |current| current.bytes));
        // There are at least two intervals, and all that are remembered are alike.
        let is_regular = self.intervals >= 2 && self.regular.length() >= self.intervals.min(REMEMBERED) - 1;
        let interval = is_regular.then(|| Duration::from_nanos(interval as u64));
        let rate = |interval: Duration| (snapshot as f64 / (DRAIN_TIME * interval.as_secs_f64())) as u64;
        let fits = snapshot <= self.cap;
        let rate = interval.filter(|_| fits).map(rate).filter(|rate| *rate > 0);
        let keep = snapshot + (snapshot as f64 * SPARE_MEMORY) as u64;
        Some(Pacing { snapshot, interval, keep: keep.min(self.cap), rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// An observer of snapshots of four accesses each, beginning at these times.
    fn seen(cap: u64, starts: &[u64], bytes: u64) -> SnapshotObserver {
        let mut observer = SnapshotObserver::new(cap);
        for start in starts {
            let begun: Vec<bool> = (0..4)
                .map(|part| observer.record(at(start + part), at(start + part + 1), bytes / 4))
                .collect();
            assert_eq!(begun, [true, false, false, false], "accesses of a snapshot belong together");
        }
        observer
    }

    #[test]
    fn regular_snapshots_that_fit_set_the_pace() {
        let pacing = seen(256 * MIB, &[0, 1000, 2000, 3000], 60 * MIB).pacing().unwrap();
        assert_eq!((pacing.snapshot, pacing.interval), (60 * MIB, Some(at(1000))));
        assert_eq!((pacing.keep, pacing.rate), (75 * MIB, Some(80 * MIB)));
        assert_eq!(
            pacing.to_string(),
            "snapshots of 60MiB every 1.0s: 75MiB of memory kept, written at 80MiB/s"
        );
    }

    #[test]
    fn irregular_or_too_large_snapshots_are_not_paced() {
        let irregular = seen(256 * MIB, &[0, 100, 2000, 2100], 60 * MIB).pacing().unwrap();
        assert_eq!((irregular.interval, irregular.rate), (None, None));
        let large = seen(64 * MIB, &[0, 1000, 2000, 3000], 92 * MIB).pacing().unwrap();
        assert_eq!((large.rate, large.keep), (None, 64 * MIB));
        assert_eq!(seen(MIB, &[0], MIB).pacing(), None, "one snapshot has no interval");
    }

    #[test]
    fn a_changed_interval_is_learnt() {
        let mut starts = vec![0, 5000];
        starts.extend((0..5).map(|step| 10_000 + step * 100));
        let mut observer = seen(256 * MIB, &starts, 4 * MIB);
        assert_eq!(observer.pacing().unwrap().interval, Some(at(100)));
        // A change is seen with the next snapshot.
        observer.record(at(12_000), at(12_001), MIB);
        assert_eq!(observer.pacing().unwrap().interval, None);
    }

    #[test]
    fn a_slow_snapshot_is_one_snapshot() {
        let mut observer = SnapshotObserver::new(MIB);
        assert!(observer.record(at(0), at(300), MIB));
        assert!(!observer.record(at(500), at(800), MIB), "the pause was shorter than the writes");
        assert!(observer.record(at(2000), at(2001), MIB));
    }
}
