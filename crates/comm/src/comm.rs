//! The communicator handle of a rank: its rank, its topology and its properties.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::matching::mailbox::Mailbox;
use crate::node::node_exchange::NodeExchange;
use crate::topology::Topology;
use crate::traffic::{Traffic, TrafficCounter};
use crate::transport::Transport;
use crate::transport::background_operation::{BackgroundOperation, is_background_operation};
use crate::{Error, Kind, Result, ThreadLevel};

/// A rank's handle on a *communicator*: a group of ranks that communicate.
///
/// Cheap to clone; clones are the same communicator. Several threads of a rank may use it at once. Their collective calls on one
/// communicator are serialised in an order that can differ between ranks: a thread that makes collective calls needs its own
/// [`dup`](Comm::dup).
///
/// # Guarantees
/// * All ranks must make the same collective calls in the same order. Inside a node a mismatch is always an error that names both
///   calls; between nodes in debug builds or with `AQUEDUCT_CHECK=1`.
/// * Messages from one rank with one tag arrive in the order they were sent.
/// * If a rank fails (panics, or its program returns an error) no other rank waits forever: thread ranks get an error of kind
///   [`RankFailed`](Kind::RankFailed) that names it; an MPI job is aborted with its message.
/// * Waiting ranks block; they do not spin for long.
#[derive(Clone)]
pub struct Comm {
    pub(crate) inner: Arc<CommInner>,
}

pub(crate) struct CommInner {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) context: u64,
    pub(crate) rank: usize,
    /// The world rank of each rank.
    pub(crate) members: Arc<[usize]>,
    /// The node of each world rank.
    pub(crate) world_nodes: Arc<[u32]>,
    pub(crate) topology: Topology,
    pub(crate) node_exchange: NodeExchange,
    /// Numbers the collective calls: the tag of their messages.
    pub(crate) next_collective: AtomicU32,
    /// Numbers the operations made of point-to-point messages: their tag.
    pub(crate) next_operation: AtomicU32,
    pub(crate) children: AtomicU32,
    /// Numbers the communicators of this rank alone.
    pub(crate) self_comms: AtomicU32,
    /// Held during each collective call, to serialise the calls of several threads of a rank.
    pub(crate) collective_lock: Mutex<()>,
    pub(crate) traffic: TrafficCounter,
    /// Idle communicators of the [pool](crate::PooledComm), with the memory attached to them.
    pub(crate) cached_values: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Comm")
            .field("rank", &self.rank())
            .field("size", &self.size())
            .field("nodes", &self.node_count())
            .finish_non_exhaustive()
    }
}

impl Comm {
    /// The lowest tag of [`next_operation_tag`](Comm::next_operation_tag); messages of programs should have lower ones.
    pub const FIRST_OPERATION_TAG: u32 = 0xffff_0000;

    /// A tag for a collective operation that is made of point-to-point messages: all ranks begin such operations in the same order and so get the same tag.
    /// Local. The tags are used again after 65536 operations.
    pub fn next_operation_tag(&self) -> u32 {
        Self::FIRST_OPERATION_TAG | self.inner.next_operation.fetch_add(1, Ordering::Relaxed) & 0xffff
    }

    /// This rank, from 0 up.
    pub fn rank(&self) -> usize {
        self.inner.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.inner.members.len()
    }

    /// This rank in the world: the number it has in the communicator that [`run`](crate::run) gives to the program.
    pub fn world_rank(&self) -> usize {
        self.inner.members[self.inner.rank]
    }

    /// The rank in the world of a rank of this communicator.
    ///
    /// # Panics
    /// If the rank does not exist.
    pub fn world_rank_of(&self, rank: usize) -> usize {
        self.inner.members[rank]
    }

    /// The number of ranks in the world.
    pub fn world_size(&self) -> usize {
        self.inner.world_nodes.len()
    }

    /// The number of nodes (groups of ranks that share memory).
    pub fn node_count(&self) -> usize {
        self.inner.topology.node_count()
    }

    /// The node of `rank`; nodes are numbered in the order of their lowest ranks.
    ///
    /// # Panics
    /// If the rank does not exist.
    pub fn node_of(&self, rank: usize) -> usize {
        self.inner.topology.node_of(rank)
    }

    /// The ranks of a node, ascending; the first one is its leader.
    ///
    /// # Panics
    /// If the node does not exist.
    pub fn ranks_of_node(&self, node: usize) -> &[usize] {
        &self.inner.topology.nodes()[node]
    }

    /// The identity of this communicator: the same on all its ranks, different from that of other communicators, never 0.
    pub fn context_id(&self) -> u64 {
        self.inner.collective_context()
    }

    /// Process-wide id of this thread-rank, the same for all its communicators; 0 for MPI processes.
    pub fn thread_id(&self) -> u64 {
        self.inner.transport.thread_id()
    }

    /// Keeps a value with this communicator, on this rank only, unless it has `most` values of this type.
    pub(crate) fn cache_put<T: Any + Send>(&self, value: T, most: usize) {
        let mut cached = self.inner.cached_values.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.iter().filter(|value| value.is::<T>()).count() < most {
            cached.push(Box::new(value));
        }
    }

    /// Takes the value of this type that was cached last.
    pub(crate) fn cache_take<T: Any + Send>(&self) -> Option<T> {
        let mut cached = self.inner.cached_values.lock().unwrap_or_else(PoisonError::into_inner);
        let at = cached.iter().rposition(|value| value.is::<T>())?;
        cached.remove(at).downcast().ok().map(|value| *value)
    }

    /// Records that a coming failure of this rank is a consequence of another rank's failure, of rank `of` of this communicator if that is
    /// known. [`run`](crate::run) then reports the error of the other rank.
    pub fn mark_induced_failure(&self, of: Option<usize>) {
        self.inner.transport.mark_induced_failure(of.and_then(|rank| self.inner.members.get(rank).copied()));
    }

    /// Reports a failure that no call can return, for example in a destructor: [`run`](crate::run) returns the first one of a rank as its
    /// error if the program itself succeeds. It has no effect in programs that started MPI themselves.
    pub fn report_failure(&self, message: impl Into<String>) {
        self.inner.transport.run_end().report_failure(message.into());
    }

    /// Defers work to the end of [`run`](crate::run), for example a wait for slower ranks in a destructor: after the program of this rank has
    /// returned, before the last barrier. It is called with `true` if the program succeeded, and may then wait for other ranks. It is called
    /// with `false` if the program failed, and immediately in a program that `run` did not start: then it must not wait for other ranks.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// static SUCCEEDED: AtomicBool = AtomicBool::new(false);
    /// aqueduct_comm::Launch::threads(1).run(|world| {
    ///     world.defer_to_end(|succeeded| SUCCEEDED.store(succeeded, Ordering::Relaxed));
    ///     assert!(!SUCCEEDED.load(Ordering::Relaxed));
    ///     Ok::<_, aqueduct_comm::Error>(())
    /// })?;
    /// assert!(SUCCEEDED.load(Ordering::Relaxed));
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn defer_to_end(&self, work: impl FnOnce(bool) + Send + 'static) {
        self.inner.transport.run_end().defer(Box::new(work));
    }

    /// The messages that this rank has sent through this communicator so far.
    pub fn traffic(&self) -> Traffic {
        self.inner.traffic.read()
    }

    /// A description of the transport, such as "threads of one process" or "Open MPI v4.1.4".
    pub fn transport(&self) -> String {
        self.inner.transport.describe()
    }

    /// True if all ranks are threads of one process.
    pub fn is_one_process(&self) -> bool {
        self.inner.transport.shares_addresses()
    }

    /// The thread level that MPI granted; none if ranks are threads.
    pub fn thread_level(&self) -> Option<ThreadLevel> {
        self.inner.transport.thread_level()
    }

    /// True if a background thread of a rank can make collective calls on this communicator while the rank does something else: all ranks
    /// share memory, or MPI lets any thread send.
    pub fn allows_background_collectives(&self) -> bool {
        self.node_count() == 1 || self.inner.transport.threads_may_send()
    }

    /// Announces an operation on this communicator that a background thread will perform and whose packets the threads of the program
    /// transfer. An error on a thread that may not call MPI: no thread would transfer the packets while it waits.
    pub fn background_operation(&self) -> Result<BackgroundOperation> {
        BackgroundOperation::announce(&self.inner.transport)
    }

    /// In a [background operation](BackgroundOperation), waits until everything it has sent has been passed to MPI; otherwise no effect.
    pub fn flush_background(&self) -> Result<()> {
        if is_background_operation() { self.inner.transport.flush_call_queue() } else { Ok(()) }
    }

    /// The error for a rank outside this communicator.
    pub(crate) fn check_rank(&self, rank: usize, call: &'static str) -> Result<()> {
        if rank < self.size() {
            return Ok(());
        }
        let detail =
            format!("rank {rank} does not exist; this communicator has ranks 0 to {}", self.size() - 1);
        Err(Error::new(Kind::InvalidArgument, call, detail))
    }
}

impl CommInner {
    pub(crate) fn next_call(&self) -> u32 {
        self.next_collective.fetch_add(1, Ordering::Relaxed)
    }

    /// The context of point-to-point messages.
    pub(crate) fn message_context(&self) -> u64 {
        self.context
    }

    /// The context of messages of collective calls.
    pub(crate) fn collective_context(&self) -> u64 {
        self.context | 1
    }

    /// Waits until `ready` finds a message from `from` (none: from any other rank).
    pub(crate) fn wait<T>(
        &self,
        call: &'static str,
        from: Option<usize>,
        ready: impl FnMut(&Mailbox) -> Option<T>,
    ) -> Result<T> {
        self.transport.mailbox().wait(&*self.transport, call, &self.senders(from), ready)
    }

    /// The world ranks that can send a message from `from` (none: any other rank).
    pub(crate) fn senders(&self, from: Option<usize>) -> Vec<usize> {
        let others = |rank: &usize| from.map_or(*rank != self.rank, |from| *rank == from);
        (0..self.members.len()).filter(others).map(|rank| self.members[rank]).collect()
    }
}
