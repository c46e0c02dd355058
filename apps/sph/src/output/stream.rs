//! The way `stream`: the records of each step go into a stream file; an I/O thread writes a copy while the program computes.

use anyhow::{Context, Result};
use aqueduct::comm::Comm;
use aqueduct::stream::{ObjectKey, Options, Output, Reader, Stream, Streams};

use crate::record::StoredParticle;

/// The name of the stream of particles.
const PARTICLES: &str = "particles";

/// An open stream.
pub(super) struct StreamOutput<R> {
    output: Output,
    particles: ObjectKey<R>,
}

impl<R: StoredParticle> StreamOutput<R> {
    /// Creates the stream file, in place of one of this name. Collective.
    pub(super) fn create(world: &Comm, name: &str) -> Result<Self> {
        let mut streams = Streams::new();
        let particles = streams.add_objects::<R>(Stream::objects(PARTICLES));
        Ok(Self { output: Options::new().replace().create(world, name, &streams)?, particles })
    }

    /// Passes the records of a step on. Collective.
    pub(super) fn write(&mut self, records: &[R]) -> Result<()> {
        self.output.step()?.put_objects(self.particles, records).commit()?;
        Ok(())
    }

    /// Waits until all steps are stored. Collective.
    pub(super) fn finish(self) -> Result<()> {
        self.output.finish()?;
        Ok(())
    }
}

/// Reads a share of the records of a step of a stream file. Collective.
pub(super) fn read<R: StoredParticle>(world: &Comm, name: &str, number: u64) -> Result<Vec<R>> {
    let reader = Reader::open(world, name)?;
    let stored = reader
        .step(number)
        .with_context(|| format!("{name}: step {number} of the stream is not complete"))?;
    let particles = reader.objects::<R>(PARTICLES, stored)?;
    Ok(particles.read(particles.share(world.rank(), world.size()))?)
}
