//! A number that all ranks count on, wherever they are, and that no thread has to serve.
//!
//! The numbers of all counters lie side by side at one rank; each rank remembers the places of those it holds. A new counter gets a
//! place that no rank holds any more, so that ranks may give theirs up at different times.

use std::fmt;
use std::sync::Arc;

use crate::transport::counter_slots::CounterBitmap;
use crate::transport::{CounterOp, Transport};
use crate::{Comm, Op, Result};

/// One number that all ranks add to and replace, each in one step: no two of them see it as it was before the same step.
///
/// It lies in the memory of one process, and MPI's one-sided calls reach it. Below [`ThreadLevel::Multiple`](crate::ThreadLevel)
/// MPI answers while that process is inside any of its calls, so that one that waits in MPI, or in ours, keeps nobody waiting.
pub struct RemoteCounter {
    transport: Arc<dyn Transport>,
    slot: usize,
}

impl Comm {
    /// A counter of all ranks, at `start`. Collective.
    ///
    /// It is there for want of threads: none where ranks are threads, where threads may send and receive ([`Comm::allows_background_collectives`]
    /// tells; one of them can keep a number and answer), for communicators of a part of the processes, and where MPI has no windows.
    #[doc(alias = "MPI_Win_allocate")]
    pub fn remote_counter(&self, start: u64) -> Result<Option<RemoteCounter>> {
        let wire = &self.inner.transport;
        // Making the memory is a call of MPI's that waits for all: nobody begins it unless everybody does.
        let able = self.size() == wire.size() && wire.may_use_counters();
        if self.allreduce_one(Op::Min, u8::from(able))? == 0 {
            return Ok(None);
        }
        let places = wire.counter_slots();
        let mut held = places.map_or(CounterBitmap::EVERYTHING, |places| *places.lock());
        self.allreduce_in_place(Op::Or, &mut held.0)?;
        let (Some(places), Some(place)) = (places, held.first_free()) else { return Ok(None) };
        places.lock().set(place, true);
        let counter = RemoteCounter { transport: Arc::clone(wire), slot: place };
        // Nobody counts before it is set.
        let set = if self.rank() == 0 { counter.swap(start) } else { Ok(start) };
        self.check_or_refuse(set)?;
        self.barrier()?;
        Ok(Some(counter))
    }
}

impl RemoteCounter {
    /// Adds `by`; what it was before. The sum wraps around.
    #[doc(alias = "MPI_Fetch_and_op")]
    pub fn add(&self, by: u64) -> Result<u64> {
        self.transport.fetch_and_op(self.slot, CounterOp::Add(by))
    }

    /// Sets it to `to`; what it was before.
    #[doc(alias = "MPI_Fetch_and_op")]
    pub fn swap(&self, to: u64) -> Result<u64> {
        self.transport.fetch_and_op(self.slot, CounterOp::Set(to))
    }
}

impl Drop for RemoteCounter {
    fn drop(&mut self) {
        if let Some(places) = self.transport.counter_slots() {
            places.lock().set(self.slot, false);
        }
    }
}

impl fmt::Debug for RemoteCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("place", &self.slot).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn threads_need_none() {
        let made = crate::Launch::threads(3).node_ranks(1).run(|world| world.remote_counter(7)).unwrap();
        assert!(made.iter().all(Option::is_none), "{made:?}");
    }
}
