//! Counters in the memory of process 0, changed by one-sided MPI calls.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use super::abi::Abi;
use super::functions::MpiFunctions;
use crate::transport::CounterOp;
use crate::transport::counter_slots::{COUNTER_SLOTS, CounterSlots};
use crate::{Error, Kind, Result};

/// The window with all counters of a transport.
pub(crate) struct CounterWindow<A: Abi> {
    mpi: Arc<MpiFunctions<A>>,
    /// None after it is freed.
    handle: Mutex<Option<A::Handle>>,
    pub(crate) slots: CounterSlots,
}

impl<A: Abi> CounterWindow<A> {
    /// A window over all processes of `comm`. Collective in MPI's sense.
    pub(crate) fn new(mpi: &Arc<MpiFunctions<A>>, comm: A::Handle, rank: usize) -> Result<Self> {
        let len = if rank == 0 { COUNTER_SLOTS * size_of::<u64>() } else { 0 };
        let handle = Mutex::new(Some(mpi.open_window(comm, len)?));
        Ok(Self { mpi: Arc::clone(mpi), handle, slots: CounterSlots::default() })
    }

    /// Atomically changes a counter; its previous value.
    pub(crate) fn change(&self, slot: usize, change: CounterOp) -> Result<u64> {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        self.change_in(*handle, slot, change)
    }

    /// As [`change`](Self::change), for a call from a progress hook of MPI; none if this thread is in `change` already.
    pub(crate) fn try_change(&self, slot: usize, change: CounterOp) -> Option<Result<u64>> {
        let handle = match self.handle.try_lock() {
            Ok(handle) => handle,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.change_in(*handle, slot, change))
    }

    fn change_in(&self, handle: Option<A::Handle>, slot: usize, change: CounterOp) -> Result<u64> {
        let ended = || Error::new(Kind::Mpi, "counter", "MPI is being finalized and its windows are freed");
        let window = handle.ok_or_else(ended)?;
        let (value, operation) = match change {
            CounterOp::Add(by) => (by, self.mpi.constants.sum),
            CounterOp::Set(to) => (to, self.mpi.constants.replace),
        };
        self.mpi.fetch_and_op(window, slot, value, operation)
    }

    /// Frees the window. Collective in MPI's sense; later calls have no effect.
    pub(crate) fn release(&self) {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(window) = handle {
            self.mpi.close_window(window);
        }
    }
}

/// The error if there is no window.
pub(crate) fn missing() -> Error {
    Error::new(Kind::Unsupported, "counter", "MPI could not create a window for the counter")
}
