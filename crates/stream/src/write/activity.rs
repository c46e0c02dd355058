//! What a thread that writes is doing, for those that wait until it ends.

use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind};

/// How long an output that is dropped without `finish` waits for a thread that itself waits for other ranks: they may never come. Tests of this crate's
/// own modules have less patience.
pub(crate) const PATIENCE: Duration =
    if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(30) };

/// What a thread that writes is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Activity {
    /// Grows whenever the thread goes on.
    pub(crate) turns: u64,
    /// The thread waits for other ranks, or for what they hand over. Otherwise it is busy, or the medium is.
    pub(crate) waits: bool,
}

impl Activity {
    /// The thread goes on.
    pub(crate) fn advance(&mut self) {
        self.turns += 1;
    }

    /// The thread begins to wait for other ranks, or goes on after that.
    pub(crate) fn set_waits(&mut self, waits: bool) {
        self.waits = waits;
        self.turns += 1;
    }
}

/// How much longer a thread is waited for. Time counts only while the thread waits for other ranks without going on: a medium may take as long as it
/// takes.
#[derive(Debug)]
pub(crate) struct WaitLimit {
    /// None is without limit.
    limit: Option<Duration>,
    seen: Activity,
    since: Instant,
}

impl WaitLimit {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { limit, seen: Activity::default(), since: Instant::now() }
    }

    /// What is left of it; none where there is no limit.
    pub(crate) fn left(&mut self, now: Activity) -> Option<Duration> {
        if now != self.seen {
            (self.seen, self.since) = (now, Instant::now());
        }
        self.limit.filter(|_| now.waits).map(|limit| limit.saturating_sub(self.since.elapsed()))
    }

    /// Whether nothing is left.
    pub(crate) fn is_over(&mut self, now: Activity) -> bool {
        self.left(now).is_some_and(|left| left.is_zero())
    }
}

/// Waits until a thread has ended; not so if other ranks keep it waiting for longer than `limit`. `look` tells whether it has ended, and what it is doing;
/// every change of that is a change of `change`.
pub(crate) fn await_end<S>(
    change: &Condvar,
    mut state: MutexGuard<'_, S>,
    limit: Option<Duration>,
    look: impl Fn(&S) -> (bool, Activity),
) -> bool {
    let mut patience = WaitLimit::new(limit);
    loop {
        let (ended, activity) = look(&state);
        if ended {
            return true;
        }
        state = match patience.left(activity) {
            None => change.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(left) if left.is_zero() => return false,
            Some(left) => change.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
        };
    }
}

/// Why a dropped output gives up waiting.
pub(crate) fn stuck(thread: &str) -> Error {
    let detail = format!(
        "{thread} has waited for other ranks for {} s; steps that they did not hand over are not in the file",
        PATIENCE.as_secs()
    );
    Error::new(Kind::Incomplete, "drop", "the output", detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    const SHORT: Option<Duration> = Some(Duration::from_millis(20));

    /// Waits for a thread that does something for so many milliseconds each, and then ends.
    fn wait_for(doings: &[(u64, bool)]) -> bool {
        let (state, change) = (Mutex::new((false, Activity::default())), Condvar::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (milliseconds, waits) in doings {
                    state.lock().unwrap().1.set_waits(*waits);
                    change.notify_all();
                    std::thread::sleep(Duration::from_millis(*milliseconds));
                }
                state.lock().unwrap().0 = true;
                change.notify_all();
            });
            await_end(&change, state.lock().unwrap(), SHORT, |state| *state)
        })
    }

    #[test]
    fn only_waits_for_other_ranks_have_a_limit() {
        assert!(wait_for(&[(200, false)]), "the medium takes its time");
        assert!(wait_for(&[(1, true), (200, false), (1, true)]));
        assert!(!wait_for(&[(500, true)]), "other ranks do not come");
        let mut patience = WaitLimit::new(None);
        assert_eq!(patience.left(Activity { turns: 1, waits: true }), None);
    }
}
