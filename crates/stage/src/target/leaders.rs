//! Groups of ranks of which one writes for all: the others hand it their bytes, and only these leaders meet over the file.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use aqueduct_comm::{Comm, Op};

use super::gathered::{Gathered, HandedOver, Stretch};
use super::{Entry, Parcel, Refused, Supply, Target};
use crate::declared::Declared;
use crate::description::Region;
use crate::error::{Error, Kind, Result, agree};
use crate::group::{Assembly, Group, Share};
use crate::helm::Helm;
use crate::relay::Relay;

/// What a leader gathers at a time: so much that a meeting is little beside it, and so little that of a large step the first part is written,
/// and still in the processor's cache, while the next is gathered.
const PORTION: u64 = 4 << 20;

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
pub(crate) struct Leaders {
    name: Arc<str>,
    /// This rank's group; rank 0 leads it.
    group: Comm,
    /// Which streams are lists.
    lists: Vec<bool>,
    /// What is needed of this rank for parcels that look like the last one.
    last: Option<Wanted>,
    /// None on ranks that are led.
    lead: Option<Lead>,
    /// Where leaders store what their groups have; or all ranks, if they can do without leaders too.
    target: Option<Box<dyn Target>>,
    /// What the target of the group says of itself.
    persistent: bool,
    turns: Option<Turns>,
    memory_peak: Arc<AtomicU64>,
}

/// For ranks that may store for themselves, or by leaders.
struct Turns {
    helm: Arc<Helm>,
    /// What this rank has, and what it has to store where leaders write: all of its group, or nothing.
    own: Arc<Declared>,
    grouped: Arc<Declared>,
    /// How it was last.
    gathered: bool,
}

/// What the leader needs of a member.
#[derive(Clone)]
struct Wanted {
    /// Of parcels that have these streams.
    streams: Vec<usize>,
    /// Bytes for each window.
    bytes: Vec<u64>,
}

/// What only a leader has.
struct Lead {
    group: Group,
    /// Bytes of the largest window.
    capacity: u64,
    assembly: Option<Assembly>,
    windows: [Vec<u8>; 2],
    apart: Vec<Vec<u8>>,
}

/// Those a leader writes for, at the time of a parcel.
struct Members<'a> {
    group: &'a Comm,
    name: &'a str,
    /// The leader's own bytes, and how many of them each window takes.
    own: &'a mut dyn Supply,
    wanted: &'a [u64],
    memory_peak: &'a AtomicU64,
}

/// How groups are made.
pub(crate) struct Plan {
    pub(crate) size: Option<usize>,
    /// Bytes that a leader gathers at a time, at most.
    pub(crate) capacity: u64,
    /// The most that gathering has taken.
    pub(crate) memory_peak: Arc<AtomicU64>,
}

impl Leaders {
    /// Forms groups; their leaders make the target. Collective.
    pub(crate) fn create(
        comm: &Comm,
        name: &str,
        declared: &Declared,
        plan: Plan,
        target: impl FnOnce(&Comm, &Arc<Declared>) -> Result<Box<dyn Target>>,
    ) -> Result<Self> {
        let mut ranks = Self::form(comm, name, declared, plan)?;
        let leads = ranks.lead.is_some().then_some(0);
        let leaders = comm.split(leads, 0).map_err(|error| Error::talk("create", name, &error))?;
        // Leaders fail together; the others learn of it.
        let made = leaders.zip(ranks.lead.as_ref());
        let made = made.map(|(leaders, lead)| {
            let grouped = Declared { replace: declared.replace, ..lead.group.declared.clone() };
            target(&leaders, &Arc::new(grouped))
        });
        ranks.target = agree(&ranks.group, "create", name, made.transpose())?;
        let mine = u64::from(ranks.target.as_ref().is_some_and(|target| target.is_persistent()));
        let leader = ranks.group.allreduce_one(Op::Max, mine);
        ranks.persistent = leader.map_err(|error| Error::talk("create", name, &error))? == 1;
        Ok(ranks)
    }

    /// Forms groups of ranks that all have a part of the target, which can be redeclared, and store as the helm says. Collective.
    pub(crate) fn around(
        comm: &Comm,
        name: &str,
        declared: &Arc<Declared>,
        plan: Plan,
        (helm, target): (&Arc<Helm>, Box<dyn Target>),
    ) -> Result<Self> {
        let mut ranks = Self::form(comm, name, declared, plan)?;
        let grouped = match &ranks.lead {
            Some(lead) => lead.group.declared.clone(),
            None => merged(name, declared, &[])?.declared,
        };
        let (own, grouped) = (Arc::clone(declared), Arc::new(grouped));
        ranks.turns = Some(Turns { helm: Arc::clone(helm), own, grouped, gathered: false });
        ranks.persistent = target.is_persistent();
        ranks.target = Some(target);
        Ok(ranks)
    }

    /// Groups without a target yet. Collective.
    fn form(comm: &Comm, name: &str, declared: &Declared, plan: Plan) -> Result<Self> {
        let talk = |error: aqueduct_comm::Error| Error::talk("create", name, &error);
        let nodes: Vec<usize> = (0..comm.size()).map(|rank| comm.node_of(rank)).collect();
        let colour = groups(&nodes, plan.size)[comm.rank()];
        let group = comm.split(Some(colour), 0).map_err(talk)?.expect("every rank is in a group");
        let shares = group.gather_varied(0, &Share::encode(&Share::of(declared))).map_err(talk)?;
        let merge = |shares: Vec<Vec<u8>>| merged(name, declared, &shares);
        let merged = agree(comm, "create", name, shares.map(merge).transpose())?;
        let capacity = plan.capacity.min(PORTION);
        let lead =
            |group| Lead { group, capacity, assembly: None, windows: Default::default(), apart: Vec::new() };
        let lists = declared.abouts.iter().map(|about| about.region == Region::List).collect();
        let (lead, memory_peak) = (merged.map(lead), plan.memory_peak);
        let (name, persistent) = (name.into(), false);
        Ok(Self { name, group, lists, last: None, lead, target: None, persistent, turns: None, memory_peak })
    }

    /// What the leader needs of this rank for each window. Collective over the group.
    fn wanted(&mut self, parcel: &Parcel) -> Result<Wanted> {
        let streams: Vec<usize> = parcel.entries.iter().map(|entry| entry.stream).collect();
        if let Some(last) = self.last.as_ref().filter(|last| last.streams == streams) {
            return Ok(last.clone());
        }
        let talk = |error: aqueduct_comm::Error| Error::talk("write", &self.name, &error);
        let mine: Vec<u64> = parcel.entries.iter().map(|entry| entry.items).collect();
        let items = self.group.gather_varied(0, &mine).map_err(talk)?;
        let told = match (&mut self.lead, items) {
            (Some(lead), Some(items)) => lead.arrange(&self.name, &streams, &items).map(Some),
            _ => Ok(None),
        };
        let told = agree(&self.group, "write", &self.name, told)?.unwrap_or_default();
        let bytes = self.group.scatter_varied(0, &told).map_err(talk)?;
        let wanted = Wanted { streams, bytes };
        // Items of lists are others in every step.
        self.last = (!wanted.streams.iter().any(|stream| self.lists[*stream])).then(|| wanted.clone());
        Ok(wanted)
    }

    /// Whether leaders write this parcel; the target is told where that has changed.
    fn turn(&mut self, parcel: &Parcel) -> bool {
        let Some(turns) = &mut self.turns else { return true };
        let gathered = turns.helm.gathers(parcel.step);
        if let Some(target) = self.target.as_mut().filter(|_| gathered != turns.gathered) {
            target.redeclare(if gathered { &turns.grouped } else { &turns.own });
            turns.gathered = gathered;
        }
        gathered
    }

    /// Leaders write.
    fn write_gathered(&mut self, parcel: &Parcel, supply: &mut dyn Supply) -> Result<()> {
        let ready = agree(&self.group, "write", &self.name, supply.refusal().map_or(Ok(()), Err));
        let wanted = match ready {
            Ok(()) => self.wanted(parcel),
            Err(error) => Err(error),
        };
        let (group, name, memory_peak) = (&self.group, &*self.name, &*self.memory_peak);
        let outcome = match (&mut self.lead, &mut self.target, wanted) {
            (Some(lead), Some(target), Ok(wanted)) => {
                let members = Members { group, name, own: supply, wanted: &wanted.bytes, memory_peak };
                lead.write(&mut **target, parcel, members)
            }
            (None, target, Ok(wanted)) => {
                let (own, wanted) = (Stretch::new(supply), &wanted.bytes);
                let mut handed = HandedOver { group, name, own, wanted, next: 0, memory_peak };
                let parcel = parcel.without_items();
                let outcome = target.as_mut().map_or(Ok(()), |target| target.write(&parcel, &mut handed));
                outcome.and(handed.give_rest())
            }
            (_, Some(target), Err(error)) => target.write(parcel, &mut Refused(error)),
            (_, _, Err(error)) => Err(error),
            (Some(_), None, Ok(_)) => {
                Err(Error::new(Kind::NotComplete, "write", name, "the leader has no target"))
            }
        };
        agree(&self.group, "write", &self.name, outcome)
    }
}

/// What the members of a group have, together.
fn merged(name: &str, declared: &Declared, shares: &[Vec<u8>]) -> Result<Group> {
    let refuse = |detail: String| Error::new(Kind::BadArgument, "create", name, detail);
    let shares: Option<Vec<Vec<Share>>> = shares.iter().map(|bytes| Share::decode(bytes)).collect();
    let shares = shares.ok_or_else(|| refuse("a rank of the group told nonsense of its share".to_owned()))?;
    Group::new(&declared.abouts, &shares).map_err(|error| refuse(error.to_string()))
}

impl Lead {
    /// Finds how parcels are put together; what is needed of each member for each window.
    fn arrange(&mut self, name: &str, streams: &[usize], items: &[Vec<u64>]) -> Result<Vec<Vec<u64>>> {
        let unlaid = |error: aqueduct_file::layout::LayoutError| {
            Error::new(Kind::BadArgument, "write", name, error.to_string())
        };
        let assembly = self.group.assembly(streams, items).map_err(unlaid)?;
        let mut wanted = vec![Vec::new(); items.len()];
        let mut start = 0;
        while start < assembly.bytes() {
            let window = assembly.window(start, self.capacity);
            for (member, wanted) in wanted.iter_mut().enumerate() {
                let bytes = assembly.of(member, &window);
                wanted.push(bytes.end - bytes.start);
            }
            start = window.end;
        }
        self.assembly = Some(assembly);
        Ok(wanted)
    }

    /// Writes what the group has together with the other leaders.
    fn write(&mut self, target: &mut dyn Target, parcel: &Parcel, members: Members<'_>) -> Result<()> {
        let Members { group, name, own, wanted, memory_peak } = members;
        let Some(assembly) = &self.assembly else {
            return Err(Error::new(Kind::BadArgument, "write", name, "the group has not met"));
        };
        let entries = parcel.entries.iter().zip(assembly.items());
        let entries = entries.map(|(entry, items)| Entry { items: *items, ..*entry }).collect();
        let parcel = Parcel { entries, ..parcel.clone() };
        let windows = wanted.len() as u64;
        let mut gathered = Gathered {
            group,
            name,
            assembly,
            capacity: self.capacity,
            own: Stretch::new(own),
            wanted,
            next: 0,
            start: 0,
            apart: &mut self.apart,
            memory_peak,
        };
        let relay =
            Relay { parcel: &parcel, windows, threads: group.serves_threads(), buffers: &mut self.windows };
        let outcome = relay.run(target, |window| gathered.fill(window));
        gathered.take_rest()?;
        outcome
    }
}

impl Target for Leaders {
    fn write(&mut self, parcel: &Parcel, supply: &mut dyn Supply) -> Result<()> {
        if self.turn(parcel) {
            return self.write_gathered(parcel, supply);
        }
        self.target.as_mut().map_or(Ok(()), |target| target.write(parcel, supply))
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
