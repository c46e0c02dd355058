//! Groups of ranks of which one writes for all: the others hand it their bytes, and only these leaders meet over the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_comm::Comm;

use super::{Entry, Parcel, Refused, Supply, Target};
use crate::declared::Declared;
use crate::description::Region;
use crate::error::{Error, Kind, Result, agree};
use crate::group::{Assembly, Group, Share};
use crate::relay::Relay;

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
    memory_peak: Arc<AtomicU64>,
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
    /// Where leaders store what their groups have.
    target: Box<dyn Target>,
    group: Group,
    /// Bytes of the largest window.
    capacity: u64,
    assembly: Option<Assembly>,
    windows: [Vec<u8>; 2],
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
    /// Bytes that a leader gathers at a time.
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
        let talk = |error: aqueduct_comm::Error| Error::talk("create", name, &error);
        let nodes: Vec<usize> = (0..comm.size()).map(|rank| comm.node_of(rank)).collect();
        let colour = groups(&nodes, plan.size)[comm.rank()];
        let group = comm.split(Some(colour), 0).map_err(talk)?.expect("every rank is in a group");
        let leaders = comm.split((group.rank() == 0).then_some(0), 0).map_err(talk)?;
        let shares = group.gather_varied(0, &Share::encode(&Share::of(declared))).map_err(talk)?;
        let merge = |shares: Vec<Vec<u8>>| merged(name, declared, &shares);
        let merged = agree(comm, "create", name, shares.map(merge).transpose())?;
        // Leaders fail together; the others learn of it.
        let lead: Option<Result<Lead>> = leaders.zip(merged).map(|(leaders, group)| {
            let target = target(&leaders, &Arc::new(group.declared.clone()))?;
            Ok(Lead { target, group, capacity: plan.capacity, assembly: None, windows: Default::default() })
        });
        let lead = agree(&group, "create", name, lead.transpose())?;
        let lists = declared.abouts.iter().map(|about| about.region == Region::List).collect();
        Ok(Self { name: name.into(), group, lists, last: None, lead, memory_peak: plan.memory_peak })
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

    /// A member's part: its bytes, window by window, whatever becomes of them.
    fn hand_over(&self, wanted: &[u64], supply: &mut dyn Supply) -> Result<()> {
        let (group, name) = (&self.group, &self.name);
        let mut stretch = Stretch::new(supply);
        let mut outcome = Ok(());
        for bytes in wanted {
            let given = stretch.with(*bytes as usize, |bytes| group.gather_varied(0, bytes));
            given.1.map_err(|error| Error::talk("write", name, &error))?;
            self.memory_peak.fetch_max(stretch.rest.capacity() as u64, Ordering::Relaxed);
            outcome = outcome.and(given.0);
        }
        outcome
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
    fn write(&mut self, parcel: &Parcel, members: Members<'_>) -> Result<()> {
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
            firsts: vec![0; group.size()],
            memory_peak,
        };
        let relay =
            Relay { parcel: &parcel, windows, threads: group.serves_threads(), buffers: &mut self.windows };
        let outcome = relay.run(&mut *self.target, |window| gathered.fill(window));
        // Members give all their windows, also where nobody asked for them any more.
        while gathered.next < wanted.len() {
            let _ = gathered.meet()?;
        }
        outcome
    }
}

impl Target for Leaders {
    fn write(&mut self, parcel: &Parcel, supply: &mut dyn Supply) -> Result<()> {
        let ready = agree(&self.group, "write", &self.name, supply.refusal().map_or(Ok(()), Err));
        let wanted = match ready {
            Ok(()) => self.wanted(parcel),
            Err(error) => Err(error),
        };
        let (group, name, memory_peak) = (&self.group, &*self.name, &*self.memory_peak);
        let outcome = match (&mut self.lead, wanted) {
            (Some(lead), Ok(wanted)) => {
                let wanted = &wanted.bytes;
                lead.write(parcel, Members { group, name, own: supply, wanted, memory_peak })
            }
            (Some(lead), Err(error)) => lead.target.write(parcel, &mut Refused(error)),
            (None, Ok(wanted)) => self.hand_over(&wanted.bytes, supply),
            (None, Err(error)) => Err(error),
        };
        agree(&self.group, "write", &self.name, outcome)
    }

    fn sync(&mut self) -> Result<()> {
        let outcome = self.lead.as_mut().map_or(Ok(()), |lead| lead.target.sync());
        agree(&self.group, "sync", &self.name, outcome)
    }

    fn finish(self: Box<Self>, steps: u64) -> Result<()> {
        let outcome = self.lead.map_or(Ok(()), |lead| lead.target.finish(steps));
        agree(&self.group, "finish", &self.name, outcome)
    }
}

/// Bytes of a rank in other portions than its chunks.
struct Stretch<'a> {
    supply: &'a mut dyn Supply,
    /// What is left of a chunk that was larger than the portion.
    rest: Vec<u8>,
    at: usize,
}

impl<'a> Stretch<'a> {
    fn new(supply: &'a mut dyn Supply) -> Self {
        Self { supply, rest: Vec::new(), at: 0 }
    }

    /// Shows the next so many bytes; none of them, and an error, if they cannot be had.
    fn with<R>(&mut self, bytes: usize, show: impl FnOnce(&[u8]) -> R) -> (Result<()>, R) {
        if self.at == self.rest.len() && bytes > 0 {
            self.rest.clear();
            self.at = 0;
            match self.supply.next() {
                // The usual case: a chunk is a portion.
                Ok(chunk) if chunk.len() == bytes => return (Ok(()), show(chunk)),
                Ok(chunk) => self.rest.extend_from_slice(chunk),
                Err(error) => return (Err(error), show(&[])),
            }
        }
        while self.rest.len() - self.at < bytes {
            self.rest.drain(..std::mem::take(&mut self.at));
            match self.supply.next() {
                Ok([]) => {
                    let detail = "a rank has fewer bytes than it declared";
                    return (Err(Error::new(Kind::BadArgument, "write", "the output", detail)), show(&[]));
                }
                Ok(chunk) => self.rest.extend_from_slice(chunk),
                Err(error) => return (Err(error), show(&[])),
            }
        }
        let portion = &self.rest[self.at..self.at + bytes];
        self.at += bytes;
        (Ok(()), show(portion))
    }
}

/// What a leader gathers, window by window.
struct Gathered<'a> {
    group: &'a Comm,
    name: &'a str,
    assembly: &'a Assembly,
    capacity: u64,
    own: Stretch<'a>,
    /// Of the leader's own bytes, for each window.
    wanted: &'a [u64],
    next: usize,
    /// Where the next window begins, and how many bytes of each member lie before it.
    start: u64,
    firsts: Vec<u64>,
    memory_peak: &'a AtomicU64,
}

impl Gathered<'_> {
    /// The members' bytes of the next window, and where it ends.
    fn meet(&mut self) -> Result<(Vec<Vec<u8>>, std::ops::Range<u64>)> {
        let window = self.assembly.window(self.start, self.capacity);
        let bytes = self.wanted[self.next] as usize;
        let (mine, parts) = self.own.with(bytes, |bytes| self.group.gather_varied(0, bytes));
        self.next += 1;
        self.start = window.end;
        let parts = parts.map_err(|error| Error::talk("write", self.name, &error))?.unwrap_or_default();
        mine.map(|()| (parts, window))
    }

    /// Puts the next window together.
    fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        let (parts, window) = self.meet()?;
        let length = (window.end - window.start) as usize;
        if buffer.capacity() < length {
            buffer.reserve_exact(length - buffer.len());
        }
        buffer.resize(length, 0);
        let gathered: usize = parts.iter().map(Vec::capacity).sum();
        let windows = buffer.capacity() * self.wanted.len().min(2);
        let taken = windows + gathered + self.own.rest.capacity();
        self.memory_peak.fetch_max(taken as u64, Ordering::Relaxed);
        for (member, part) in parts.iter().enumerate() {
            let expected = self.assembly.of(member, &window);
            if part.len() as u64 != expected.end - expected.start {
                let detail = format!("rank {member} of the group could not give its bytes");
                return Err(Error::new(Kind::BadArgument, "write", self.name, detail));
            }
            let put = self.assembly.put(member, self.firsts[member], part, window.start, buffer);
            put.map_err(|error| Error::new(Kind::BadArgument, "write", self.name, error.to_string()))?;
            self.firsts[member] += part.len() as u64;
        }
        Ok(())
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
