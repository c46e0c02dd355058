//! What the ranks of a node share for exchanges between nodes: a communicator, the windows of their aggregators, and a buffer for messages
//! to other nodes, all in shared memory.

use aqueduct_comm::Comm;

use super::aggregation_buffers::AggregationBuffers;
use crate::context::FileContext;
use crate::error::Result;
use crate::plan::FileDomains;

/// Buffers of an aggregator: one is filled by its own node, one by messages, one is being written or read.
const WINDOWS: usize = 3;
/// Message buffers: one is filled while the other is sent.
const BUFFERS: usize = 2;

/// One rank's access to them.
#[derive(Clone, Debug)]
pub(crate) struct InterNodeBuffers {
    node: Comm,
    /// The windows of the aggregators of this node.
    pub(super) windows: AggregationBuffers,
    /// Messages to and from other nodes, as they are sent.
    pub(super) messages: AggregationBuffers,
}

impl InterNodeBuffers {
    /// Collective over all ranks of the file.
    pub(crate) fn new(cx: &FileContext, domains: &FileDomains) -> Result<Self> {
        let node = cx.comm_result("buffers", cx.comm.split_by_node())?;
        let (windows, size) = (most_aggregators(cx, domains), domains.buffer() as usize);
        let windows = cx.comm_result("buffers", AggregationBuffers::new(&cx.comm, WINDOWS, windows, size))?;
        let room = domains.message_buffer() as usize;
        let messages = cx.comm_result("buffers", AggregationBuffers::new(&cx.comm, BUFFERS, 1, room))?;
        Ok(Self { node, windows, messages })
    }

    /// True if they are large enough for a plan: the same on all ranks.
    pub(crate) fn fits(&self, cx: &FileContext, domains: &FileDomains) -> bool {
        let room = domains.message_buffer() as usize;
        self.windows.fits(most_aggregators(cx, domains), domains.buffer() as usize)
            && self.messages.fits(1, room)
    }

    /// How many ranks the node has.
    pub(super) fn size(&self) -> usize {
        self.node.size()
    }

    /// The place of a rank in its node.
    pub(super) fn place_in_node(cx: &FileContext, rank: usize) -> Option<usize> {
        cx.comm.ranks_of_node(cx.comm.node_of(rank)).binary_search(&rank).ok()
    }

    /// Sends each rank of the node its words; the words from each of them.
    pub(super) fn all_to_all(&self, cx: &FileContext, messages: &[Vec<u64>]) -> Result<Vec<Vec<u64>>> {
        cx.comm_result("plan", self.node.all_to_all_varied::<u64, _>(messages))
    }

    /// The words of all ranks of the node.
    pub(super) fn gather(&self, cx: &FileContext, words: &[u64]) -> Result<Vec<Vec<u64>>> {
        cx.comm_result("plan", self.node.allgather_varied(words))
    }
}

/// The number of aggregators of the node with the most.
fn most_aggregators(cx: &FileContext, domains: &FileDomains) -> usize {
    let mut counts = vec![0; cx.comm.node_count()];
    for rank in domains.aggregators() {
        counts[cx.comm.node_of(*rank)] += 1;
    }
    counts.into_iter().max().unwrap_or(1)
}
