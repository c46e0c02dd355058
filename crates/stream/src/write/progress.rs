//! How far an output has come: accepted, visible and durable are different things.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Kind, Result};

/// How safe a step is; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// The program's arrays are its own again; the step is in memory.
    Accepted,
    /// What the step stores is written: it survives the end of the program.
    Visible,
    /// It is synced: it survives the end of the machine. Never on a device that is not persistent.
    Durable,
}

/// How many steps have come how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputProgress {
    /// Steps that were handed over.
    pub accepted: u64,
    /// Of these, steps of which all that they store is written.
    pub visible: u64,
    /// Of these, steps that are synced; 0 on a device that is not persistent.
    pub durable: u64,
    /// Steps of which a sample is in a reduction that is not stored yet: it is in memory, whatever else of the step is safe.
    pub in_memory: u64,
}

/// What is heard of an output that is written elsewhere.
#[derive(Debug)]
pub(crate) struct ProgressUpdate {
    pub(crate) visible: u64,
    pub(crate) durable: u64,
    pub(crate) failure: Option<Error>,
}

/// Who brings tidings: they are asked for, since nobody here waits for them.
pub(crate) trait RemoteProgress: Send + Sync + std::fmt::Debug {
    /// The latest; or, waiting asleep, what comes next.
    fn update(&self, wait: bool) -> Result<ProgressUpdate>;
}

/// Where progress is noted, by whoever writes, and looked up, by whoever asks.
#[derive(Debug, Default)]
pub(crate) struct ProgressCell {
    state: Mutex<ProgressState>,
    /// What is synced does not outlive the machine: nothing is durable.
    volatile: AtomicBool,
    change: Condvar,
    /// Where the output is written, if not here.
    remote: Mutex<Option<Arc<dyn RemoteProgress>>>,
}

#[derive(Debug, Default)]
struct ProgressState {
    progress: OutputProgress,
    /// The first failure, which is final.
    failure: Option<Error>,
    /// Whether a call of the program has returned it.
    reported: bool,
    /// Nobody writes any more.
    closed: bool,
}

impl ProgressCell {
    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A board for an output that is written elsewhere.
    pub(crate) fn with_remote(herald: Arc<dyn RemoteProgress>) -> Self {
        Self { remote: Mutex::new(Some(herald)), ..Self::default() }
    }

    /// Notes what is heard; whether there is anybody to be heard.
    fn poll_remote(&self, wait: bool) -> bool {
        let herald = self.remote.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(herald) = herald.filter(|_| !self.is_settled()) else { return false };
        match herald.update(wait) {
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

    /// Nothing changes any more.
    fn is_settled(&self) -> bool {
        let state = self.lock();
        state.closed || state.failure.is_some()
    }

    pub(crate) fn progress(&self) -> OutputProgress {
        let progress = self.synced();
        let durable = if self.volatile.load(Ordering::Relaxed) { 0 } else { progress.durable };
        OutputProgress { durable, ..progress }
    }

    /// The same with what is synced as durable, whatever the medium is.
    fn synced(&self) -> OutputProgress {
        self.poll_remote(false);
        self.lock().progress
    }

    /// Says whether the medium is persistent; until then it is.
    pub(crate) fn set_persistent(&self, persistent: bool) {
        self.volatile.store(!persistent, Ordering::Relaxed);
    }

    /// What of that which was accepted will never be stored, of an output that ends here without a failure.
    fn missing(state: &ProgressState) -> Option<String> {
        let OutputProgress { accepted, visible, in_memory, .. } = state.progress;
        if visible < accepted {
            return Some(format!(
                "steps from {visible} on are not in the file: not all ranks have handed them over"
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

    /// Notes a failure, unless there is one.
    pub(crate) fn fail(&self, error: Error) {
        self.lock().failure.get_or_insert(error);
        self.change.notify_all();
    }

    /// The program has been told of a failure, or is about to be.
    pub(crate) fn mark_reported(&self) {
        self.lock().reported = true;
    }

    /// Nothing will change any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        // Whoever keeps a receipt keeps no server waiting.
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

    /// What the program was not told by any call: the failure, or what is missing without one. From now on it counts as reported.
    pub(crate) fn take_unreported(&self) -> Option<String> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.reported, true) {
            return None;
        }
        state.failure.as_ref().map(Error::to_string).or_else(|| Self::missing(&state))
    }

    /// Waits, asleep, until `enough` holds of what is written and synced; an error if that can never be.
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

/// What `commit` gives: how safe the step is can be asked at any time.
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

    /// How safe it is now; the error, if it can become no safer.
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

    /// Waits, asleep, until it is visible.
    pub fn wait_visible(&self) -> Result<()> {
        self.progress.wait("wait", |progress| self.step < progress.visible)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_tells_how_safe_its_step_is() {
        let board = Arc::new(ProgressCell::default());
        let receipt = |step| Receipt { progress: Arc::clone(&board), step };
        board.update(|progress| {
            *progress = OutputProgress { accepted: 3, visible: 2, durable: 1, in_memory: 0 }
        });
        let states: Vec<Durability> = (0..3).map(|step| receipt(step).state().unwrap()).collect();
        assert_eq!(states, [Durability::Durable, Durability::Visible, Durability::Accepted]);
        board.fail(Error::new(Kind::NoSpace, "write", "a", "full").in_step(2));
        board.fail(Error::new(Kind::NoSpace, "write", "a", "later").in_step(3));
        assert_eq!(receipt(1).state().unwrap(), Durability::Visible, "what was safe stays so");
        assert_eq!(receipt(2).state().unwrap_err().step(), Some(2));
        assert_eq!(receipt(2).wait_visible().unwrap_err().detail(), "full");
        assert_eq!(receipt(1).wait_visible().ok(), Some(()));
    }

    #[test]
    fn nobody_waits_for_what_never_comes() {
        let board = Arc::new(ProgressCell::default());
        let waiting = Arc::clone(&board);
        let waiter = std::thread::spawn(move || waiting.wait("flush", |progress| progress.durable > 0));
        board.close();
        assert_eq!(waiter.join().unwrap().unwrap_err().kind(), Kind::Incomplete);
    }
}
