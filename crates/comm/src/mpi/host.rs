//! Starting from a communicator that a host program already has.
//!
//! `unsafe` here: a handle is taken at its word.
#![allow(unsafe_code)]

use super::session::adopt;
use crate::comm::Inner;
use crate::launch::node_ranks;
use crate::{Comm, Result};

impl Comm {
    /// A communicator of the processes of an MPI communicator of the host program: an `MPI_Comm` as its MPI library has it, an
    /// address for Open MPI and the standard interface, an integer for MPICH. Collective over it, in MPI's sense. The host's own
    /// messages are never touched: ours travel on a copy, which lives as long as MPI does.
    ///
    /// # Safety
    /// `handle` must be a valid communicator of the MPI library loaded in this process, and MPI must not be finalized while the
    /// result or anything made from it is in use.
    pub unsafe fn from_mpi(handle: usize) -> Result<Self> {
        Inner::world(&adopt(handle)?, node_ranks()?)
    }
}
