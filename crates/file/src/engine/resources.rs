//! What an open file makes on its communicator: a shared file pointer and aggregation buffers. They stay attached to the
//! communicator in its pool, for the next file that is opened on the same ranks.

use aqueduct_comm::{Comm, PooledComm, Result};

use super::shared_pointer::SharedPointer;
use crate::collective::AggregationBuffers;

/// The shared file pointer of a file, and its aggregation buffers, if it has used some.
pub(crate) struct FileResources {
    pub(crate) pointer: SharedPointer,
    pub(crate) buffers: Option<AggregationBuffers>,
}

/// Larger buffers are not kept.
const LARGEST_BUFFERS: usize = 64 << 20;

impl FileResources {
    /// New resources. Collective.
    pub(crate) fn new(comm: &Comm) -> Result<Self> {
        Ok(Self { pointer: SharedPointer::new(comm, 0)?, buffers: None })
    }

    /// A number that is the same on all ranks whose resources can be used together.
    pub(crate) fn shape(&self) -> u64 {
        self.buffers.as_ref().map_or(0, AggregationBuffers::shape)
    }

    /// True if the next file can use them: a thread that serves the pointer between nodes ends with the file.
    fn is_reusable(&self) -> bool {
        matches!(self.pointer, SharedPointer::NodeMemory(_) | SharedPointer::Remote(_))
    }

    /// Leaves the communicator and its resources to the next file.
    pub(crate) fn release(mut comm: PooledComm<Self>) {
        let is_kept = |buffers: &AggregationBuffers| buffers.bytes() <= LARGEST_BUFFERS;
        comm.attached.buffers = comm.attached.buffers.filter(is_kept);
        if comm.attached.is_reusable() {
            comm.release();
        }
    }
}
