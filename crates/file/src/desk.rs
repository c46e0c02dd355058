//! What a file needs of its ranks: talk of its own, a shared pointer, aggregation buffers. Making them takes several meetings, and new
//! memory, so that a closed file leaves them to the next one that is opened on the same communicator.

use aqueduct_comm::{Comm, Result};

use crate::shared_pointer::SharedPointer;
use crate::staging::Staging;

/// Talk of a file's own, its shared pointer, and its aggregation buffers, once they were needed.
pub(crate) struct Desk {
    pub(crate) comm: Comm,
    pub(crate) pointer: SharedPointer,
    pub(crate) staging: Option<Staging>,
}

/// How many desks wait beside a communicator for the next files.
const SPARE: usize = 4;
/// Larger buffers are not kept for them.
const LARGEST: usize = 64 << 20;

impl Desk {
    /// A new one. Collective.
    pub(crate) fn new(beside: &Comm) -> Result<Self> {
        let comm = beside.dup()?;
        let pointer = SharedPointer::new(&comm, 0)?;
        Ok(Self { comm, pointer, staging: None })
    }

    /// One that a closed file has left, if this rank has one. Only if all ranks have the same one may it be used.
    pub(crate) fn left(beside: &Comm) -> Option<Self> {
        beside.unstow()
    }

    /// Tells it from all others, the same on all ranks; the first word is never 0.
    pub(crate) fn number(&self) -> [u64; 2] {
        [self.comm.number(), self.staging.as_ref().map_or(0, Staging::shape)]
    }

    /// Whether the next file can use it: a thread that serves the pointer between nodes ends with the file.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self.pointer, SharedPointer::Here(_) | SharedPointer::Remote(_))
    }

    /// Leaves it to the next file.
    pub(crate) fn leave(self, beside: &Comm) {
        if self.is_lasting() {
            let staging = self.staging.filter(|staging| staging.bytes() <= LARGEST);
            beside.stow(Self { staging, ..self }, SPARE);
        }
    }
}
