//! The stream of packets: the same packets in a stream file. A copy of each step is written in the background while the program computes.

use std::ops::Range;

use anyhow::{Context, Result};
use aqueduct::comm::Comm;
use aqueduct::stream::{ObjectKey, Options, Output, Reader, Stream, Streams};

use crate::packet::MassPacket;
use crate::packet_file::OutputStart;

/// The name of the stream.
const PACKETS: &str = "packets";

/// A stream of packets that is being written.
pub struct PacketStream<const D: usize> {
    output: Output,
    packets: ObjectKey<MassPacket<D>>,
    /// The packets that this rank writes.
    share: Range<usize>,
}

/// Reads the last stored step: its packets, the same on every rank, and the number of steps in the stream. Collective.
pub fn read_last<const D: usize>(world: &Comm, name: &str) -> Result<(Vec<MassPacket<D>>, u64)> {
    let reader = Reader::open(world, name)?;
    let last = reader.stored_steps().last().with_context(|| format!("{name} has no complete step"))?;
    let packets = reader.objects::<MassPacket<D>>(PACKETS, last)?;
    Ok((packets.read(0..packets.count())?, last.step + 1))
}

impl<const D: usize> PacketStream<D> {
    /// Opens a stream for steps of `count` packets. Collective.
    pub fn open(world: &Comm, name: &str, count: usize, start: OutputStart) -> Result<Self> {
        let mut streams = Streams::new();
        let packets = streams.add_objects::<MassPacket<D>>(Stream::objects(PACKETS));
        let output = match start {
            OutputStart::New => Options::new().create(world, name, &streams)?,
            OutputStart::Replace => Options::new().replace().create(world, name, &streams)?,
            OutputStart::After(steps) => Options::new().resume_after(world, name, &streams, steps)?,
        };
        let border = |rank: usize| count * rank / world.size();
        Ok(Self { output, packets, share: border(world.rank())..border(world.rank() + 1) })
    }

    /// Passes a step on. Collective.
    pub fn write(&mut self, packets: &[MassPacket<D>]) -> Result<()> {
        self.output.step()?.put_objects(self.packets, &packets[self.share.clone()]).commit()?;
        Ok(())
    }

    /// Waits until all steps are stored. Collective.
    pub fn close(self) -> Result<()> {
        self.output.finish()?;
        Ok(())
    }
}
