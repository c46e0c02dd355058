//! The methods of input and output.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use aqueduct::comm::Comm;

use crate::packet::MassPacket;
use crate::packet_file::{self, OutputStart, PacketFile};
use crate::packet_stream::{self, PacketStream};

/// Who reads and writes, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum IoMethod {
    /// Rank 0 reads and distributes the packets, and writes them.
    Master,
    /// All ranks read and write together, each packet once.
    Together,
    /// All ranks, into a stream file, in the background.
    Stream,
}

/// An output of packets.
pub struct PacketOutput<const D: usize> {
    target: PacketTarget<D>,
    /// The time in writes of this rank.
    pub time: Duration,
}

enum PacketTarget<const D: usize> {
    File(PacketFile<D>),
    Stream(Box<PacketStream<D>>),
}

impl<const D: usize> PacketOutput<D> {
    /// Opens an output for steps of `count` packets. Collective.
    pub fn open(
        world: &Comm,
        method: IoMethod,
        name: &str,
        count: usize,
        start: OutputStart,
    ) -> Result<Self> {
        let target = match method {
            IoMethod::Stream => {
                PacketTarget::Stream(Box::new(PacketStream::open(world, name, count, start)?))
            }
            _ => PacketTarget::File(PacketFile::open(world, method == IoMethod::Master, name, count, start)?),
        };
        Ok(Self { target, time: Duration::ZERO })
    }

    /// Appends a step: after a crash all of it is there or nothing. Collective.
    pub fn write(&mut self, packets: &[MassPacket<D>]) -> Result<()> {
        let start = Instant::now();
        match &mut self.target {
            PacketTarget::File(file) => file.write(packets)?,
            PacketTarget::Stream(stream) => stream.write(packets)?,
        }
        self.time += start.elapsed();
        Ok(())
    }

    /// Waits until everything is stored, and closes. Collective.
    pub fn close(self) -> Result<()> {
        match self.target {
            PacketTarget::File(file) => file.close(),
            PacketTarget::Stream(stream) => stream.close(),
        }
    }
}

/// Reads the last stored step of an output of this method with `count` packets per step: its packets, the same on every rank, and the number of stored
/// steps. Collective.
pub fn read_last<const D: usize>(
    world: &Comm,
    method: IoMethod,
    name: &str,
    count: usize,
) -> Result<(Vec<MassPacket<D>>, u64)> {
    let (packets, steps) = match method {
        IoMethod::Stream => packet_stream::read_last(world, name)?,
        _ => packet_file::read_last(world, method == IoMethod::Master, name, count)?,
    };
    ensure!(
        packets.len() == count,
        "{name} has no complete step of {count} packets; give the configuration that it was written with"
    );
    Ok((packets, steps))
}
