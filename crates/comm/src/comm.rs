//! The handle every rank holds: who it is, and how it makes smaller worlds out of this one.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::collective::CollectiveCall;
use crate::collective_id::{CollectiveId, CollectiveKind};
use crate::mailbox::Mailbox;
use crate::node_exchange::NodeExchange;
use crate::topology::Topology;
use crate::traffic::{Traffic, TrafficCounter};
use crate::transport::Transport;
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
    context: u64,
    pub(crate) rank: usize,
    /// The world rank of each rank.
    pub(crate) members: Arc<[usize]>,
    /// The node of each world rank.
    world_nodes: Arc<[u32]>,
    pub(crate) topology: Topology,
    pub(crate) node_exchange: NodeExchange,
    /// Numbers the collective calls: the tag of their messages.
    next_collective: AtomicU32,
    children: AtomicU32,
    /// Numbers the communicators of this rank alone.
    self_comms: AtomicU32,
    /// Held through each collective call: those of several threads of a rank follow one another.
    pub(crate) collective_lock: Mutex<()>,
    pub(crate) traffic: TrafficCounter,
    /// What the layers above keep beside the communicator.
    cached_values: Mutex<Vec<Box<dyn Any + Send>>>,
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

    /// Another communicator of the same ranks, whose messages and collective calls never meet those of this one. Collective.
    #[doc(alias = "MPI_Comm_dup")]
    pub fn dup(&self) -> Result<Self> {
        let all: Vec<usize> = (0..self.size()).collect();
        self.inner.child(&all, 0).map(|child| child.expect("this rank is one of all"))
    }

    /// Splits the ranks by `colour`, ordered by `key`, then by rank; `None` takes no part and gets none. Collective.
    #[doc(alias = "MPI_Comm_split")]
    pub fn split(&self, colour: Option<u32>, key: i64) -> Result<Option<Self>> {
        let mine = [colour.map_or(-1, i64::from), key];
        let mut all = vec![[0i64; 2]; self.size()];
        let split = CollectiveCall::begin(&self.inner, CollectiveId::new(CollectiveKind::Split))?;
        split.allgather_into(bytemuck::bytes_of(&mine), bytemuck::cast_slice_mut(&mut all))?;
        drop(split);
        let mut group: Vec<usize> = Vec::new();
        if colour.is_some() {
            group = (0..self.size()).filter(|rank| all[*rank][0] == mine[0]).collect();
        }
        group.sort_by_key(|rank| (all[*rank][1], *rank));
        self.inner.child(&group, colour.unwrap_or(u32::MAX))
    }

    /// A communicator of this rank alone, for calls that want one and talk to nobody. Not collective.
    #[doc(alias = "MPI_COMM_SELF")]
    #[must_use]
    pub fn comm_self(&self) -> Self {
        let inner = &self.inner;
        // What a rank tells itself is told apart from the talk of groups of ranks by a number that none of them has.
        let number = inner.self_comms.fetch_add(1, Ordering::Relaxed);
        let alone = CommInner {
            transport: Arc::clone(&inner.transport),
            context: child_context(child_context(inner.context, u64::MAX), u64::from(number)),
            rank: 0,
            members: Arc::from([inner.members[inner.rank]]),
            world_nodes: Arc::clone(&inner.world_nodes),
            topology: Topology::new([0]),
            node_exchange: NodeExchange::single_rank(0, Arc::clone(&inner.transport)),
            next_collective: AtomicU32::new(0),
            children: AtomicU32::new(0),
            self_comms: AtomicU32::new(0),
            collective_lock: Mutex::new(()),
            traffic: TrafficCounter::default(),
            cached_values: Mutex::default(),
        };
        Self { inner: Arc::new(alone) }
    }

    /// One communicator per node. Collective.
    #[doc(alias = "MPI_Comm_split_type")]
    pub fn split_by_node(&self) -> Result<Self> {
        let node = self.node_of(self.rank()) as u32;
        Ok(self.split(Some(node), 0)?.expect("every rank has a node"))
    }

    /// A communicator of the given ranks, in that order; the others get none. Collective over all ranks of this one, with the
    /// same list on each.
    #[doc(alias = "MPI_Comm_create")]
    pub fn subgroup(&self, ranks: &[usize]) -> Result<Option<Self>> {
        let mut seen = vec![false; self.size()];
        let wrong =
            ranks.iter().find(|rank| seen.get_mut(**rank).is_none_or(|seen| std::mem::replace(seen, true)));
        if let Some(rank) = wrong {
            let detail = format!(
                "rank {rank} is listed twice or does not exist; there are ranks 0 to {}",
                self.size() - 1
            );
            return self.check_or_refuse(Err(Error::new(Kind::InvalidArgument, "subgroup", detail)));
        }
        let place = ranks.iter().position(|rank| *rank == self.rank());
        self.split(place.map(|_| 0), place.unwrap_or(0) as i64)
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
    /// The world of a transport: all its ranks, grouped by the machine they share (or by `node_ranks` at a time).
    pub(crate) fn world(wire: &Arc<dyn Transport>, node_ranks: Option<usize>) -> Result<Comm> {
        let size = wire.size();
        let apart = Self::without_topology(Arc::clone(wire));
        let group = node_ranks.map_or(0, |ranks| wire.rank() / ranks.max(1));
        let mine = [wire.machine(), group as u64];
        let mut machines = vec![[0u64; 2]; size];
        let meeting = CollectiveCall::begin(&apart, CollectiveId::new(CollectiveKind::Split))?;
        meeting.allgather_into(bytemuck::bytes_of(&mine), bytemuck::cast_slice_mut(&mut machines))?;
        drop(meeting);
        let nodes = Topology::new(machines);
        let world_nodes: Arc<[u32]> = (0..size).map(|rank| nodes.node_of(rank) as u32).collect();
        let together = Self { world_nodes, ..apart };
        let all: Vec<usize> = (0..size).collect();
        match together.child(&all, 0) {
            Ok(world) => Ok(world.expect("this rank is one of all")),
            // All ranks see the same error of this kind: without shared memory each rank is a node of its own.
            Err(error) if error.kind() == Kind::System => {
                if wire.rank() == 0 {
                    let line = format!(
                        "aqueduct: ranks cannot share memory and will send messages instead: {error}\n"
                    );
                    eprint!("{line}");
                }
                let apart = Self { world_nodes: (0..size as u32).collect(), ..together };
                Ok(apart.child(&all, 1)?.expect("this rank is one of all"))
            }
            Err(error) => Err(error),
        }
    }

    /// The ranks before they know who is near: each one a node of its own.
    fn without_topology(wire: Arc<dyn Transport>) -> Self {
        let (rank, size) = (wire.rank(), wire.size());
        Self {
            node_exchange: NodeExchange::single_rank(rank, Arc::clone(&wire)),
            transport: wire,
            context: 2,
            rank,
            members: (0..size).collect(),
            world_nodes: (0..size as u32).collect(),
            topology: Topology::new(0..size),
            next_collective: AtomicU32::new(0),
            children: AtomicU32::new(0),
            self_comms: AtomicU32::new(0),
            collective_lock: Mutex::new(()),
            traffic: TrafficCounter::default(),
            cached_values: Mutex::default(),
        }
    }

    /// A communicator of the `group` of this one's ranks. Collective over all ranks of this one; a group is known to its members.
    fn child(&self, group: &[usize], colour: u32) -> Result<Option<Comm>> {
        let members: Arc<[usize]> = group.iter().map(|rank| self.members[*rank]).collect();
        let topology = Topology::new(members.iter().map(|world| self.world_nodes[*world]));
        let rank = group.iter().position(|rank| *rank == self.rank);
        let neighbours = rank.map_or(&[][..], |rank| topology.neighbours(rank));
        let leader = neighbours.first().filter(|_| neighbours.len() > 1).map(|leader| group[*leader]);
        let len = NodeExchange::block_len(neighbours.len(), &*self.transport);
        let meeting = CollectiveCall::begin(self, CollectiveId::new(CollectiveKind::Split).detail(1))?;
        let block = meeting.allocate_block(leader, len, |block| self.transport.register_barrier(block))?;
        // Only now: ranks must count alike, also when some of them were in another call and none got a child.
        let number = self.children.fetch_add(1, Ordering::Relaxed);
        let Some(rank) = rank else { return Ok(None) };
        let wire = Arc::clone(&self.transport);
        let hub = match block {
            Some(block) => NodeExchange::join(block, topology.local_rank(rank), neighbours.to_vec(), wire)?,
            None => NodeExchange::single_rank(rank, wire),
        };
        let inner = Self {
            transport: Arc::clone(&self.transport),
            context: child_context(self.context, u64::from(number) << 32 | u64::from(colour)),
            rank,
            members,
            world_nodes: Arc::clone(&self.world_nodes),
            topology,
            node_exchange: hub,
            next_collective: AtomicU32::new(0),
            children: AtomicU32::new(0),
            self_comms: AtomicU32::new(0),
            collective_lock: Mutex::new(()),
            traffic: TrafficCounter::default(),
            cached_values: Mutex::default(),
        };
        Ok(Some(Comm { inner: Arc::new(inner) }))
    }

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

/// A new even number for a child communicator, the same on all its ranks, different for all others (splitmix64).
fn child_context(context: u64, child: u64) -> u64 {
    let mut z = context.rotate_left(17) ^ child.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) & !1
}
