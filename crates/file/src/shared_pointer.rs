//! The shared file pointer: one number that all ranks advance.
//!
//! On one node it is an atomic in shared memory. Between nodes the first rank keeps it and a thread of its serves the others; the
//! thread sleeps until it is asked. Where threads may not call MPI, MPI itself reaches it in the first rank's memory. Where none of that
//! can be had, the first rank still moves it for all in collective operations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use aqueduct_comm::{Comm, Counter, Region, Result, Source};

const ASK: u32 = 1;
const TELL: u32 = 2;
/// Asks the keeper to stop.
const STOP: u64 = u64::MAX;

pub(crate) enum SharedPointer {
    /// In memory that all ranks share.
    Here(Region),
    /// Kept by rank 0.
    Kept(Kept),
    /// In the first rank's memory, reached by MPI's one-sided calls: MPI lets only threads of the program communicate.
    Remote(Counter),
    /// Rank 0 has it, and the others cannot reach it: there was no thread or no counter to be had.
    Unserved(AtomicU64),
}

/// The way to a pointer that rank 0 keeps.
pub(crate) struct Kept {
    comm: Comm,
    keeper: Option<JoinHandle<()>>,
    /// One question at a time: the I/O threads of a rank ask too, and an answer does not say whose it is.
    asking: Mutex<()>,
}

impl Kept {
    /// The pointer before it was changed by a value, in this way.
    fn ask(&self, value: u64, how: u64) -> Result<u64> {
        let _turn = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        self.comm.send(0, ASK, &[value, how])?;
        Ok(self.comm.receive::<u64>(0, TELL)?.0[0])
    }
}

impl SharedPointer {
    /// The pointer of all ranks of `comm`, at `start`. Collective.
    pub(crate) fn new(comm: &Comm, start: u64) -> Result<Self> {
        if comm.node_count() == 1 {
            let region = comm.region(8)?;
            if comm.rank() == 0 {
                region.atomic(0)?.store(start, Ordering::SeqCst);
            }
            comm.barrier()?;
            return Ok(Self::Here(region));
        }
        if !comm.serves_threads() {
            let counter = comm.counter(start)?;
            return Ok(counter.map_or_else(|| Self::Unserved(AtomicU64::new(start)), Self::Remote));
        }
        let comm = comm.dup()?;
        let mut keeper = None;
        if comm.rank() == 0 {
            let served = comm.clone();
            let builder = std::thread::Builder::new().name("aqueduct shared pointer".to_owned());
            keeper = builder.spawn(move || keep(&served, start)).ok();
        }
        // Without its keeper nobody would ever answer: all ranks must know.
        let mut kept = [u8::from(keeper.is_some())];
        comm.broadcast(0, &mut kept)?;
        if kept == [0] {
            return Ok(Self::Unserved(AtomicU64::new(start)));
        }
        Ok(Self::Kept(Kept { comm, keeper, asking: Mutex::new(()) }))
    }

    /// The pointer before it was advanced by `by`; none if nobody serves it.
    pub(crate) fn advance(&self, by: u64) -> Result<Option<u64>> {
        match self {
            Self::Here(region) => Ok(Some(region.atomic(0)?.fetch_add(by, Ordering::SeqCst))),
            Self::Kept(kept) => kept.ask(by, 0).map(Some),
            Self::Remote(counter) => counter.add(by).map(Some),
            Self::Unserved(_) => Ok(None),
        }
    }

    /// The same on rank 0, for all ranks in a collective operation.
    pub(crate) fn advance_for_all(&self, by: u64) -> Result<u64> {
        match self {
            Self::Here(region) => Ok(region.atomic(0)?.fetch_add(by, Ordering::SeqCst)),
            Self::Kept(kept) => kept.ask(by, 0),
            Self::Remote(counter) => counter.add(by),
            Self::Unserved(pointer) => Ok(pointer.fetch_add(by, Ordering::SeqCst)),
        }
    }

    /// Sets it, on rank 0 for all; what it was. What others do meanwhile is theirs to order.
    pub(crate) fn set(&self, to: u64) -> Result<u64> {
        match self {
            Self::Here(region) => Ok(region.atomic(0)?.swap(to, Ordering::SeqCst)),
            Self::Kept(kept) => kept.ask(to, 1),
            Self::Remote(counter) => counter.swap(to),
            Self::Unserved(pointer) => Ok(pointer.swap(to, Ordering::SeqCst)),
        }
    }
}

impl SharedPointer {
    /// Whether a thread of rank 0 answers the others.
    pub(crate) fn is_served(&self) -> bool {
        matches!(self, Self::Kept(_))
    }
}

impl Drop for SharedPointer {
    fn drop(&mut self) {
        if let Self::Kept(Kept { comm, keeper, .. }) = self
            && let Some(keeper) = keeper.take()
        {
            // If the message cannot be sent the ranks have failed, and the keeper has ended by that.
            let _ = comm.send(0, ASK, &[STOP, STOP]);
            let _ = keeper.join();
        }
    }
}

/// Serves the pointer until it is told to stop or the ranks fail.
fn keep(comm: &Comm, start: u64) {
    aqueduct_comm::leave_mpi_alone();
    let mut pointer = start;
    while let Ok((asked, status)) = comm.receive::<u64>(Source::Any, ASK) {
        let &[value, how] = asked.as_slice() else { return };
        if (value, how) == (STOP, STOP) {
            return;
        }
        let before = pointer;
        pointer = if how == 0 { pointer.wrapping_add(value) } else { value };
        if comm.send(status.source, TELL, &[before]).is_err() {
            return;
        }
    }
}
