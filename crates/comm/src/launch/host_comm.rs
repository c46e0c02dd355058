//! Starting from a communicator that a host program already has.
//!
//! `unsafe` here: a handle is taken at its word.
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::node_ranks;
use crate::comm::CommInner;
use crate::transport::Transport;
use crate::transport::mpi::{self, Library, MpiAbi};
use crate::{Comm, Result};

/// What was made of communicators of the host program, in the order that all ranks have made it in.
static ADOPTED: Mutex<Vec<Weak<dyn Transport>>> = Mutex::new(Vec::new());

/// Gives back what the host's MPI wants back from all processes together before it ends. No thread of ours calls MPI from then on: communication and
/// [counters](crate::RemoteCounter) fail.
/// For a host program that ends MPI while communicators of [`Comm::from_mpi`] are in use after all: every process calls it, best when MPI
/// deletes the attributes of `MPI_COMM_SELF`.
pub fn prepare_finalize() {
    let adopted: Vec<_> = ADOPTED.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
    let adopted: Vec<Arc<dyn Transport>> = adopted.iter().filter_map(Weak::upgrade).collect();
    adopted.iter().for_each(|wire| wire.release());
    adopted.iter().for_each(|wire| wire.end());
}

/// Ends all communication of communicators of [`Comm::from_mpi`] at once, without a call into MPI: for a process that exits and has not ended MPI. Operations
/// under way that need messages fail.
pub fn abandon_mpi() {
    let adopted: Vec<_> = ADOPTED.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
    adopted.iter().filter_map(Weak::upgrade).for_each(|wire| wire.abandon());
}

/// The MPI library that the host program of this process has loaded.
#[derive(Debug)]
pub struct Host {
    library: Library,
}

impl Host {
    /// Finds it. It is never unloaded.
    pub fn find() -> Result<Self> {
        Library::already_loaded().map(|library| Self { library })
    }

    /// Which binary interface it has.
    pub fn flavour(&self) -> MpiAbi {
        self.library.flavour
    }

    /// The file it was loaded from.
    pub fn path(&self) -> &Path {
        &self.library.path
    }

    /// The address of a function of the library itself, whatever was put in front of it; none where it has no such function.
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
    /// address for Open MPI and the standard interface, an integer for MPICH. Collective over it, in MPI's sense. The host's own
    /// messages are never touched: ours travel on a copy, which is given back when the last handle made from it is dropped, by all ranks in
    /// the same order.
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
