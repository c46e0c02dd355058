//! What the ranks of a node have in common for exchanges between nodes: a communicator, the windows of their aggregators, and a buffer for
//! messages to other nodes, all in shared memory.

use aqueduct_comm::Comm;

use crate::core::Core;
use crate::error::Result;
use crate::plan::Domains;
use crate::staging::Staging;

/// Windows of an aggregator: one is filled by its own node, one by messages, one is on its way to or from the file.
const WINDOWS: usize = 3;
/// Message buffers: one is filled while the other is sent.
const BUFFERS: usize = 2;

/// One rank's end of it.
#[derive(Clone, Debug)]
pub(crate) struct Between {
    node: Comm,
    /// The windows of the aggregators of this node.
    pub(super) windows: Staging,
    /// Messages to and from other nodes, as they are sent.
    pub(super) parcels: Staging,
}

impl Between {
    /// Collective over all ranks of the file.
    pub(crate) fn new(core: &Core, domains: &Domains) -> Result<Self> {
        let node = core.talk("buffers", core.comm.split_by_node())?;
        let (seats, size) = (seats(core, domains), domains.buffer() as usize);
        let windows = core.talk("buffers", Staging::new(&core.comm, WINDOWS, seats, size))?;
        let room = domains.room() as usize;
        let parcels = core.talk("buffers", Staging::new(&core.comm, BUFFERS, 1, room))?;
        Ok(Self { node, windows, parcels })
    }

    /// Whether it serves a plan: the same answer on all ranks.
    pub(crate) fn fits(&self, core: &Core, domains: &Domains) -> bool {
        let room = domains.room() as usize;
        self.windows.fits(seats(core, domains), domains.buffer() as usize) && self.parcels.fits(1, room)
    }

    /// How many ranks the node has.
    pub(super) fn size(&self) -> usize {
        self.node.size()
    }

    /// The place of a rank in its node.
    pub(super) fn place_of(core: &Core, rank: usize) -> Option<usize> {
        core.comm.ranks_of_node(core.comm.node_of(rank)).binary_search(&rank).ok()
    }

    /// Gives each rank of the node its words; what each of them gave this one.
    pub(super) fn trade(&self, core: &Core, messages: &[Vec<u64>]) -> Result<Vec<Vec<u64>>> {
        core.talk("plan", self.node.all_to_all_varied::<u64, _>(messages))
    }

    /// The words of all ranks of the node.
    pub(super) fn gather(&self, core: &Core, words: &[u64]) -> Result<Vec<Vec<u64>>> {
        core.talk("plan", self.node.allgather_varied(words))
    }
}

/// The most aggregators that any node has.
fn seats(core: &Core, domains: &Domains) -> usize {
    let mut counts = vec![0; core.comm.node_count()];
    for rank in domains.aggregators() {
        counts[core.comm.node_of(*rank)] += 1;
    }
    counts.into_iter().max().unwrap_or(1)
}
