//! Collective calls on bytes: inside a node through its hub, between nodes by messages among the node leaders.
//!
//! Every algorithm has the same shape: gather in the node, exchange among leaders in a logarithmic number of steps, spread in the
//! node. With one node the middle part vanishes; with one rank per node the outer parts do.

mod all_to_all;
mod allgather;
mod broadcast;
mod common_block;
mod gather;
mod list;
mod reduce;
mod route;
mod scan;
mod scatter;

pub(crate) use reduce::Target;

use std::sync::{MutexGuard, OnceLock, PoisonError};

use crate::call::{Call, Verb};
use crate::comm::Inner;
use crate::hub::Hub;
use crate::mailbox::Pattern;
use crate::packet::{Body, Header, Plain};
use crate::topology::Topology;
use crate::{Error, Kind, Result};

/// The tag of the messages that end the program.
const LAST_TAG: u32 = u32::MAX;

/// One collective call in progress on one rank.
pub(crate) struct Collective<'a> {
    inner: &'a Inner,
    call: Call,
    tag: u32,
    /// The end of the program: ranks that have left it still come to this one.
    last: bool,
    _turn: MutexGuard<'a, ()>,
}

impl<'a> Collective<'a> {
    /// Begins `call`, after making sure, in debug builds or when `AQUEDUCT_CHECK=1`, that all ranks make the same one. Inside a node
    /// that is checked always.
    pub(crate) fn begin(inner: &'a Inner, call: Call) -> Result<Self> {
        let turn = inner.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Where calls are not compared, a rank may come to the end having made fewer of them than others: they meet all the same.
        let tag = if call.is_last() && !checking() { LAST_TAG } else { inner.next_call() };
        let mut this = Self { inner, call, tag, last: call.is_last(), _turn: turn };
        if inner.topology.count() > 1 && checking() {
            this.call = Call::agree();
            let calls = this.allgather_varied(&call.encode())?;
            for (rank, theirs) in calls.iter().enumerate() {
                let theirs = theirs.first_chunk().map(Call::decode);
                call.check(inner.rank, rank, theirs.unwrap_or(Call::agree()))?;
            }
            (this.call, this.tag) = (call, inner.next_call());
        }
        Ok(this)
    }

    /// Takes part in a call whose arguments this rank refuses with `error`: the others learn it now, instead of waiting for a rank that
    /// may be waiting for them by then. What this rank returns is its own error.
    pub(crate) fn refuse(inner: &'a Inner, error: Error) -> Error {
        let refused = Call::new(Verb::Refused);
        // An error here only says that the others made a real call.
        let _ = Self::begin(inner, refused).and_then(|this| this.hub().barrier(refused));
        error
    }

    /// Waits for all ranks.
    pub(crate) fn barrier(&self) -> Result<()> {
        self.hub().barrier(self.call)?;
        if self.topology().count() == 1 {
            return Ok(());
        }
        if self.leads() {
            let (me, nodes) = (self.node(), self.topology().count());
            for distance in powers_below(nodes) {
                self.send_to_node((me + distance) % nodes, Vec::<u8>::new())?;
                self.receive_from_node((me + nodes - distance) % nodes)?;
            }
        }
        self.hub().barrier(self.call)
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

    fn hub(&self) -> &Hub {
        &self.inner.hub
    }

    fn node(&self) -> usize {
        self.topology().node_of(self.rank())
    }

    fn leads(&self) -> bool {
        self.hub().rank() == 0
    }

    fn send_to_node<T: Plain>(&self, node: usize, values: Vec<T>) -> Result<()> {
        self.send(self.topology().leader(node), values)
    }

    fn receive_from_node(&self, node: usize) -> Result<Body> {
        self.receive(self.topology().leader(node))
    }

    fn send<T: Plain>(&self, to: usize, values: Vec<T>) -> Result<()> {
        let header = Header {
            context: self.inner.collective_context(),
            source: self.rank() as u32,
            tag: self.tag,
            call: self.call.encode(),
        };
        // That calls are compared is no part of them.
        if self.call != Call::agree() {
            self.inner.meter.count(size_of_val(&values[..]));
        }
        self.inner.wire.post(self.inner.members[to], header, Body::new(values)).map(|_| ())
    }

    fn receive(&self, from: usize) -> Result<Body> {
        let context = self.inner.collective_context();
        let ticket =
            self.inner.wire.mailbox().post(Pattern { context, tag: self.tag, source: Some(from as u32) });
        let sender = [self.inner.members[from]];
        let senders = if self.last { &[][..] } else { &sender };
        let wire = &*self.inner.wire;
        let packet = wire.mailbox().wait(wire, self.call.name(), senders, |mailbox| mailbox.take(ticket))?;
        self.call.check(self.rank(), from, Call::decode(&packet.header.call))?;
        Ok(packet.body)
    }

    fn broken(&self, from: usize) -> Error {
        let detail =
            format!("rank {from} sent a message of the wrong size; do all ranks run the same program?");
        Error::new(Kind::Mismatch, self.call.name(), detail).caused_by(from)
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
            eprintln!(
                "aqueduct: AQUEDUCT_CHECK={value} has no effect: it takes 1 to compare collective calls, or 0"
            );
        }
        cfg!(debug_assertions) || value == "1"
    })
}
