//! Yields of a waiting rank's core, and when not to yield.
//!
//! A yield returns within a microsecond if no other thread wants the core. If one does, for example a
//! program of somebody else on the same machine, the yield lasts a time slice, and another one follows
//! with each poll: a message that takes microseconds then takes milliseconds. A thread that sleeps
//! instead is preferred by the scheduler when it wakes. So a slow yield is measured, and the next waits of
//! this process sleep at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A longer yield has given a computing thread a time slice.
const SLOW: Duration = Duration::from_millis(1);
/// The waits that sleep at once after a slow yield.
const SLEEPING_WAITS: u32 = 256;

/// The shortest useful sleep: the kernel adds about fifty microseconds.
const MOMENT: Duration = Duration::from_micros(20);

/// The waits of this process that will sleep at once.
static SLEEPING: AtomicU32 = AtomicU32::new(0);

/// Yields the core; false if another thread kept it for long, so that it is better to sleep.
pub(crate) fn yield_core() -> bool {
    let start = Instant::now();
    thread::yield_now();
    let is_fast = start.elapsed() < SLOW;
    if !is_fast {
        SLEEPING.store(SLEEPING_WAITS, Ordering::Relaxed);
    }
    is_fast
}

/// Begins a wait; true if it may yield before it sleeps.
pub(crate) fn may_yield() -> bool {
    let sleeping = SLEEPING.load(Ordering::Relaxed);
    if sleeping > 0 {
        // Two threads may count one wait: it is an estimate.
        SLEEPING.store(sleeping - 1, Ordering::Relaxed);
    }
    sleeping == 0
}

/// Pauses between two polls of a library that polls without a pause: yields the core, or sleeps for a
/// moment while other threads want it.
pub fn pause_between_polls() {
    if !may_yield() || !yield_core() {
        thread::sleep(MOMENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_slow_yield_some_waits_sleep() {
        SLEEPING.store(3, Ordering::Relaxed);
        let waits: Vec<bool> = (0..5).map(|_| may_yield()).collect();
        assert_eq!(waits, [false, false, false, true, true]);
    }
}
