//! Waiting for an I/O thread, while this thread makes progress for background operations.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::sync::{Condvar, MutexGuard};

/// The pause between two polls grows from the first to the second length while there is no progress.
const SHORTEST_PAUSE: Duration = Duration::from_micros(10);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);

/// Waits while `waits` is true, but no longer than `longest`; the state, and whether the wait is over. `bell` is notified of changes of the
/// state.
///
/// If background threads may not call MPI, this thread sends and receives their messages: the awaited operation may need them.
pub(crate) fn wait_while<'a, T>(
    lock: impl Fn() -> MutexGuard<'a, T>,
    bell: &Condvar,
    longest: Option<Duration>,
    mut waits: impl FnMut(&mut T) -> bool,
) -> (MutexGuard<'a, T>, bool) {
    let deadline = longest.map(|longest| Instant::now() + longest);
    let mut pause = SHORTEST_PAUSE;
    let mut state = lock();
    while waits(&mut state) {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return (state, false);
        }
        let mut timeout = left;
        if aqueduct_comm::needs_progress() {
            drop(state);
            pause = if aqueduct_comm::progress() { SHORTEST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            state = lock();
            if !waits(&mut state) {
                break;
            }
            timeout = Some(left.map_or(pause, |left| left.min(pause)));
        }
        state = match timeout {
            Some(timeout) => bell.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner).0,
            None => bell.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
    }
    (state, true)
}
