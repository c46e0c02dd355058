//! What a file needs of its ranks: talk of its own and a shared pointer. Making them takes several meetings, so that a closed file leaves
//! them to the next one that is opened on the same communicator.

use aqueduct_comm::{Comm, Result};

use crate::shared_pointer::SharedPointer;

/// Talk of a file's own, and its shared pointer.
pub(crate) struct Desk {
    pub(crate) comm: Comm,
    pub(crate) pointer: SharedPointer,
}

/// How many desks wait beside a communicator for the next files.
const SPARE: usize = 4;

impl Desk {
    /// A new one. Collective.
    pub(crate) fn new(beside: &Comm) -> Result<Self> {
        let comm = beside.dup()?;
        let pointer = SharedPointer::new(&comm, 0)?;
        Ok(Self { comm, pointer })
    }

    /// One that a closed file has left, if this rank has one. Only if all ranks have the same one may it be used.
    pub(crate) fn left(beside: &Comm) -> Option<Self> {
        beside.unstow()
    }

    /// Tells it from all others, the same on all ranks; never 0.
    pub(crate) fn number(&self) -> u64 {
        self.comm.number()
    }

    /// Whether the next file can use it: a thread that serves the pointer between nodes ends with the file.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self.pointer, SharedPointer::Here(_) | SharedPointer::Remote(_))
    }

    /// Leaves it to the next file.
    pub(crate) fn leave(self, beside: &Comm) {
        if self.is_lasting() {
            beside.stow(self, SPARE);
        }
    }
}
