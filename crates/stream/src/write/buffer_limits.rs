//! Limits of the buffers of a rank.

use aqueduct_comm::Comm;
use aqueduct_file::available_memory;

/// The limits that a rank's buffers keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferLimits {
    /// How many there are.
    pub(crate) buffers: usize,
    /// Bytes of the largest.
    pub(crate) capacity: u64,
    /// Bytes that a step is expected to have.
    pub(crate) expected: u64,
    /// Syncs after so many parcels.
    pub(crate) durable_every: Option<u64>,
}

/// An eighth of the available memory, divided by the ranks that share it.
pub(crate) fn share_of_available(comm: &Comm) -> u64 {
    let ranks = comm.ranks_of_node(comm.node_of(comm.rank())).len() as u64;
    (available_memory() / 8 / ranks).max(1 << 20)
}
