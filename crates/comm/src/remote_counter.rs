//! A remote atomic counter (`MPI_Fetch_and_op`) that all ranks can change without a server thread.
//!
//! The values of all counters are in a window of one rank; each rank records the slots of the counters it holds. A new counter gets a slot
//! that no rank holds, so that ranks may drop counters at different times.

use std::fmt;
use std::sync::Arc;

use crate::transport::counter_slots::CounterBitmap;
use crate::transport::{CounterOp, Transport};
use crate::{Comm, Op, Result};

/// A number that all ranks add to and replace atomically.
///
/// It is in the memory of one process and is changed by one-sided MPI calls. Below [`ThreadLevel::Multiple`](crate::ThreadLevel) MPI makes
/// progress while that process is inside a call of MPI or of this crate.
pub struct RemoteCounter {
    transport: Arc<dyn Transport>,
    slot: usize,
}

impl Comm {
    /// A counter of all ranks, at `start`. Collective.
    ///
    /// None if ranks are threads, if background threads may communicate (see [`Comm::allows_background_collectives`]; then a server thread
    /// can hold the number), for communicators of a part of the processes, and if MPI cannot create windows.
    #[doc(alias = "MPI_Win_allocate")]
    pub fn remote_counter(&self, start: u64) -> Result<Option<RemoteCounter>> {
        let transport = &self.inner.transport;
        // The window is created by a collective MPI call: no rank makes it unless all do.
        let able = self.size() == transport.size() && transport.may_use_counters();
        if self.allreduce_one(Op::Min, u8::from(able))? == 0 {
            return Ok(None);
        }
        let slots = transport.counter_slots();
        let mut held = slots.map_or(CounterBitmap::FULL, |slots| *slots.lock());
        self.allreduce_in_place(Op::Or, &mut held.0)?;
        let (Some(slots), Some(slot)) = (slots, held.first_free()) else { return Ok(None) };
        slots.lock().set(slot, true);
        let counter = RemoteCounter { transport: Arc::clone(transport), slot };
        // No rank uses the counter before it is set.
        let set = if self.rank() == 0 { counter.swap(start) } else { Ok(start) };
        self.check_or_refuse(set)?;
        self.barrier()?;
        Ok(Some(counter))
    }
}

impl RemoteCounter {
    /// Adds `by`, wrapping around; the previous value.
    #[doc(alias = "MPI_Fetch_and_op")]
    pub fn add(&self, by: u64) -> Result<u64> {
        self.transport.fetch_and_op(self.slot, CounterOp::Add(by))
    }

    /// Sets it to `to`; the previous value.
    #[doc(alias = "MPI_Fetch_and_op")]
    pub fn swap(&self, to: u64) -> Result<u64> {
        self.transport.fetch_and_op(self.slot, CounterOp::Set(to))
    }
}

impl Drop for RemoteCounter {
    fn drop(&mut self) {
        if let Some(slots) = self.transport.counter_slots() {
            slots.lock().set(self.slot, false);
        }
    }
}

impl fmt::Debug for RemoteCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCounter").field("slot", &self.slot).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn thread_ranks_have_no_remote_counter() {
        let made = crate::Launch::threads(3).node_ranks(1).run(|world| world.remote_counter(7)).unwrap();
        assert!(made.iter().all(Option::is_none), "{made:?}");
    }
}
