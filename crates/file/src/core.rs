//! What an open file is made of: everything that outlives a single access and that I/O threads need too.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_comm::Comm;
use aqueduct_device::{Capabilities, Handle, LockGuard, LockKind};

use crate::error::{Error, Kind, Result};
use crate::hints::Hints;
use crate::mode::Mode;
use crate::plan::Nodes;

/// An open file, without its pointers and view.
pub(crate) struct Core {
    pub(crate) name: Arc<str>,
    /// For the collective operations of this file alone.
    pub(crate) comm: Comm,
    pub(crate) nodes: Nodes,
    pub(crate) handle: Arc<dyn Handle>,
    pub(crate) can: Capabilities,
    pub(crate) mode: Mode,
    pub(crate) atomic: AtomicBool,
    hints: Mutex<Hints>,
}

impl Core {
    pub(crate) fn new(name: Arc<str>, comm: Comm, handle: Arc<dyn Handle>, mode: Mode, hints: Hints) -> Self {
        let mut leaders = vec![0; comm.node_count()];
        for rank in (0..comm.size()).rev() {
            leaders[comm.node_of(rank)] = rank;
        }
        let can = handle.capabilities();
        Self {
            name,
            comm,
            nodes: Nodes { leaders },
            handle,
            can,
            mode,
            atomic: AtomicBool::new(false),
            hints: Mutex::new(hints),
        }
    }

    pub(crate) fn hints(&self) -> MutexGuard<'_, Hints> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_atomic(&self) -> bool {
        self.atomic.load(Ordering::Relaxed)
    }

    pub(crate) fn error(&self, kind: Kind, operation: &'static str, detail: impl Into<String>) -> Error {
        Error::new(kind, operation, &self.name, detail)
    }

    /// A device's outcome as this layer's.
    pub(crate) fn device<T>(&self, operation: &'static str, outcome: aqueduct_device::Result<T>) -> Result<T> {
        outcome.map_err(|error| Error::device(operation, &self.name, &error))
    }

    /// The outcome of ranks talking as this layer's.
    pub(crate) fn talk<T>(&self, operation: &'static str, outcome: aqueduct_comm::Result<T>) -> Result<T> {
        outcome.map_err(|error| Error::talk(operation, &self.name, &error))
    }

    /// Locks a range of the file against other ranks.
    pub(crate) fn lock(
        &self,
        operation: &'static str,
        range: Range<u64>,
        kind: LockKind,
    ) -> Result<Option<Box<dyn LockGuard + '_>>> {
        if range.is_empty() {
            return Ok(None);
        }
        self.device(operation, self.handle.lock(range, kind)).map(Some)
    }

    /// The outcome of a collective operation, agreed: if any rank failed, every rank fails: those that failed with their own
    /// error, the others with that of the lowest rank that did.
    pub(crate) fn agree<T>(&self, operation: &'static str, mine: Result<T>) -> Result<T> {
        let none = self.comm.size() as u64;
        let failed = if mine.is_err() { self.comm.rank() as u64 } else { none };
        let first = self.talk(operation, self.comm.allreduce_one(aqueduct_comm::Op::Min, failed))?;
        if first == none {
            return mine;
        }
        let told = mine.as_ref().err().map(encode).unwrap_or_default();
        let told = self.talk(operation, self.comm.broadcast_vec(first as usize, told))?;
        mine.and_then(|_| Err(self.decode(operation, first as usize, &told)))
    }

    fn decode(&self, operation: &'static str, rank: usize, told: &[u8]) -> Error {
        let (kind, text) = told.split_first().unwrap_or((&0, &[]));
        let text = String::from_utf8_lossy(text).into_owned();
        self.error(Kind::from_code(*kind), operation, text).on_rank(rank)
    }
}

fn encode(error: &Error) -> Vec<u8> {
    let mut bytes = vec![error.kind() as u8];
    bytes.extend_from_slice(error.detail().as_bytes());
    bytes
}
