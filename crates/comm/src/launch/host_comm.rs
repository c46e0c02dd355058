//! Communicators made from an `MPI_Comm` of a host program.
//!
//! `unsafe` here: the validity of an MPI handle cannot be checked.
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::node_ranks;
use crate::comm::CommInner;
use crate::transport::Transport;
use crate::transport::mpi::{self, Library, MpiAbi};
use crate::{Comm, Result};

/// The transports made from communicators of the host program, in an order that is the same on all ranks.
static ADOPTED: Mutex<Vec<Weak<dyn Transport>>> = Mutex::new(Vec::new());

/// Frees MPI objects whose release is collective, before the host program finalizes MPI. Afterwards no thread of this library calls MPI:
/// communication and [counters](crate::RemoteCounter) fail. For a host program that finalizes MPI while communicators of [`Comm::from_mpi`]
/// are in use. Every process calls it, for example when MPI deletes the attributes of `MPI_COMM_SELF`.
pub fn prepare_finalize() {
    let adopted: Vec<_> = ADOPTED.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
    let adopted: Vec<Arc<dyn Transport>> = adopted.iter().filter_map(Weak::upgrade).collect();
    adopted.iter().for_each(|transport| transport.release());
    adopted.iter().for_each(|transport| transport.end());
}

/// Ends all communication of communicators of [`Comm::from_mpi`] without calling MPI, for a process that exits without finalizing MPI.
/// Operations in progress that need messages fail.
pub fn abandon_mpi() {
    let adopted: Vec<_> = ADOPTED.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
    adopted.iter().filter_map(Weak::upgrade).for_each(|transport| transport.abandon());
}

/// The MPI library that the host program of this process has loaded.
#[derive(Debug)]
pub struct Host {
    library: Library,
}

impl Host {
    /// Finds the library. It is never unloaded.
    pub fn find() -> Result<Self> {
        Library::already_loaded().map(|library| Self { library })
    }

    /// Its ABI.
    pub fn abi(&self) -> MpiAbi {
        self.library.abi
    }

    /// The file it was loaded from.
    pub fn path(&self) -> &Path {
        &self.library.path
    }

    /// The address of a function of the library itself, ignoring interposed functions; none if it has no such function.
    pub fn function(&self, name: &str) -> Option<usize> {
        self.library.own_symbol(name)
    }

    /// The address of a data object of the library, as the program sees it.
    pub fn object(&self, name: &str) -> Option<usize> {
        self.library.address(name).ok()
    }
}

impl Comm {
    /// A communicator of the processes of an MPI communicator of the host program: an `MPI_Comm` as its MPI library has it, an
    /// address for Open MPI and the standard ABI, an integer for MPICH. Collective over it, in MPI's sense. Messages use a duplicate of
    /// the communicator, separate from those of the host program. It is freed when the last handle made from it is dropped, which all ranks
    /// must do in the same order.
    ///
    /// # Safety
    /// `handle` must be a valid communicator of the MPI library loaded in this process, and MPI must not be finalized while the
    /// result or anything made from it is in use.
    pub unsafe fn from_mpi(handle: usize) -> Result<Self> {
        let transport = mpi::adopt(handle)?;
        let mut adopted = ADOPTED.lock().unwrap_or_else(PoisonError::into_inner);
        adopted.retain(|known| known.strong_count() > 0);
        adopted.push(Arc::downgrade(&transport));
        drop(adopted);
        CommInner::world(&transport, node_ranks()?)
    }
}
