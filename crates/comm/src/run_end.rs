//! What the end of [`run`](crate::run) has to know and to do for a rank.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Work that is left to the end of the program; it is given whether the program succeeded.
pub(crate) type DeferredWork = Box<dyn FnOnce(bool) + Send>;

/// Failures that no call could return, and work that is left to the end.
#[derive(Default)]
pub(crate) struct RunEnd {
    /// The first failure.
    failure: OnceLock<String>,
    /// None where no `run` is under way: nobody would do the work.
    deferred: Mutex<Option<Vec<DeferredWork>>>,
}

/// While this lives, work can be deferred. Work that is left when it is dropped belongs to a program that failed.
pub(crate) struct AcceptDeferred<'a>(&'a RunEnd);

impl RunEnd {
    pub(crate) fn report_failure(&self, message: String) {
        let _ = self.failure.set(message);
    }

    /// The first failure that was reported.
    pub(crate) fn reported_failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }

    pub(crate) fn accept_deferred(&self) -> AcceptDeferred<'_> {
        self.lock().get_or_insert_default();
        AcceptDeferred(self)
    }

    /// Keeps work for the end; does it at once, as for a program that failed, where there is no end to keep it for.
    pub(crate) fn defer(&self, work: DeferredWork) {
        let refused = match &mut *self.lock() {
            Some(deferred) => {
                deferred.push(work);
                None
            }
            None => Some(work),
        };
        if let Some(work) = refused {
            work(false);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<DeferredWork>>> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AcceptDeferred<'_> {
    /// Does all work of a program that succeeded.
    pub(crate) fn finish(self) {
        self.work_off(true);
    }

    fn work_off(&self, succeeded: bool) {
        let works = self.0.lock().take();
        works.into_iter().flatten().for_each(|work| work(succeeded));
    }
}

impl Drop for AcceptDeferred<'_> {
    fn drop(&mut self) {
        self.work_off(false);
    }
}

impl fmt::Debug for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunEnd").field("failure", &self.failure).finish_non_exhaustive()
    }
}
