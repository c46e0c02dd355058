//! What an open file needs of its communicator: a communicator of its own, a shared file pointer, aggregation buffers. Making them takes
//! several collective calls and new memory, so that a closed file leaves them to the next one that is opened on the same communicator.

use aqueduct_comm::{Comm, Result};

use super::shared_pointer::SharedPointer;
use crate::collective::AggregationBuffers;

/// The communicator of a file, its shared file pointer, and its aggregation buffers, if it has used some.
pub(crate) struct FileResources {
    pub(crate) comm: Comm,
    pub(crate) pointer: SharedPointer,
    pub(crate) buffers: Option<AggregationBuffers>,
}

/// Resources that a communicator keeps for the next files.
const KEPT: usize = 4;
/// Larger buffers are not kept.
const LARGEST_BUFFERS: usize = 64 << 20;

impl FileResources {
    /// New resources. Collective.
    pub(crate) fn new(parent: &Comm) -> Result<Self> {
        let comm = parent.dup()?;
        let pointer = SharedPointer::new(&comm, 0)?;
        Ok(Self { comm, pointer, buffers: None })
    }

    /// Those of a closed file, if this rank has some. They may be used only if all ranks have the same ones.
    pub(crate) fn take_cached(parent: &Comm) -> Option<Self> {
        parent.cache_take()
    }

    /// Their identity, the same on all ranks; the first word is never 0.
    pub(crate) fn id(&self) -> [u64; 2] {
        [self.comm.context_id(), self.buffers.as_ref().map_or(0, AggregationBuffers::shape)]
    }

    /// True if the next file can use them: a thread that serves the pointer between nodes ends with the file.
    fn is_reusable(&self) -> bool {
        matches!(self.pointer, SharedPointer::NodeMemory(_) | SharedPointer::Remote(_))
    }

    /// Leaves them to the next file.
    pub(crate) fn cache(self, parent: &Comm) {
        if self.is_reusable() {
            let buffers = self.buffers.filter(|buffers| buffers.bytes() <= LARGEST_BUFFERS);
            parent.cache_put(Self { buffers, ..self }, KEPT);
        }
    }
}
