//! The progress of an output: accepted, visible and durable steps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Kind, Result};

/// The durability of a step; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// The step is in memory; the program may change its arrays.
    Accepted,
    /// The data of the step is written: it survives the end of the program.
    Visible,
    /// The step is synced: it survives a crash of the machine. Never on a device that is not persistent.
    Durable,
}

/// The number of steps at each level of durability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputProgress {
    /// Steps that were committed.
    pub accepted: u64,
    /// Of these, steps whose data is written.
    pub visible: u64,
    /// Of these, steps that are synced; 0 on a device that is not persistent.
    pub durable: u64,
    /// Steps with a sample in a reduction that is not stored yet: the sample is in memory only.
    pub in_memory: u64,
}

/// An update of an output that another rank writes.
#[derive(Debug)]
pub(crate) struct ProgressUpdate {
    pub(crate) visible: u64,
    pub(crate) durable: u64,
    pub(crate) failure: Option<Error>,
}

/// The source of updates of an output that another rank writes. Updates are requested, because no thread waits for
/// them.
pub(crate) trait RemoteProgress: Send + Sync + std::fmt::Debug {
    /// The latest update, or the next one if `wait` is set.
    fn update(&self, wait: bool) -> Result<ProgressUpdate>;
}

/// The progress of an output, which the writer updates and the program reads.
#[derive(Debug, Default)]
pub(crate) struct ProgressCell {
    state: Mutex<ProgressState>,
    /// Synced data does not survive a crash of the machine: no step is durable.
    volatile: AtomicBool,
    change: Condvar,
    /// The writer of the output, if it is another rank.
    remote: Mutex<Option<Arc<dyn RemoteProgress>>>,
}

#[derive(Debug, Default)]
struct ProgressState {
    progress: OutputProgress,
    /// The first failure, which is final.
    failure: Option<Error>,
    /// True if a call of the program has returned it.
    reported: bool,
    /// There are no more updates.
    closed: bool,
}

impl ProgressCell {
    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The progress of an output that another rank writes.
    pub(crate) fn with_remote(remote: Arc<dyn RemoteProgress>) -> Self {
        Self { remote: Mutex::new(Some(remote)), ..Self::default() }
    }

    /// Records an update; false if there are none any more.
    fn poll_remote(&self, wait: bool) -> bool {
        let remote = self.remote.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(remote) = remote.filter(|_| !self.is_settled()) else { return false };
        match remote.update(wait) {
            Ok(ProgressUpdate { visible, durable, failure }) => {
                self.update(|progress| {
                    progress.visible = progress.visible.max(visible);
                    progress.durable = progress.durable.max(durable);
                });
                failure.into_iter().for_each(|error| self.fail(error));
            }
            Err(error) => self.fail(error),
        }
        true
    }

    /// True if there are no more updates.
    fn is_settled(&self) -> bool {
        let state = self.lock();
        state.closed || state.failure.is_some()
    }

    pub(crate) fn progress(&self) -> OutputProgress {
        let progress = self.synced();
        let durable = if self.volatile.load(Ordering::Relaxed) { 0 } else { progress.durable };
        OutputProgress { durable, ..progress }
    }

    /// The progress with synced steps as durable on any medium.
    fn synced(&self) -> OutputProgress {
        self.poll_remote(false);
        self.lock().progress
    }

    /// Sets whether the medium is persistent; the default is that it is.
    pub(crate) fn set_persistent(&self, persistent: bool) {
        self.volatile.store(!persistent, Ordering::Relaxed);
    }

    /// Accepted data that will never be stored, of an output that has ended without a failure.
    fn missing(state: &ProgressState) -> Option<String> {
        let OutputProgress { accepted, visible, in_memory, .. } = state.progress;
        if visible < accepted {
            return Some(format!(
                "steps from {visible} on are not in the file: not all ranks have committed them"
            ));
        }
        (in_memory > 0).then(|| {
            format!("the samples of {in_memory} steps in reductions are not stored: `finish` stores them")
        })
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut OutputProgress)) {
        change(&mut self.lock().progress);
        self.change.notify_all();
    }

    /// Records a failure; the first one is final.
    pub(crate) fn fail(&self, error: Error) {
        self.lock().failure.get_or_insert(error);
        self.change.notify_all();
    }

    /// A call returns the failure to the program.
    pub(crate) fn mark_reported(&self) {
        self.lock().reported = true;
    }

    /// There are no more updates.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        // A receipt that is kept does not keep the server running.
        *self.remote.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.change.notify_all();
    }

    /// The failure, if there is one.
    pub(crate) fn check(&self) -> Result<()> {
        self.poll_remote(false);
        let mut state = self.lock();
        state.reported |= state.failure.is_some();
        state.failure.clone().map_or(Ok(()), Err)
    }

    /// The failure that no call has returned, or what is missing without one. It counts as reported afterwards.
    pub(crate) fn take_unreported(&self) -> Option<String> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.reported, true) {
            return None;
        }
        state.failure.as_ref().map(Error::to_string).or_else(|| Self::missing(&state))
    }

    /// Waits until `enough` is true for the written and synced steps; fails if it never will be.
    pub(crate) fn wait(
        &self,
        operation: &'static str,
        enough: impl Fn(&OutputProgress) -> bool,
    ) -> Result<()> {
        let waiting =
            |state: &mut ProgressState| !enough(&state.progress) && state.failure.is_none() && !state.closed;
        while !enough(&self.synced()) && self.poll_remote(true) {}
        let mut state = self.change.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner);
        if enough(&state.progress) {
            return Ok(());
        }
        state.reported |= state.failure.is_some();
        let gone = || Error::new(Kind::Incomplete, operation, "the output", "it was dropped without finish");
        Err(state.failure.clone().unwrap_or_else(gone))
    }
}

/// The result of `commit`: the durability of the step can be queried at any time.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub(crate) progress: Arc<ProgressCell>,
    pub(crate) step: u64,
}

impl Receipt {
    /// The step, from 0.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The durability of the step; the error, if it cannot become more durable.
    pub fn state(&self) -> Result<Durability> {
        let progress = self.progress.progress();
        if self.step < progress.durable {
            return Ok(Durability::Durable);
        }
        if self.step < progress.visible {
            return Ok(Durability::Visible);
        }
        self.progress.check().map(|()| Durability::Accepted)
    }

    /// Waits until the step is visible.
    pub fn wait_visible(&self) -> Result<()> {
        self.progress.wait("wait", |progress| self.step < progress.visible)
    }
}

/// A flush under way: [`Output::start_flush`](crate::Output::start_flush).
#[derive(Debug)]
#[must_use = "`wait` says whether the steps are synced"]
pub struct PendingFlush {
    pub(crate) progress: Arc<ProgressCell>,
    pub(crate) steps: u64,
}

impl PendingFlush {
    /// Waits until the steps before the call of `start_flush` are synced, on any thread.
    pub fn wait(self) -> Result<()> {
        self.progress.wait("flush", |progress| progress.durable >= self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_returns_the_durability_of_its_step() {
        let progress = Arc::new(ProgressCell::default());
        let receipt = |step| Receipt { progress: Arc::clone(&progress), step };
        progress.update(|progress| {
            *progress = OutputProgress { accepted: 3, visible: 2, durable: 1, in_memory: 0 }
        });
        let states: Vec<Durability> = (0..3).map(|step| receipt(step).state().unwrap()).collect();
        assert_eq!(states, [Durability::Durable, Durability::Visible, Durability::Accepted]);
        progress.fail(Error::new(Kind::NoSpace, "write", "a", "full").in_step(2));
        progress.fail(Error::new(Kind::NoSpace, "write", "a", "later").in_step(3));
        assert_eq!(receipt(1).state().unwrap(), Durability::Visible, "a visible step stays visible");
        assert_eq!(receipt(2).state().unwrap_err().step(), Some(2));
        assert_eq!(receipt(2).wait_visible().unwrap_err().detail(), "full");
        assert_eq!(receipt(1).wait_visible().ok(), Some(()));
    }

    #[test]
    fn a_wait_ends_when_there_are_no_more_updates() {
        let progress = Arc::new(ProgressCell::default());
        let waiting = Arc::clone(&progress);
        let waiter = std::thread::spawn(move || waiting.wait("flush", |progress| progress.durable > 0));
        progress.close();
        assert_eq!(waiter.join().unwrap().unwrap_err().kind(), Kind::Incomplete);
    }
}
