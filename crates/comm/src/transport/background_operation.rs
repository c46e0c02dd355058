//! Operations that background threads perform where only threads of the program may call MPI: whose packets have to be moved, and who moves them.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Transport;
use crate::Result;

thread_local! {
    /// This thread performs such an operation.
    static HANDS_OVER: Cell<bool> = const { Cell::new(false) };
}

/// How many such operations are under way; a look at it costs nothing where there are none.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// The transports they use, once for each.
static TRANSPORTS: Mutex<Vec<Arc<dyn Transport>>> = Mutex::new(Vec::new());

/// A thread is in [`progress`]: MPI calls back into it.
static MAKING_PROGRESS: AtomicBool = AtomicBool::new(false);

/// An operation that a background thread performs although it may not call MPI: threads of the program move its packets whenever they make
/// [`progress`].
pub struct BackgroundOperation {
    transport: Arc<dyn Transport>,
}

impl BackgroundOperation {
    /// Announces an operation on `transport`. An error on a thread that may not call MPI.
    pub(crate) fn announce(transport: &Arc<dyn Transport>) -> Result<Self> {
        transport.check_wait("start")?;
        UNDER_WAY.fetch_add(1, Ordering::AcqRel);
        TRANSPORTS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(transport));
        Ok(Self { transport: Arc::clone(transport) })
    }

    /// Performs it, on the background thread.
    pub fn perform<R>(self, operation: impl FnOnce() -> R) -> R {
        // A guard: the thread goes on after an operation that panics.
        let _hands_over = HandsOver::new();
        operation()
    }
}

/// As long as it lives this thread hands its packets over.
struct HandsOver;

impl HandsOver {
    fn new() -> Self {
        HANDS_OVER.set(true);
        Self
    }
}

impl Drop for HandsOver {
    fn drop(&mut self) {
        HANDS_OVER.set(false);
    }
}

/// The right to move packets, of one thread at a time.
struct Mover;

impl Mover {
    fn new() -> Option<Self> {
        (!MAKING_PROGRESS.swap(true, Ordering::Acquire)).then_some(Self)
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        MAKING_PROGRESS.store(false, Ordering::Release);
    }
}

impl Drop for BackgroundOperation {
    fn drop(&mut self) {
        let mut transports = TRANSPORTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = transports.iter().position(|wire| Arc::ptr_eq(wire, &self.transport)) {
            transports.swap_remove(at);
        }
        drop(transports);
        UNDER_WAY.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether this thread performs a background operation.
pub(crate) fn is_background_operation() -> bool {
    HANDS_OVER.get()
}

/// Whether there are background operations whose packets threads of the program have to move.
pub fn needs_progress() -> bool {
    UNDER_WAY.load(Ordering::Acquire) > 0
}

/// Moves the packets of all background operations, if this thread may call MPI; whether anything moved. It returns at once.
///
/// Whoever waits for such an operation calls it again and again; it may be called from progress hooks of MPI.
#[doc(alias = "MPI_Test")]
pub fn progress() -> bool {
    if !needs_progress() {
        return false;
    }
    let Some(_mover) = Mover::new() else { return false };
    let transports: Vec<Arc<dyn Transport>> = {
        let transports = TRANSPORTS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Arc<dyn Transport>> = Vec::new();
        for wire in transports.iter() {
            if !all.iter().any(|known| Arc::ptr_eq(known, wire)) {
                all.push(Arc::clone(wire));
            }
        }
        all
    };
    let mut moved = false;
    for wire in &transports {
        moved |= wire.progress();
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_neither_the_thread_nor_the_mover_marked() {
        let outcome = std::panic::catch_unwind(|| {
            let _guards = (HandsOver::new(), Mover::new().expect("nobody moves packets"));
            panic!("on purpose");
        });
        assert!(outcome.is_err());
        assert!(!is_background_operation());
        assert!(Mover::new().is_some());
    }
}
