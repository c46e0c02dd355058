//! Failures and deferred work for the end of [`run`](crate::run).

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Work deferred to the end of the program; the argument says whether the program succeeded.
pub(crate) type DeferredWork = Box<dyn FnOnce(bool) + Send>;

/// Failures that no call could return, and deferred work.
#[derive(Default)]
pub(crate) struct RunEnd {
    /// The first failure.
    failure: OnceLock<String>,
    /// None outside `run`: the work would never be done.
    deferred: Mutex<Option<Vec<DeferredWork>>>,
}

/// Allows work to be deferred. Work that is left when it is dropped is done as for a failed program.
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

    /// Defers work to the end; outside `run` it is done immediately, as for a failed program.
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
    /// Does all deferred work of a program that succeeded.
    pub(crate) fn finish(self) {
        self.do_work(true);
    }

    fn do_work(&self, succeeded: bool) {
        let works = self.0.lock().take();
        works.into_iter().flatten().for_each(|work| work(succeeded));
    }
}

impl Drop for AcceptDeferred<'_> {
    fn drop(&mut self) {
        self.do_work(false);
    }
}

impl fmt::Debug for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunEnd").field("failure", &self.failure).finish_non_exhaustive()
    }
}
