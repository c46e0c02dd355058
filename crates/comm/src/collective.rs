//! Collective calls on bytes: inside a node through shared memory, between nodes by messages between the node leaders.
//!
//! Every algorithm has three phases: gather in the node, exchange between leaders in a logarithmic number of steps, distribute in the
//! node. With one node there is no exchange; with one rank per node there is only the exchange.

mod all_to_all;
pub(crate) mod all_to_all_arrays;
mod allgather;
mod allocate_block;
mod block_share;
mod broadcast;
mod gather;
mod packed_list;
mod reduce;
pub(crate) mod reduce_op;
mod scan;
mod scatter;
mod sparse_exchange;
mod typed;

pub(crate) use reduce::ReduceTarget;

use std::sync::{MutexGuard, OnceLock, PoisonError};

use aqueduct_report::{Report, ReportSource};

use crate::collective_id::{CollectiveId, CollectiveKind};
use crate::comm::CommInner;
use crate::matching::mailbox::MatchKey;
use crate::matching::packet::{PacketBody, PacketHeader, Plain};
use crate::node::node_exchange::NodeExchange;
use crate::topology::Topology;
use crate::{Error, Kind, Result};

/// The tag of the messages of the last collective call.
const LAST_TAG: u32 = u32::MAX;

/// One collective call in progress on one rank.
pub(crate) struct CollectiveCall<'a> {
    inner: &'a CommInner,
    id: CollectiveId,
    tag: u32,
    /// The last call of the program: ranks that have departed still take part in it.
    last: bool,
    _guard: MutexGuard<'a, ()>,
}

impl<'a> CollectiveCall<'a> {
    /// Begins `call`. Checks, in debug builds or with `AQUEDUCT_CHECK=1`, that all ranks make the same call. Inside a node this is
    /// always checked.
    pub(crate) fn begin(inner: &'a CommInner, call: CollectiveId) -> Result<Self> {
        let guard = inner.collective_lock.lock().unwrap_or_else(PoisonError::into_inner);
        // If calls are not compared, ranks may reach the end after different numbers of calls: the last call has a fixed tag.
        let tag = if call.is_last() && !checking() { LAST_TAG } else { inner.next_call() };
        let mut this = Self { inner, id: call, tag, last: call.is_last(), _guard: guard };
        if inner.topology.node_count() > 1 && checking() {
            this.id = CollectiveId::comparison();
            let calls = this.allgather_varied(&call.encode())?;
            for (rank, theirs) in calls.iter().enumerate() {
                let theirs = theirs.first_chunk().map(CollectiveId::decode);
                call.check(inner.rank, rank, theirs.unwrap_or(CollectiveId::comparison()))?;
            }
            (this.id, this.tag) = (call, inner.next_call());
        }
        Ok(this)
    }

    /// Takes part in a call whose arguments this rank rejects with `error`, so that the other ranks fail instead of waiting for this one.
    /// Returns `error`.
    pub(crate) fn refuse(inner: &'a CommInner, error: Error) -> Error {
        let refused = CollectiveId::new(CollectiveKind::Refused);
        // An error here only means that the other ranks made a valid call.
        let _ = Self::begin(inner, refused).and_then(|this| this.node_exchange().barrier(refused));
        error
    }

    /// Waits for all ranks.
    pub(crate) fn barrier(&self) -> Result<()> {
        self.node_exchange().barrier(self.id)?;
        if self.topology().node_count() == 1 {
            return Ok(());
        }
        if self.is_leader() {
            let (me, nodes) = (self.node(), self.topology().node_count());
            for distance in powers_below(nodes) {
                self.send_to_node((me + distance) % nodes, Vec::<u8>::new())?;
                self.receive_from_node((me + nodes - distance) % nodes)?;
            }
        }
        self.node_exchange().barrier(self.id)
    }

    fn rank(&self) -> usize {
        self.inner.rank
    }

    fn size(&self) -> usize {
        self.inner.members.len()
    }

    fn topology(&self) -> &Topology {
        &self.inner.topology
    }

    fn node_exchange(&self) -> &NodeExchange {
        &self.inner.node_exchange
    }

    fn node(&self) -> usize {
        self.topology().node_of(self.rank())
    }

    fn is_leader(&self) -> bool {
        self.node_exchange().rank() == 0
    }

    fn send_to_node<T: Plain>(&self, node: usize, values: Vec<T>) -> Result<()> {
        self.send(self.topology().leader(node), values)
    }

    fn receive_from_node(&self, node: usize) -> Result<PacketBody> {
        self.receive(self.topology().leader(node))
    }

    fn send<T: Plain>(&self, to: usize, values: Vec<T>) -> Result<()> {
        let header = PacketHeader {
            context: self.inner.collective_context(),
            source: self.rank() as u32,
            tag: self.tag,
            call: self.id.encode(),
        };
        // The comparison of calls is not counted as traffic.
        if self.id != CollectiveId::comparison() {
            self.inner.traffic.count(size_of_val(&values[..]));
        }
        self.inner.transport.post(self.inner.members[to], header, PacketBody::new(values)).map(|_| ())
    }

    fn receive(&self, from: usize) -> Result<PacketBody> {
        let context = self.inner.collective_context();
        let receive_id = self.inner.transport.mailbox().post(MatchKey {
            context,
            tag: self.tag,
            source: Some(from as u32),
        });
        let sender = [self.inner.members[from]];
        let senders = if self.last { &[][..] } else { &sender };
        let transport = &*self.inner.transport;
        let packet = transport
            .mailbox()
            .wait(transport, self.id.name(), senders, |mailbox| mailbox.take(receive_id))?;
        self.id.check(self.rank(), from, CollectiveId::decode(&packet.header.call))?;
        Ok(packet.body)
    }

    fn size_mismatch(&self, from: usize) -> Error {
        let detail =
            format!("rank {from} sent a message of the wrong size; do all ranks run the same program?");
        Error::new(Kind::Mismatch, self.id.name(), detail).caused_by(from)
    }
}

/// 1, 2, 4 … below `limit`.
fn powers_below(limit: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1usize), |distance| distance.checked_mul(2))
        .take_while(move |distance| *distance < limit)
}

fn checking() -> bool {
    static CHECKING: OnceLock<bool> = OnceLock::new();
    *CHECKING.get_or_init(|| {
        let value = std::env::var_os("AQUEDUCT_CHECK").unwrap_or_default();
        if !["", "0", "1"].iter().any(|known| value == *known) {
            let value = value.display();
            let message =
                format!("AQUEDUCT_CHECK={value} has no effect: it takes 1 to compare collective calls, or 0");
            Report::new(ReportSource::Comm).warn(&message);
        }
        cfg!(debug_assertions) || value == "1"
    })
}
