//! The file of packets: one object file, in which all packets of each stored step follow those of the step before.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::file::{Counters, Mode, Whence};
use aqueduct::object::{ObjectCommExt, ObjectFile, ObjectOpenOptions, ObjectView};

use crate::packet::MassPacket;

/// Who reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum IoMethod {
    /// Rank 0 reads and distributes the packets, and writes them.
    Master,
    /// All ranks read and write together, each packet once.
    Together,
}

/// A file of packets that is being written.
pub struct PacketFile<const D: usize> {
    /// None on ranks that do not write.
    file: Option<ObjectFile<MassPacket<D>>>,
    /// The packets that this rank writes.
    share: Range<usize>,
    /// The time in reads and writes of this rank.
    pub time: Duration,
}

// lines of I/O: begin
/// Reads the last stored step of a file with `count` packets per step: its packets, the same on every rank, and the number of steps in the file. Collective.
pub fn read_last<const D: usize>(
    world: &Comm,
    method: IoMethod,
    name: &str,
    count: usize,
) -> Result<(Vec<MassPacket<D>>, u64)> {
    let reader = if method == IoMethod::Master { world.comm_self() } else { world.clone() };
    let (mut packets, mut steps) = (Vec::new(), 0);
    if method == IoMethod::Together || world.rank() == 0 {
        let file = ObjectFile::<MassPacket<D>>::open(&reader, name)?;
        steps = file.count()? / count as u64;
        let last = steps.saturating_sub(1) * count as u64;
        packets = file.at(last).all().read_vec(count as u64)?;
        file.close()?;
    }
    if method == IoMethod::Master {
        world.broadcast_objects(0, &mut packets)?;
        world.broadcast_object(0, &mut steps)?;
    }
    ensure!(
        packets.len() == count,
        "{name} has no complete step of {count} packets; give the configuration that it was written with"
    );
    Ok((packets, steps))
}

impl<const D: usize> PacketFile<D> {
    /// Creates a file for steps of `count` packets, or continues one after its first `steps` stored steps. Collective.
    pub fn open(
        world: &Comm,
        method: IoMethod,
        name: &str,
        count: usize,
        steps: Option<u64>,
    ) -> Result<Self> {
        let options = match steps {
            None => ObjectOpenOptions::new(Mode::read_write().exclusive()),
            Some(_) => ObjectOpenOptions::new(Mode::read_write()),
        };
        let (rank, ranks) = (world.rank(), world.size());
        let (share, file) = match method {
            IoMethod::Master if rank > 0 => (0..0, None),
            IoMethod::Master => (0..count, Some(options.open(&world.comm_self(), name)?)),
            IoMethod::Together => {
                (count * rank / ranks..count * (rank + 1) / ranks, Some(options.open(world, name)?))
            }
        };
        if let Some(file) = &file {
            file.set_view(&ObjectView::contiguous(file.comm(), share.len() as u64)?)?;
            file.seek((steps.unwrap_or(0) * share.len() as u64) as i64, Whence::Start)?;
        }
        Ok(Self { file, share, time: Duration::ZERO })
    }

    /// Appends a step and commits it: after a crash the file has all of it or nothing. Collective.
    pub fn write(&mut self, packets: &[MassPacket<D>]) -> Result<()> {
        let start = Instant::now();
        if let Some(file) = &self.file {
            file.at_pointer().all().write(&packets[self.share.clone()])?;
            file.commit()?;
        }
        self.time += start.elapsed();
        Ok(())
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        self.file.map_or(Ok(()), |file| Ok(file.close()?))
    }
}
// lines of I/O: end

impl<const D: usize> PacketFile<D> {
    /// The bytes that this rank has written.
    pub fn counters(&self) -> Counters {
        self.file.as_ref().map_or(Counters::default(), ObjectFile::counters)
    }
}
