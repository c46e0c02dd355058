//! The shared file pointer: one number that all ranks advance.
//!
//! On one node it is an atomic in shared memory. Between nodes rank 0 has it and a thread of rank 0 serves the others; the thread sleeps
//! until it gets a request. If threads may not call MPI, it is reached in the memory of rank 0 by one-sided communication. If that is not
//! available either, rank 0 still moves it for all in collective calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use aqueduct_comm::{Comm, MessageSource, RemoteCounter, SharedRegion};

use crate::context::FileContext;
use crate::error::{Error, Kind, Result};

/// Tags of requests and replies.
const REQUEST: u32 = 1;
const REPLY: u32 = 2;
/// Asks the server thread to stop.
const STOP: u64 = u64::MAX;

pub(crate) enum SharedPointer {
    /// In memory that all ranks share.
    NodeMemory(SharedRegion),
    /// Served by a thread of rank 0.
    Served(ServedPointer),
    /// In the memory of rank 0, reached by one-sided communication: MPI lets only threads of the program communicate.
    Remote(RemoteCounter),
    /// On rank 0, and the others cannot reach it: there is neither a thread nor a counter.
    Unserved(AtomicU64),
}

/// A shared file pointer that a thread of rank 0 serves.
pub(crate) struct ServedPointer {
    comm: Comm,
    server: Option<JoinHandle<()>>,
    /// One request at a time: the I/O threads of a rank send requests too, and a reply does not say to which it belongs.
    request: Mutex<()>,
}

impl ServedPointer {
    /// Changes the pointer by (or, with `how` = 1, to) a value; the pointer before.
    fn change(&self, value: u64, how: u64) -> aqueduct_comm::Result<u64> {
        let _guard = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        self.comm.send(0, REQUEST, &[value, how])?;
        Ok(self.comm.receive::<u64>(0, REPLY)?.0[0])
    }
}

impl SharedPointer {
    /// The pointer of all ranks of `comm`, at `start`. Collective.
    pub(crate) fn new(comm: &Comm, start: u64) -> aqueduct_comm::Result<Self> {
        if comm.node_count() == 1 {
            let region = comm.shared_region(8)?;
            if comm.rank() == 0 {
                region.atomic(0)?.store(start, Ordering::SeqCst);
            }
            comm.barrier()?;
            return Ok(Self::NodeMemory(region));
        }
        if !comm.allows_background_collectives() {
            let counter = comm.remote_counter(start)?;
            return Ok(counter.map_or_else(|| Self::Unserved(AtomicU64::new(start)), Self::Remote));
        }
        let comm = comm.dup()?;
        let mut server = None;
        if comm.rank() == 0 {
            let served = comm.clone();
            let builder = std::thread::Builder::new().name("aqueduct shared pointer".to_owned());
            server = builder.spawn(move || serve(&served, start)).ok();
        }
        // Without the thread no request would be answered: all ranks must know.
        let mut is_served = [u8::from(server.is_some())];
        comm.broadcast(0, &mut is_served)?;
        if is_served == [0] {
            return Ok(Self::Unserved(AtomicU64::new(start)));
        }
        Ok(Self::Served(ServedPointer { comm, server, request: Mutex::new(()) }))
    }

    /// The pointer before it was advanced by `by`; none if this rank cannot reach it.
    fn fetch_add(&self, by: u64) -> aqueduct_comm::Result<Option<u64>> {
        match self {
            Self::NodeMemory(region) => Ok(Some(region.atomic(0)?.fetch_add(by, Ordering::SeqCst))),
            Self::Served(served) => served.change(by, 0).map(Some),
            Self::Remote(counter) => counter.add(by).map(Some),
            Self::Unserved(_) => Ok(None),
        }
    }

    /// The same on rank 0, for all ranks in a collective call.
    fn fetch_add_on_root(&self, by: u64) -> aqueduct_comm::Result<u64> {
        match self {
            Self::NodeMemory(region) => Ok(region.atomic(0)?.fetch_add(by, Ordering::SeqCst)),
            Self::Served(served) => served.change(by, 0),
            Self::Remote(counter) => counter.add(by),
            Self::Unserved(pointer) => Ok(pointer.fetch_add(by, Ordering::SeqCst)),
        }
    }

    /// Sets it, on rank 0 for all; the pointer before. The caller orders this with accesses of other ranks.
    pub(crate) fn set(&self, to: u64) -> aqueduct_comm::Result<u64> {
        match self {
            Self::NodeMemory(region) => Ok(region.atomic(0)?.swap(to, Ordering::SeqCst)),
            Self::Served(served) => served.change(to, 1),
            Self::Remote(counter) => counter.swap(to),
            Self::Unserved(pointer) => Ok(pointer.swap(to, Ordering::SeqCst)),
        }
    }
}

impl SharedPointer {
    /// The pointer before it was advanced by so many etypes.
    pub(crate) fn advance(&self, cx: &FileContext, operation: &'static str, by: u64) -> Result<u64> {
        let before = cx.comm_result(operation, self.fetch_add(by))?;
        before.ok_or_else(|| unreachable_pointer(cx, operation))
    }

    /// The position of this rank's `etypes` if all ranks take theirs from the pointer in rank order. Collective; a rank that has failed
    /// takes none.
    pub(crate) fn advance_ordered(
        &self,
        cx: &FileContext,
        operation: &'static str,
        etypes: u64,
    ) -> Result<u64> {
        // Two collective calls: other operations may move the pointer at any time, so that one step has to read and move it.
        let counts = cx.comm_result(operation, cx.comm.allgather(&[etypes]))?;
        let mut start = [0, 0];
        if cx.comm.rank() == 0 {
            let total = counts.iter().fold(0u64, |total, count| total.wrapping_add(*count));
            start = self.fetch_add_on_root(total).map_or([0, 1], |start| [start, 0]);
        }
        cx.comm_result(operation, cx.comm.broadcast(0, &mut start))?;
        if start[1] != 0 {
            let detail = "rank 0 cannot reach the shared file pointer";
            return Err(cx.error(Kind::Communication, operation, detail));
        }
        Ok(counts[..cx.comm.rank()].iter().fold(start[0], |at, count| at.wrapping_add(*count)))
    }

    /// True if a thread of rank 0 serves the other ranks.
    pub(crate) fn is_served(&self) -> bool {
        matches!(self, Self::Served(_))
    }
}

impl Drop for SharedPointer {
    fn drop(&mut self) {
        if let Self::Served(ServedPointer { comm, server, .. }) = self
            && let Some(server) = server.take()
        {
            // If the message cannot be sent the ranks have failed, and the thread has ended by that.
            let _ = comm.send(0, REQUEST, &[STOP, STOP]);
            let _ = server.join();
        }
    }
}

/// Serves the pointer until it gets the request to stop or the ranks fail.
fn serve(comm: &Comm, start: u64) {
    aqueduct_comm::forbid_mpi_on_thread();
    let mut pointer = start;
    while let Ok((request, status)) = comm.receive::<u64>(MessageSource::Any, REQUEST) {
        let &[value, how] = request.as_slice() else { return };
        if (value, how) == (STOP, STOP) {
            return;
        }
        let before = pointer;
        pointer = if how == 0 { pointer.wrapping_add(value) } else { value };
        if comm.send(status.source, REPLY, &[before]).is_err() {
            return;
        }
    }
}

fn unreachable_pointer(cx: &FileContext, operation: &'static str) -> Error {
    let detail = "between nodes the shared file pointer needs a thread on rank 0 that may call MPI, or an MPI window over all \
                  processes of its communicator; ask for thread level multiple, for more threads where they are limited, \
                  or open the file on all processes";
    cx.error(Kind::Unsupported, operation, detail)
}
