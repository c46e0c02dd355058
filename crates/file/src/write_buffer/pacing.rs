//! Pacing of the drain thread: writes without a pause between them are a snapshot. The size of snapshots and the interval between them give
//! the memory to keep and the rate to write at.
//!
//! Pure: times are arguments.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use aqueduct_device::units::{ByteRate, ByteSize};

/// Snapshots that are remembered.
const REMEMBERED: usize = 4;
/// Accesses with a shorter pause between them belong to one snapshot.
const PAUSE: Duration = Duration::from_millis(2);

/// A snapshot: when it began, when its last access ended, its bytes.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    start: Duration,
    end: Duration,
    bytes: u64,
}

impl Snapshot {
    /// True if an access that begins now is a part of it: the program has not computed for longer than it has written.
    fn goes_on(&self, now: Duration) -> bool {
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
            None => write!(f, "as fast as may be"),
        }
    }
}

/// Observes the writes of a rank.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotObserver {
    /// The memory limit.
    cap: u64,
    last: VecDeque<Snapshot>,
}

impl SnapshotObserver {
    pub(crate) fn new(cap: u64) -> Self {
        Self { cap, last: VecDeque::with_capacity(REMEMBERED + 1) }
    }

    /// Records an access of so many bytes that was accepted from `start` to `end`; true if it began a new snapshot.
    pub(crate) fn accepted(&mut self, start: Duration, end: Duration, bytes: u64) -> bool {
        if let Some(snapshot) = self.last.back_mut().filter(|snapshot| snapshot.goes_on(start)) {
            snapshot.end = end;
            snapshot.bytes += bytes;
            return false;
        }
        self.last.push_back(Snapshot { start, end, bytes });
        if self.last.len() > REMEMBERED + 1 {
            self.last.pop_front();
        }
        true
    }

    /// The pacing by the last snapshots; none before the second has begun.
    pub(crate) fn pacing(&self) -> Option<Pacing> {
        if self.last.len() < 2 {
            return None;
        }
        let snapshot = self.last.iter().map(|snapshot| snapshot.bytes).max().unwrap_or(0);
        let interval = self.interval();
        // All of it is in the file after three quarters of the interval.
        let rate = |interval: Duration| (snapshot as f64 / (0.75 * interval.as_secs_f64())) as u64;
        let fits = snapshot <= self.cap;
        let rate = interval.filter(|_| fits).map(rate).filter(|rate| *rate > 0);
        Some(Pacing { snapshot, interval, keep: (snapshot + snapshot / 4).min(self.cap), rate })
    }

    /// The mean interval, if there are at least two and none is far from it.
    fn interval(&self) -> Option<Duration> {
        let starts = self.last.iter().map(|snapshot| snapshot.start);
        let intervals: Vec<Duration> =
            starts.clone().skip(1).zip(starts).map(|(next, start)| next.saturating_sub(start)).collect();
        let mean = intervals.iter().sum::<Duration>() / intervals.len().max(1) as u32;
        let regular = intervals.iter().all(|interval| interval.abs_diff(mean) <= mean / 4);
        (intervals.len() >= 2 && regular).then_some(mean)
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
                .map(|part| observer.accepted(at(start + part), at(start + part + 1), bytes / 4))
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
    fn irregular_or_too_large_snapshots_are_written_as_fast_as_may_be() {
        let irregular = seen(256 * MIB, &[0, 100, 2000, 2100], 60 * MIB).pacing().unwrap();
        assert_eq!((irregular.interval, irregular.rate), (None, None));
        let large = seen(64 * MIB, &[0, 1000, 2000, 3000], 92 * MIB).pacing().unwrap();
        assert_eq!((large.rate, large.keep), (None, 64 * MIB));
        assert_eq!(seen(MIB, &[0], MIB).pacing(), None, "one is no interval");
    }

    #[test]
    fn what_was_seen_long_ago_is_forgotten() {
        let mut starts = vec![0, 5000];
        starts.extend((0..5).map(|step| 10_000 + step * 100));
        let mut observer = seen(256 * MIB, &starts, 4 * MIB);
        assert_eq!(observer.pacing().unwrap().interval, Some(at(100)));
        // A change is seen with the next snapshot.
        observer.accepted(at(12_000), at(12_001), MIB);
        assert_eq!(observer.pacing().unwrap().interval, None);
    }

    #[test]
    fn a_slow_snapshot_is_one_snapshot() {
        let mut observer = SnapshotObserver::new(MIB);
        assert!(observer.accepted(at(0), at(300), MIB));
        assert!(!observer.accepted(at(500), at(800), MIB), "it paused for less than it wrote");
        assert!(observer.accepted(at(2000), at(2001), MIB));
    }
}
