//! Communicator constructors: the world of a transport, `dup`, `split`, and groups of ranks (MPI standard, "Communicator Constructors").

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use aqueduct_report::{Report, ReportSource};

use crate::collective::CollectiveCall;
use crate::collective_id::{CollectiveId, CollectiveKind};
use crate::comm::CommInner;
use crate::node::node_exchange::NodeExchange;
use crate::topology::Topology;
use crate::traffic::TrafficCounter;
use crate::transport::Transport;
use crate::{Comm, Error, Kind, Result};

impl Comm {
    /// Another communicator of the same ranks with separate messages and collective calls. Collective.
    #[doc(alias = "MPI_Comm_dup")]
    pub fn dup(&self) -> Result<Self> {
        let all: Vec<usize> = (0..self.size()).collect();
        self.inner.child(&all, 0).map(|child| child.expect("this rank is one of all"))
    }

    /// Splits the ranks by `colour`, ordered by `key`, then by rank; a rank with `None` gets no communicator. Collective.
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

    /// A communicator of this rank only. Not collective.
    #[doc(alias = "MPI_COMM_SELF")]
    #[must_use]
    pub fn comm_self(&self) -> Self {
        let inner = &self.inner;
        // The context differs from those of communicators of several ranks by a child number that they do not use.
        let number = inner.self_comms.fetch_add(1, Ordering::Relaxed);
        let alone = CommInner {
            transport: Arc::clone(&inner.transport),
            context: child_context(child_context(inner.context, u64::MAX), u64::from(number)),
            rank: 0,
            members: Arc::from([inner.members[inner.rank]]),
            world_nodes: Arc::clone(&inner.world_nodes),
            topology: Topology::new([0]),
            node_exchange: NodeExchange::single_rank(0, Arc::<dyn Transport>::clone(&inner.transport)),
            next_collective: AtomicU32::new(0),
            next_operation: AtomicU32::new(0),
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
}

impl CommInner {
    /// The world of a transport: all its ranks, grouped by machine (and by `node_ranks` consecutive ranks).
    pub(crate) fn world(transport: &Arc<dyn Transport>, node_ranks: Option<usize>) -> Result<Comm> {
        let size = transport.size();
        let apart = Self::without_topology(Arc::clone(transport));
        let group = node_ranks.map_or(0, |ranks| transport.rank() / ranks.max(1));
        let mine = [transport.machine(), group as u64];
        let mut machines = vec![[0u64; 2]; size];
        let call = CollectiveCall::begin(&apart, CollectiveId::new(CollectiveKind::Split))?;
        call.allgather_into(bytemuck::bytes_of(&mine), bytemuck::cast_slice_mut(&mut machines))?;
        drop(call);
        let nodes = Topology::new(machines);
        let world_nodes: Arc<[u32]> = (0..size).map(|rank| nodes.node_of(rank) as u32).collect();
        let together = Self { world_nodes, ..apart };
        let all: Vec<usize> = (0..size).collect();
        match together.child(&all, 0) {
            Ok(world) => Ok(world.expect("this rank is one of all")),
            // All ranks get the same error of this kind: without shared memory each rank is its own node.
            Err(error) if error.kind() == Kind::System => {
                if transport.rank() == 0 {
                    let message = format!("ranks cannot share memory and send messages instead: {error}");
                    Report::new(ReportSource::Comm).warn(&message);
                }
                let apart = Self { world_nodes: (0..size as u32).collect(), ..together };
                Ok(apart.child(&all, 1)?.expect("this rank is one of all"))
            }
            Err(error) => Err(error),
        }
    }

    /// The ranks before their topology is known: each one is its own node.
    fn without_topology(transport: Arc<dyn Transport>) -> Self {
        let (rank, size) = (transport.rank(), transport.size());
        Self {
            node_exchange: NodeExchange::single_rank(rank, Arc::<dyn Transport>::clone(&transport)),
            transport,
            context: 2,
            rank,
            members: (0..size).collect(),
            world_nodes: (0..size as u32).collect(),
            topology: Topology::new(0..size),
            next_collective: AtomicU32::new(0),
            next_operation: AtomicU32::new(0),
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
        let call = CollectiveCall::begin(self, CollectiveId::new(CollectiveKind::Split).detail(1))?;
        let block = call.allocate_block(leader, len, |block| self.transport.register_barrier(block))?;
        // After the collective call: the numbers stay the same on all ranks if the call fails on some.
        let number = self.children.fetch_add(1, Ordering::Relaxed);
        let Some(rank) = rank else { return Ok(None) };
        let transport = Arc::clone(&self.transport);
        let node_exchange = match block {
            Some(block) => {
                NodeExchange::join(block, topology.local_rank(rank), neighbours.to_vec(), transport)?
            }
            None => NodeExchange::single_rank(rank, transport),
        };
        let inner = Self {
            transport: Arc::clone(&self.transport),
            context: child_context(self.context, u64::from(number) << 32 | u64::from(colour)),
            rank,
            members,
            world_nodes: Arc::clone(&self.world_nodes),
            topology,
            node_exchange,
            next_collective: AtomicU32::new(0),
            next_operation: AtomicU32::new(0),
            children: AtomicU32::new(0),
            self_comms: AtomicU32::new(0),
            collective_lock: Mutex::new(()),
            traffic: TrafficCounter::default(),
            cached_values: Mutex::default(),
        };
        Ok(Some(Comm { inner: Arc::new(inner) }))
    }
}

/// An even context for a child communicator, the same on all its ranks, different for others (splitmix64).
fn child_context(context: u64, child: u64) -> u64 {
    let mut z = context.rotate_left(17) ^ child.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) & !1
}
