//! The state of a background thread, for threads that wait until it has done its work.

use std::time::{Duration, Instant};

/// The state of a background thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobActivity {
    /// Grows whenever the thread makes progress.
    pub turns: u64,
    /// True while the thread waits for other ranks, or for data of theirs. Otherwise the thread or
    /// the medium is busy.
    pub waits: bool,
}

impl JobActivity {
    /// Records progress.
    pub fn advance(&mut self) {
        self.turns += 1;
    }

    /// Records that the thread begins to wait for other ranks, or that such a wait is over.
    pub fn set_waits(&mut self, waits: bool) {
        self.waits = waits;
        self.turns += 1;
    }
}

/// A limit for waiting. Time counts only while the thread waits for other ranks without progress: a
/// medium may take as long as it takes.
#[derive(Debug)]
pub struct StallTimer {
    /// None: no limit.
    limit: Option<Duration>,
    seen: JobActivity,
    since: Instant,
}

impl StallTimer {
    /// Starts with the full limit.
    pub fn new(limit: Option<Duration>) -> Self {
        Self { limit, seen: JobActivity::default(), since: Instant::now() }
    }

    /// The time that is left; none if the wait is not limited now.
    pub fn left(&mut self, now: JobActivity) -> Option<Duration> {
        if now != self.seen {
            (self.seen, self.since) = (now, Instant::now());
        }
        self.limit.filter(|_| now.waits).map(|limit| limit.saturating_sub(self.since.elapsed()))
    }

    /// True if no time is left.
    pub fn is_over(&mut self, now: JobActivity) -> bool {
        self.left(now).is_some_and(|left| left.is_zero())
    }
}
