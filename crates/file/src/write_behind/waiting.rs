//! Waiting for a background thread, while this thread makes progress for background operations.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::sync::{Condvar, MutexGuard};

/// The pause between two polls grows from the first to the second length while there is no progress.
const SHORTEST_PAUSE: Duration = Duration::from_micros(10);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);

/// Waits while `waits` is true and `left` leaves time (none: no limit); the state, and whether the
/// wait is over. `change` is notified of changes of the state.
///
/// If background threads may not call MPI, this thread sends and receives their messages: the
/// awaited operation may need them.
pub fn wait_while<'a, T>(
    lock: impl Fn() -> MutexGuard<'a, T>,
    change: &Condvar,
    mut left: impl FnMut(&T) -> Option<Duration>,
    mut waits: impl FnMut(&mut T) -> bool,
) -> (MutexGuard<'a, T>, bool) {
    let mut pause = SHORTEST_PAUSE;
    let mut state = lock();
    while waits(&mut state) {
        let left = left(&state);
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
            Some(timeout) => change.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner).0,
            None => change.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
    }
    (state, true)
}

/// The time that is left of `longest`, from now on.
pub(crate) fn within<T>(longest: Option<Duration>) -> impl FnMut(&T) -> Option<Duration> {
    let deadline = longest.map(|longest| Instant::now() + longest);
    move |_| deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}
