//! The file of packets: one object file, in which all packets of each stored step follow those of the step before.

use std::ops::Range;

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::file::{Mode, Whence};
use aqueduct::object::{ObjectCommExt, ObjectFile, ObjectOpenOptions, ObjectView};

use crate::packet::MassPacket;

/// How an output begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStart {
    /// With a new file; one that exists is refused.
    New,
    /// With a new file, in place of one that exists.
    Replace,
    /// After so many stored steps of an existing file.
    After(u64),
}

/// A file of packets that is being written.
pub struct PacketFile<const D: usize> {
    /// None on ranks that do not write.
    file: Option<ObjectFile<MassPacket<D>>>,
    /// The packets that this rank writes.
    share: Range<usize>,
}

// lines of I/O: begin
/// Reads the last stored step of a file with `count` packets per step: its packets, the same on every rank, and the number of steps in the file. With
/// `master` rank 0 reads, and distributes what it has read. Collective.
pub fn read_last<const D: usize>(
    world: &Comm,
    master: bool,
    name: &str,
    count: usize,
) -> Result<(Vec<MassPacket<D>>, u64)> {
    let reader = if master { world.comm_self() } else { world.clone() };
    let (mut packets, mut steps) = (Vec::new(), 0);
    if !master || world.rank() == 0 {
        let file = ObjectFile::<MassPacket<D>>::open(&reader, name)?;
        steps = file.count()? / count as u64;
        let last = steps.saturating_sub(1) * count as u64;
        packets = file.at(last).all().read_vec(count as u64)?;
        file.close()?;
    }
    if master {
        world.broadcast_objects(0, &mut packets)?;
        world.broadcast_object(0, &mut steps)?;
    }
    Ok((packets, steps))
}

impl<const D: usize> PacketFile<D> {
    /// Opens a file for steps of `count` packets. With `master` rank 0 writes, otherwise all ranks. Collective.
    pub fn open(world: &Comm, master: bool, name: &str, count: usize, start: OutputStart) -> Result<Self> {
        let (options, steps) = match start {
            OutputStart::New => (ObjectOpenOptions::new(Mode::read_write().exclusive()), 0),
            OutputStart::Replace => (ObjectOpenOptions::new(Mode::read_write().exclusive()).replace(), 0),
            OutputStart::After(steps) => (ObjectOpenOptions::new(Mode::read_write()), steps),
        };
        let (rank, ranks) = (world.rank(), world.size());
        let (share, file) = match (master, rank) {
            (true, 0) => (0..count, Some(options.open(&world.comm_self(), name)?)),
            (true, _) => (0..0, None),
            _ => (count * rank / ranks..count * (rank + 1) / ranks, Some(options.open(world, name)?)),
        };
        if let Some(file) = &file {
            file.set_view(&ObjectView::contiguous(file.comm(), share.len() as u64)?)?;
            file.seek((steps * share.len() as u64) as i64, Whence::Start)?;
        }
        Ok(Self { file, share })
    }

    /// Appends a step and commits it: after a crash the file has all of it or nothing. Collective.
    pub fn write(&self, packets: &[MassPacket<D>]) -> Result<()> {
        if let Some(file) = &self.file {
            file.at_pointer().all().write(&packets[self.share.clone()])?;
            file.commit()?;
        }
        Ok(())
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        self.file.map_or(Ok(()), |file| Ok(file.close()?))
    }
}
// lines of I/O: end
