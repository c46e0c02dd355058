//! The handle every rank holds: who it is, and how it makes smaller worlds out of this one.

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

/// A rank's handle on a group of ranks that talk to each other: a *communicator*.
///
/// Cheap to clone; clones are the same communicator. It may be used from several threads of a rank at once. Their collective calls
/// on one communicator follow one another in an order that other ranks need not share: a thread that wants its own takes a
/// [`dup`](Comm::dup).
///
/// # What it promises
/// * Collective calls are made by all ranks in the same order. Inside a node a mismatch is always noticed and named; between nodes
///   in debug builds or with `AQUEDUCT_CHECK=1`.
/// * Messages from one rank with one tag arrive in the order they were sent.
/// * When a rank fails (panics, or its program returns an error) no other waits for ever: thread ranks get an error of kind
///   [`RankFailed`](Kind::RankFailed) that names it, an MPI job ends with its message.
/// * Waiting ranks sleep.
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
    pub(crate) children: AtomicU32,
    /// Numbers the communicators of this rank alone.
    pub(crate) self_comms: AtomicU32,
    /// Held through each collective call: those of several threads of a rank follow one another.
    pub(crate) collective_lock: Mutex<()>,
    pub(crate) traffic: TrafficCounter,
    /// What the layers above keep beside the communicator.
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
    /// This rank, from 0 up.
    pub fn rank(&self) -> usize {
        self.inner.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.inner.members.len()
    }

    /// How many nodes (groups of ranks that share memory) the ranks are spread over.
    pub fn node_count(&self) -> usize {
        self.inner.topology.node_count()
    }

    /// The number of the node that `rank` is on; nodes are numbered by their lowest rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn node_of(&self, rank: usize) -> usize {
        self.inner.topology.node_of(rank)
    }

    /// The ranks of a node, ascending; the first of them leads it.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn ranks_of_node(&self, node: usize) -> &[usize] {
        &self.inner.topology.nodes()[node]
    }

    /// Tells this communicator from all others that the ranks have made: the same on all its ranks, and never 0.
    pub fn context_id(&self) -> u64 {
        self.inner.collective_context()
    }

    /// Tells this rank from all others that are threads of this process, whichever of its communicators is asked; 0 for a process that is a rank.
    pub fn thread_id(&self) -> u64 {
        self.inner.transport.thread_id()
    }

    /// Keeps a value beside this communicator, on this rank alone, unless `most` of its type are there already.
    #[doc(alias = "MPI_Comm_set_attr")]
    pub fn cache_put<T: Any + Send>(&self, value: T, most: usize) {
        let mut stowed = self.inner.cached_values.lock().unwrap_or_else(PoisonError::into_inner);
        if stowed.iter().filter(|value| value.is::<T>()).count() < most {
            stowed.push(Box::new(value));
        }
    }

    /// Takes the value of this type that was stowed last.
    #[doc(alias = "MPI_Comm_get_attr")]
    pub fn cache_take<T: Any + Send>(&self) -> Option<T> {
        let mut stowed = self.inner.cached_values.lock().unwrap_or_else(PoisonError::into_inner);
        let at = stowed.iter().rposition(|value| value.is::<T>())?;
        stowed.remove(at).downcast().ok().map(|value| *value)
    }

    /// This rank has learned that another one has failed, by what others said rather than by a call that never ends: if it fails now, too,
    /// [`run`](crate::run) looks for the reason elsewhere first; with rank `of` of this communicator, if that is known.
    pub fn mark_induced_failure(&self, of: Option<usize>) {
        self.inner.transport.mark_induced_failure(of.and_then(|rank| self.inner.members.get(rank).copied()));
    }

    /// Reports a failure that no call can return any more, such as one that a destructor learns of: [`run`](crate::run) returns the first one of a
    /// rank as its error where the program itself succeeds. Programs that started MPI themselves have nobody to return it.
    pub fn report_failure(&self, message: impl Into<String>) {
        self.inner.transport.run_end().report_failure(message.into());
    }

    /// Leaves work to the end of [`run`](crate::run), such as a wait for slower ranks that a destructor gave up: after the program of this rank has
    /// returned, and before the ranks come to the end together. It is called with `true` if the program succeeded, and may then wait for the
    /// other ranks; with `false` if it failed, and at once in a program that `run` did not start: then it must not wait for any rank.
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

    /// What this rank has sent through this communicator so far.
    pub fn traffic(&self) -> Traffic {
        self.inner.traffic.read()
    }

    /// What carries the messages, for people: "threads of one process", "Open MPI v4.1.4".
    pub fn transport(&self) -> String {
        self.inner.transport.describe()
    }

    /// Whether all ranks are threads of one process: what one has in memory, all have.
    pub fn is_one_process(&self) -> bool {
        self.inner.transport.shares_addresses()
    }

    /// The thread level MPI granted; none where ranks are threads.
    pub fn thread_level(&self) -> Option<ThreadLevel> {
        self.inner.transport.thread_level()
    }

    /// Whether threads of its own can make collective calls on this communicator for a rank, whatever the rank does meanwhile: where
    /// all ranks share memory, or MPI lets any thread send.
    pub fn allows_background_collectives(&self) -> bool {
        self.node_count() == 1 || self.inner.transport.threads_may_send()
    }

    /// Announces an operation on this communicator that a background thread will perform and whose packets the threads of the program
    /// move. An error on a thread that may not call MPI: no thread would move the packets while it waits.
    pub fn background_operation(&self) -> Result<BackgroundOperation> {
        BackgroundOperation::announce(&self.inner.transport)
    }

    /// Waits, in a [background operation](BackgroundOperation), until everything it has sent has been passed to MPI. Elsewhere it does nothing.
    pub fn flush_background(&self) -> Result<()> {
        if is_background_operation() { self.inner.transport.flush_call_queue() } else { Ok(()) }
    }

    /// The error for a rank outside this communicator.
    pub(crate) fn check_rank(&self, rank: usize, call: &'static str) -> Result<()> {
        if rank < self.size() {
            return Ok(());
        }
        let detail = format!("there is no rank {rank}: this communicator has ranks 0 to {}", self.size() - 1);
        Err(Error::new(Kind::InvalidArgument, call, detail))
    }
}

impl CommInner {
    pub(crate) fn next_call(&self) -> u32 {
        self.next_collective.fetch_add(1, Ordering::Relaxed)
    }

    /// Where tagged messages of users travel.
    pub(crate) fn message_context(&self) -> u64 {
        self.context
    }

    /// Where messages of collective calls travel: apart from those of users.
    pub(crate) fn collective_context(&self) -> u64 {
        self.context | 1
    }

    /// Waits, asleep, for something that comes from `from` (none: from any other rank).
    pub(crate) fn wait<T>(
        &self,
        call: &'static str,
        from: Option<usize>,
        ready: impl FnMut(&Mailbox) -> Option<T>,
    ) -> Result<T> {
        self.transport.mailbox().wait(&*self.transport, call, &self.senders(from), ready)
    }

    /// The world ranks that something from `from` (none: from any other rank) can come from.
    pub(crate) fn senders(&self, from: Option<usize>) -> Vec<usize> {
        let others = |rank: &usize| from.map_or(*rank != self.rank, |from| *rank == from);
        (0..self.members.len()).filter(others).map(|rank| self.members[rank]).collect()
    }
}
