//! Groups of ranks in which one writes for all: the others send it their bytes, and only these leaders open the file.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use aqueduct_comm::{Comm, Op};

use super::leader_gather::{LeaderGather, MemberSource, PortionReader};
use super::{AggregationGroup, GatherPlan, MemberShare};
use crate::declare::declaration::Declaration;
use crate::declare::stream_info::StreamRegion;
use crate::error::{Error, Kind, Result, agree};
use crate::target::{BatchEntry, ChunkSource, FailedSource, OutputTarget, StepBatch};
use crate::wire::{decode_message, encode_message};
use crate::write::double_buffer::DoubleBuffer;

/// The largest window of a leader: large beside the cost of a collective call, and small enough that the first part
/// of a large step is written, from the cache, while the next one is gathered.
pub(crate) const PORTION: u64 = 4 << 20;

/// The group of each rank, from the node of each: consecutive ranks of a node, or a fixed number of ranks. Groups are
/// in the order of their ranks, so that points and lists keep that order.
pub(crate) fn groups(nodes: &[usize], size: Option<usize>) -> Vec<u32> {
    let mut groups: Vec<u32> = Vec::with_capacity(nodes.len());
    for (rank, node) in nodes.iter().enumerate() {
        let next = match (size, rank) {
            (_, 0) => 0,
            (Some(size), _) => (rank / size.max(1)) as u32,
            (None, _) => groups[rank - 1] + u32::from(nodes[rank - 1] != *node),
        };
        groups.push(next);
    }
    groups
}

/// The target of a rank of a group.
pub(crate) struct LeaderTarget {
    name: Arc<str>,
    /// This rank's group; rank 0 is the leader.
    group: Comm,
    /// True for streams that are lists.
    lists: Vec<bool>,
    /// The windows of the last batch, for batches with the same layout.
    last: Option<MemberWindows>,
    /// None on ranks that are not leaders.
    lead: Option<LeaderState>,
    /// The leader stores the data of its group here; `None` on the other ranks.
    target: Option<Box<dyn OutputTarget>>,
    /// True if the target of the group is persistent.
    persistent: bool,
    memory_peak: Arc<AtomicU64>,
}

/// The bytes that a member sends to the leader.
#[derive(Clone)]
struct MemberWindows {
    /// For batches of these streams.
    streams: Vec<usize>,
    /// Bytes for each window.
    bytes: Vec<u64>,
}

/// The state of a leader.
struct LeaderState {
    group: AggregationGroup,
    /// Bytes of the largest window.
    capacity: u64,
    plan: Option<GatherPlan>,
    windows: DoubleBuffer,
    apart: Vec<Vec<u8>>,
}

/// The members of a group while a batch is written.
struct GroupMembers<'a> {
    group: &'a Comm,
    name: &'a str,
    /// The leader's own bytes, and how many of them are in each window.
    own: &'a mut dyn ChunkSource,
    wanted: &'a [u64],
    memory_peak: &'a AtomicU64,
}

/// Options of groups.
pub(crate) struct LeaderOptions {
    pub(crate) size: Option<usize>,
    /// Bytes of the largest window.
    pub(crate) capacity: u64,
    /// The peak of the memory of gathering.
    pub(crate) memory_peak: Arc<AtomicU64>,
}

impl LeaderTarget {
    /// Forms groups; their leaders create the target. Collective.
    pub(crate) fn create(
        comm: &Comm,
        name: &str,
        declared: &Declaration,
        plan: LeaderOptions,
        target: impl FnOnce(&Comm, &Arc<Declaration>) -> Result<Box<dyn OutputTarget>>,
    ) -> Result<Self> {
        let mut ranks = Self::form(comm, name, declared, plan)?;
        let leads = ranks.lead.is_some().then_some(0);
        let leaders = comm.split(leads, 0).map_err(|error| Error::from_comm("create", name, &error))?;
        // Leaders fail together; the other ranks learn of it.
        let made = leaders.zip(ranks.lead.as_ref());
        let made = made.map(|(leaders, lead)| {
            let grouped = Declaration { plan: declared.plan, ..lead.group.declaration.clone() };
            target(&leaders, &Arc::new(grouped))
        });
        ranks.target = agree(&ranks.group, "create", name, made.transpose())?;
        let mine = u64::from(ranks.target.as_ref().is_some_and(|target| target.is_persistent()));
        let leader = ranks.group.allreduce_one(Op::Max, mine);
        ranks.persistent = leader.map_err(|error| Error::from_comm("create", name, &error))? == 1;
        Ok(ranks)
    }

    /// Groups without a target. Collective.
    fn form(comm: &Comm, name: &str, declared: &Declaration, plan: LeaderOptions) -> Result<Self> {
        let lost = |error: aqueduct_comm::Error| Error::from_comm("create", name, &error);
        let nodes: Vec<usize> = (0..comm.size()).map(|rank| comm.node_of(rank)).collect();
        let colour = groups(&nodes, plan.size)[comm.rank()];
        let group = comm.split(Some(colour), 0).map_err(lost)?.expect("every rank is in a group");
        let shares = group.gather_varied(0, &encode_message(&MemberShare::of(declared))).map_err(lost)?;
        let merge = |shares: Vec<Vec<u8>>| merged(name, declared, &shares);
        let merged = agree(comm, "create", name, shares.map(merge).transpose())?;
        let capacity = plan.capacity.min(PORTION);
        let lead = |group| LeaderState {
            group,
            capacity,
            plan: None,
            windows: DoubleBuffer::new(),
            apart: Vec::new(),
        };
        let lists = declared.streams.iter().map(|about| about.region == StreamRegion::List).collect();
        let (lead, memory_peak) = (merged.map(lead), plan.memory_peak);
        let (name, persistent) = (name.into(), false);
        Ok(Self { name, group, lists, last: None, lead, target: None, persistent, memory_peak })
    }

    /// The bytes that the leader needs of this rank for each window. Collective over the group.
    fn wanted(&mut self, batch: &StepBatch) -> Result<MemberWindows> {
        let streams: Vec<usize> = batch.entries.iter().map(|entry| entry.stream).collect();
        if let Some(last) = self.last.as_ref().filter(|last| last.streams == streams) {
            return Ok(last.clone());
        }
        let lost = |error: aqueduct_comm::Error| Error::from_comm("write", &self.name, &error);
        let mine: Vec<u64> = batch.entries.iter().map(|entry| entry.items).collect();
        let items = self.group.gather_varied(0, &mine).map_err(lost)?;
        let windows = match (&mut self.lead, items) {
            (Some(lead), Some(items)) => lead.plan_windows(&self.name, &streams, &items).map(Some),
            _ => Ok(None),
        };
        let windows = agree(&self.group, "write", &self.name, windows)?.unwrap_or_default();
        let bytes = self.group.scatter_varied(0, &windows).map_err(lost)?;
        let wanted = MemberWindows { streams, bytes };
        // The items of lists change in every step.
        self.last = (!wanted.streams.iter().any(|stream| self.lists[*stream])).then(|| wanted.clone());
        Ok(wanted)
    }
}

/// Merges the shares of the members of a group.
fn merged(name: &str, declared: &Declaration, shares: &[Vec<u8>]) -> Result<AggregationGroup> {
    let refuse = |detail: String| Error::new(Kind::BadArgument, "create", name, detail);
    let shares: Result<Vec<Vec<MemberShare>>> = shares.iter().map(|bytes| decode_message(bytes)).collect();
    let shares = shares?;
    AggregationGroup::new(&declared.streams, &shares).map_err(|error| refuse(error.to_string()))
}

impl LeaderState {
    /// Plans how batches are assembled; returns the bytes of each member for each window.
    fn plan_windows(&mut self, name: &str, streams: &[usize], items: &[Vec<u64>]) -> Result<Vec<Vec<u64>>> {
        let refused = |error: aqueduct_file::layout::LayoutError| {
            Error::new(Kind::BadArgument, "write", name, error.to_string())
        };
        let plan = self.group.gather_plan(streams, items).map_err(refused)?;
        let mut wanted = vec![Vec::new(); items.len()];
        let mut start = 0;
        while start < plan.bytes() {
            let window = plan.window(start, self.capacity);
            for (member, wanted) in wanted.iter_mut().enumerate() {
                let bytes = plan.member_range(member, &window);
                wanted.push(bytes.end - bytes.start);
            }
            start = window.end;
        }
        self.plan = Some(plan);
        Ok(wanted)
    }

    /// Writes the batch of the group together with the other leaders.
    fn write(
        &mut self,
        target: &mut Option<Box<dyn OutputTarget>>,
        batch: &StepBatch,
        members: GroupMembers<'_>,
    ) -> Result<()> {
        let GroupMembers { group, name, own, wanted, memory_peak } = members;
        let Some(plan) = &self.plan else {
            return Err(Error::new(Kind::BadArgument, "write", name, "the group has no plan for the batch"));
        };
        let entries = batch.entries.iter().zip(plan.items());
        let entries = entries.map(|(entry, items)| BatchEntry { items: *items, ..*entry }).collect();
        let batch = StepBatch { entries, ..batch.clone() };
        let windows = wanted.len() as u64;
        let mut gathered = LeaderGather {
            group,
            name,
            plan,
            capacity: self.capacity,
            own: PortionReader::new(own),
            wanted,
            next: 0,
            start: 0,
            apart: &mut self.apart,
            memory_peak,
        };
        let threads = group.allows_background_collectives();
        let outcome = self.windows.run(target, &batch, (windows, threads), |window| gathered.fill(window));
        gathered.take_rest()?;
        outcome
    }
}

impl OutputTarget for LeaderTarget {
    fn write(&mut self, batch: &StepBatch, source: &mut dyn ChunkSource) -> Result<()> {
        let ready = agree(&self.group, "write", &self.name, source.refusal().map_or(Ok(()), Err));
        let wanted = match ready {
            Ok(()) => self.wanted(batch),
            Err(error) => Err(error),
        };
        let (group, name, memory_peak) = (&self.group, &*self.name, &*self.memory_peak);
        let outcome = match (&mut self.lead, &mut self.target, wanted) {
            (Some(lead), target, Ok(wanted)) => {
                let members = GroupMembers { group, name, own: source, wanted: &wanted.bytes, memory_peak };
                lead.write(target, batch, members)
            }
            (None, _, Ok(wanted)) => {
                let (own, wanted) = (PortionReader::new(source), &wanted.bytes);
                let mut member = MemberSource { group, name, own, wanted, next: 0, memory_peak };
                member.give_rest()
            }
            (_, Some(target), Err(error)) => target.write(batch, &mut FailedSource(error)),
            (_, None, Err(error)) => Err(error),
        };
        agree(&self.group, "write", &self.name, outcome)
    }

    fn is_persistent(&self) -> bool {
        self.persistent
    }

    fn sync(&mut self) -> Result<()> {
        let outcome = self.target.as_mut().map_or(Ok(()), |target| target.sync());
        agree(&self.group, "sync", &self.name, outcome)
    }

    fn finish(self: Box<Self>, steps: u64) -> Result<()> {
        let outcome = self.target.map_or(Ok(()), |target| target.finish(steps));
        agree(&self.group, "finish", &self.name, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn groups_are_consecutive_ranks() {
        assert_eq!(groups(&[0, 0, 0, 1, 1], None), [0, 0, 0, 1, 1]);
        assert_eq!(groups(&[0, 1, 0, 1], None), [0, 1, 2, 3], "round-robin placement: groups of one");
        assert_eq!(groups(&[0, 0, 0, 0, 0], Some(2)), [0, 0, 1, 1, 2]);
        assert_eq!(groups(&[], None), [] as [u32; 0]);
    }
}
