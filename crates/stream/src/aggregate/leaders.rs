//! Groups of ranks of which one writes for all: the others hand it their bytes, and only these leaders meet over the file.

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

/// What a leader gathers at a time: so much that a meeting is little beside it, and so little that of a large step the first part is written,
/// and still in the processor's cache, while the next is gathered.
pub(crate) const PORTION: u64 = 4 << 20;

/// The group of each rank, given the node of each: ranks of a node that follow one another, or so many at a time. Groups follow one another as
/// their ranks do, so that points and lists keep the order of the ranks.
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

/// A rank of a group.
pub(crate) struct LeaderTarget {
    name: Arc<str>,
    /// This rank's group; rank 0 leads it.
    group: Comm,
    /// Which streams are lists.
    lists: Vec<bool>,
    /// What is needed of this rank for parcels that look like the last one.
    last: Option<MemberWindows>,
    /// None on ranks that are led.
    lead: Option<LeaderState>,
    /// The leader stores the data of its group here; `None` on the other ranks.
    target: Option<Box<dyn OutputTarget>>,
    /// What the target of the group says of itself.
    persistent: bool,
    memory_peak: Arc<AtomicU64>,
}

/// What the leader needs of a member.
#[derive(Clone)]
struct MemberWindows {
    /// Of parcels that have these streams.
    streams: Vec<usize>,
    /// Bytes for each window.
    bytes: Vec<u64>,
}

/// What only a leader has.
struct LeaderState {
    group: AggregationGroup,
    /// Bytes of the largest window.
    capacity: u64,
    plan: Option<GatherPlan>,
    windows: DoubleBuffer,
    apart: Vec<Vec<u8>>,
}

/// Those a leader writes for, at the time of a parcel.
struct GroupMembers<'a> {
    group: &'a Comm,
    name: &'a str,
    /// The leader's own bytes, and how many of them each window takes.
    own: &'a mut dyn ChunkSource,
    wanted: &'a [u64],
    memory_peak: &'a AtomicU64,
}

/// How groups are made.
pub(crate) struct LeaderOptions {
    pub(crate) size: Option<usize>,
    /// Bytes that a leader gathers at a time, at most.
    pub(crate) capacity: u64,
    /// The most that gathering has taken.
    pub(crate) memory_peak: Arc<AtomicU64>,
}

impl LeaderTarget {
    /// Forms groups; their leaders make the target. Collective.
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
        // Leaders fail together; the others learn of it.
        let made = leaders.zip(ranks.lead.as_ref());
        let made = made.map(|(leaders, lead)| {
            let grouped = Declaration { replace: declared.replace, ..lead.group.declaration.clone() };
            target(&leaders, &Arc::new(grouped))
        });
        ranks.target = agree(&ranks.group, "create", name, made.transpose())?;
        let mine = u64::from(ranks.target.as_ref().is_some_and(|target| target.is_persistent()));
        let leader = ranks.group.allreduce_one(Op::Max, mine);
        ranks.persistent = leader.map_err(|error| Error::from_comm("create", name, &error))? == 1;
        Ok(ranks)
    }

    /// Groups without a target yet. Collective.
    fn form(comm: &Comm, name: &str, declared: &Declaration, plan: LeaderOptions) -> Result<Self> {
        let talk = |error: aqueduct_comm::Error| Error::from_comm("create", name, &error);
        let nodes: Vec<usize> = (0..comm.size()).map(|rank| comm.node_of(rank)).collect();
        let colour = groups(&nodes, plan.size)[comm.rank()];
        let group = comm.split(Some(colour), 0).map_err(talk)?.expect("every rank is in a group");
        let shares = group.gather_varied(0, &encode_message(&MemberShare::of(declared))).map_err(talk)?;
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

    /// What the leader needs of this rank for each window. Collective over the group.
    fn wanted(&mut self, parcel: &StepBatch) -> Result<MemberWindows> {
        let streams: Vec<usize> = parcel.entries.iter().map(|entry| entry.stream).collect();
        if let Some(last) = self.last.as_ref().filter(|last| last.streams == streams) {
            return Ok(last.clone());
        }
        let talk = |error: aqueduct_comm::Error| Error::from_comm("write", &self.name, &error);
        let mine: Vec<u64> = parcel.entries.iter().map(|entry| entry.items).collect();
        let items = self.group.gather_varied(0, &mine).map_err(talk)?;
        let told = match (&mut self.lead, items) {
            (Some(lead), Some(items)) => lead.plan_windows(&self.name, &streams, &items).map(Some),
            _ => Ok(None),
        };
        let told = agree(&self.group, "write", &self.name, told)?.unwrap_or_default();
        let bytes = self.group.scatter_varied(0, &told).map_err(talk)?;
        let wanted = MemberWindows { streams, bytes };
        // Items of lists are others in every step.
        self.last = (!wanted.streams.iter().any(|stream| self.lists[*stream])).then(|| wanted.clone());
        Ok(wanted)
    }
}

/// What the members of a group have, together.
fn merged(name: &str, declared: &Declaration, shares: &[Vec<u8>]) -> Result<AggregationGroup> {
    let refuse = |detail: String| Error::new(Kind::BadArgument, "create", name, detail);
    let shares: Result<Vec<Vec<MemberShare>>> = shares.iter().map(|bytes| decode_message(bytes)).collect();
    let shares = shares?;
    AggregationGroup::new(&declared.streams, &shares).map_err(|error| refuse(error.to_string()))
}

impl LeaderState {
    /// Finds how parcels are put together; what is needed of each member for each window.
    fn plan_windows(&mut self, name: &str, streams: &[usize], items: &[Vec<u64>]) -> Result<Vec<Vec<u64>>> {
        let unlaid = |error: aqueduct_file::layout::LayoutError| {
            Error::new(Kind::BadArgument, "write", name, error.to_string())
        };
        let assembly = self.group.gather_plan(streams, items).map_err(unlaid)?;
        let mut wanted = vec![Vec::new(); items.len()];
        let mut start = 0;
        while start < assembly.bytes() {
            let window = assembly.window(start, self.capacity);
            for (member, wanted) in wanted.iter_mut().enumerate() {
                let bytes = assembly.member_range(member, &window);
                wanted.push(bytes.end - bytes.start);
            }
            start = window.end;
        }
        self.plan = Some(assembly);
        Ok(wanted)
    }

    /// Writes what the group has together with the other leaders.
    fn write(
        &mut self,
        target: &mut Option<Box<dyn OutputTarget>>,
        parcel: &StepBatch,
        members: GroupMembers<'_>,
    ) -> Result<()> {
        let GroupMembers { group, name, own, wanted, memory_peak } = members;
        let Some(assembly) = &self.plan else {
            return Err(Error::new(Kind::BadArgument, "write", name, "the group has not met"));
        };
        let entries = parcel.entries.iter().zip(assembly.items());
        let entries = entries.map(|(entry, items)| BatchEntry { items: *items, ..*entry }).collect();
        let parcel = StepBatch { entries, ..parcel.clone() };
        let windows = wanted.len() as u64;
        let mut gathered = LeaderGather {
            group,
            name,
            plan: assembly,
            capacity: self.capacity,
            own: PortionReader::new(own),
            wanted,
            next: 0,
            start: 0,
            apart: &mut self.apart,
            memory_peak,
        };
        let threads = group.allows_background_collectives();
        let outcome = self.windows.run(target, &parcel, (windows, threads), |window| gathered.fill(window));
        gathered.take_rest()?;
        outcome
    }
}

impl OutputTarget for LeaderTarget {
    fn write(&mut self, parcel: &StepBatch, supply: &mut dyn ChunkSource) -> Result<()> {
        let ready = agree(&self.group, "write", &self.name, supply.refusal().map_or(Ok(()), Err));
        let wanted = match ready {
            Ok(()) => self.wanted(parcel),
            Err(error) => Err(error),
        };
        let (group, name, memory_peak) = (&self.group, &*self.name, &*self.memory_peak);
        let outcome = match (&mut self.lead, &mut self.target, wanted) {
            (Some(lead), target, Ok(wanted)) => {
                let members = GroupMembers { group, name, own: supply, wanted: &wanted.bytes, memory_peak };
                lead.write(target, parcel, members)
            }
            (None, _, Ok(wanted)) => {
                let (own, wanted) = (PortionReader::new(supply), &wanted.bytes);
                let mut member = MemberSource { group, name, own, wanted, next: 0, memory_peak };
                member.give_rest()
            }
            (_, Some(target), Err(error)) => target.write(parcel, &mut FailedSource(error)),
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
    fn groups_are_ranks_that_follow_one_another() {
        assert_eq!(groups(&[0, 0, 0, 1, 1], None), [0, 0, 0, 1, 1]);
        assert_eq!(groups(&[0, 1, 0, 1], None), [0, 1, 2, 3], "dealt out in turn: nobody leads anybody");
        assert_eq!(groups(&[0, 0, 0, 0, 0], Some(2)), [0, 0, 1, 1, 2]);
        assert_eq!(groups(&[], None), [] as [u32; 0]);
    }
}
