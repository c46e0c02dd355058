//! How fast a server answers and takes data, as its client sees it: for the plans of accesses.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use aqueduct_device::units::ByteRate;

/// The bandwidth before an access was large enough to be measured: that of a connection inside a machine or of a network of 10 Gbit/s.
const ASSUMED: ByteRate = ByteRate(1_000_000_000);

/// Accesses with fewer bytes say little about the bandwidth.
const MEASURED: u64 = 1 << 20;

/// Averages of the latest pings and large accesses. Of two updates at the same time one may be lost.
#[derive(Debug, Default)]
pub(super) struct LinkPace {
    /// Nanoseconds; 0 if there was no ping.
    round_trip: AtomicU64,
    /// Bytes per second; 0 if there was no large access.
    bandwidth: AtomicU64,
}

impl LinkPace {
    /// The time of a ping.
    pub(super) fn note_round_trip(&self, took: Duration) {
        average(&self.round_trip, took.as_nanos() as u64);
    }

    /// The time of an access.
    pub(super) fn note_access(&self, bytes: u64, took: Duration) {
        if bytes >= MEASURED {
            average(&self.bandwidth, (bytes as f64 / took.as_secs_f64().max(1e-9)) as u64);
        }
    }

    /// The time that the smallest request takes.
    pub(super) fn latency(&self) -> Option<Duration> {
        Some(self.round_trip.load(Relaxed)).filter(|time| *time > 0).map(Duration::from_nanos)
    }

    /// The bytes per second of a large access.
    pub(super) fn bandwidth(&self) -> ByteRate {
        Some(self.bandwidth.load(Relaxed)).filter(|rate| *rate > 0).map_or(ASSUMED, ByteRate)
    }
}

/// Adds a value to an average over about four.
fn average(kept: &AtomicU64, value: u64) {
    let before = kept.load(Relaxed);
    let value = value.max(1);
    kept.store(if before == 0 { value } else { before - before / 4 + value / 4 }, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_an_average_of_what_was_measured() {
        let pace = LinkPace::default();
        assert_eq!((pace.latency(), pace.bandwidth()), (None, ASSUMED));
        pace.note_access(4096, Duration::from_millis(1));
        assert_eq!(pace.bandwidth(), ASSUMED, "too small");
        pace.note_access(1 << 20, Duration::from_millis(1));
        pace.note_round_trip(Duration::from_micros(40));
        assert_eq!(
            (pace.latency(), pace.bandwidth()),
            (Some(Duration::from_micros(40)), ByteRate(1_048_576_000))
        );
        (0..30).for_each(|_| pace.note_round_trip(Duration::from_micros(100)));
        assert!(pace.latency() > Some(Duration::from_micros(98)));
    }
}
