//! Operations of background threads that may not call MPI: threads of the program transfer their packets.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Transport;
use crate::Result;

thread_local! {
    /// True while this thread performs a background operation.
    static IN_OPERATION: Cell<bool> = const { Cell::new(false) };
}

/// The number of background operations in progress, for a cheap check.
static IN_PROGRESS: AtomicUsize = AtomicUsize::new(0);

/// The transports of the background operations, one entry per operation.
static TRANSPORTS: Mutex<Vec<Arc<dyn Transport>>> = Mutex::new(Vec::new());

/// True while a thread is in [`progress`], which progress hooks of MPI may call again.
static MAKING_PROGRESS: AtomicBool = AtomicBool::new(false);

/// An operation of a background thread that may not call MPI: threads of the program transfer its packets whenever they make
/// [`progress`].
pub struct BackgroundOperation {
    transport: Arc<dyn Transport>,
}

impl BackgroundOperation {
    /// Announces an operation on `transport`. An error on a thread that may not call MPI.
    pub(crate) fn announce(transport: &Arc<dyn Transport>) -> Result<Self> {
        transport.check_wait("start")?;
        IN_PROGRESS.fetch_add(1, Ordering::AcqRel);
        TRANSPORTS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(transport));
        Ok(Self { transport: Arc::clone(transport) })
    }

    /// Performs it, on the background thread.
    pub fn perform<R>(self, operation: impl FnOnce() -> R) -> R {
        // A guard: the thread continues after an operation that panics.
        let _mark = OperationMark::new();
        operation()
    }
}

/// Marks this thread while it lives.
struct OperationMark;

impl OperationMark {
    fn new() -> Self {
        IN_OPERATION.set(true);
        Self
    }
}

impl Drop for OperationMark {
    fn drop(&mut self) {
        IN_OPERATION.set(false);
    }
}

/// The right to transfer packets, of one thread at a time.
struct ProgressGuard;

impl ProgressGuard {
    fn new() -> Option<Self> {
        (!MAKING_PROGRESS.swap(true, Ordering::Acquire)).then_some(Self)
    }
}

impl Drop for ProgressGuard {
    fn drop(&mut self) {
        MAKING_PROGRESS.store(false, Ordering::Release);
    }
}

impl Drop for BackgroundOperation {
    fn drop(&mut self) {
        let mut transports = TRANSPORTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = transports.iter().position(|transport| Arc::ptr_eq(transport, &self.transport)) {
            transports.swap_remove(at);
        }
        drop(transports);
        IN_PROGRESS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// True if this thread performs a background operation.
pub(crate) fn is_background_operation() -> bool {
    IN_OPERATION.get()
}

/// True if there are background operations whose packets threads of the program have to transfer.
pub fn needs_progress() -> bool {
    IN_PROGRESS.load(Ordering::Acquire) > 0
}

/// Transfers the packets of all background operations, if this thread may call MPI; true if any progressed. It does not wait.
///
/// Threads that wait for a background operation call it repeatedly; progress hooks of MPI may call it.
#[doc(alias = "MPI_Test")]
pub fn progress() -> bool {
    if !needs_progress() {
        return false;
    }
    let Some(_guard) = ProgressGuard::new() else { return false };
    let transports: Vec<Arc<dyn Transport>> = {
        let transports = TRANSPORTS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Arc<dyn Transport>> = Vec::new();
        for transport in transports.iter() {
            if !all.iter().any(|known| Arc::ptr_eq(known, transport)) {
                all.push(Arc::clone(transport));
            }
        }
        all
    };
    let mut moved = false;
    for transport in &transports {
        moved |= transport.progress();
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_resets_the_marks_of_thread_and_progress() {
        let outcome = std::panic::catch_unwind(|| {
            let _guards = (OperationMark::new(), ProgressGuard::new().expect("no thread makes progress"));
            panic!("on purpose");
        });
        assert!(outcome.is_err());
        assert!(!is_background_operation());
        assert!(ProgressGuard::new().is_some());
    }
}
