//! Memory of the first process that all change by MPI's one-sided calls.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use super::abi::Abi;
use super::functions::MpiFunctions;
use crate::transport::CounterOp;
use crate::transport::counter_slots::{COUNTER_SLOTS, CounterSlots};
use crate::{Error, Kind, Result};

/// The numbers of all counters of a wire.
pub(crate) struct CounterWindow<A: Abi> {
    mpi: Arc<MpiFunctions<A>>,
    /// None once it is given back.
    handle: Mutex<Option<A::Handle>>,
    pub(crate) slots: CounterSlots,
}

impl<A: Abi> CounterWindow<A> {
    /// One over all processes of `comm`. Collective in MPI's sense.
    pub(crate) fn new(mpi: &Arc<MpiFunctions<A>>, comm: A::Handle, rank: usize) -> Result<Self> {
        let len = if rank == 0 { COUNTER_SLOTS * size_of::<u64>() } else { 0 };
        let handle = Mutex::new(Some(mpi.open_window(comm, len)?));
        Ok(Self { mpi: Arc::clone(mpi), handle, slots: CounterSlots::default() })
    }

    /// Changes a number in one step; what it was before.
    pub(crate) fn change(&self, place: usize, change: CounterOp) -> Result<u64> {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        self.change_in(*handle, place, change)
    }

    /// The same for a call from inside MPI; none where this thread is in [`change`](Self::change) already.
    pub(crate) fn try_change(&self, place: usize, change: CounterOp) -> Option<Result<u64>> {
        let handle = match self.handle.try_lock() {
            Ok(handle) => handle,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.change_in(*handle, place, change))
    }

    fn change_in(&self, handle: Option<A::Handle>, place: usize, change: CounterOp) -> Result<u64> {
        let ended =
            || Error::new(Kind::Mpi, "counter", "the program ends MPI, and the counter went before it");
        let window = handle.ok_or_else(ended)?;
        let (value, operation) = match change {
            CounterOp::Add(by) => (by, self.mpi.constants.sum),
            CounterOp::Set(to) => (to, self.mpi.constants.replace),
        };
        self.mpi.fetch_and_op(window, place, value, operation)
    }

    /// Gives it back. Collective in MPI's sense, once; after that it does nothing.
    pub(crate) fn release(&self) {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(window) = handle {
            self.mpi.close_window(window);
        }
    }
}

/// There is none.
pub(crate) fn missing() -> Error {
    Error::new(Kind::Unsupported, "counter", "MPI could not make a window for it")
}
