//! Output of the particles of a step, in five ways.
//!
//! | way | |
//! |---|---|
//! | `gather` | each rank sends its particles to rank 0, which selects some quantities and writes text |
//! | `own` | each rank writes a file of its own |
//! | `together` | one collective write of all quantities into one object file |
//! | `buffered` | the same through a write buffer: the file is committed after the next step |
//! | `stream` | all steps into one stream file, written while the program computes |

mod buffered;
pub mod gather;
mod own;
pub mod step_files;
mod stream;
pub mod together;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aqueduct::comm::Comm;
use aqueduct::object::Object;

use crate::quantity::QuantityTable;
use crate::record::{RecordForm, StoredParticle, fill_records};
use crate::simulation::SphSimulation;
use crate::with_record;
use step_files::{StepFiles, StepHeader};

/// A way of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputWay {
    /// Rank 0 writes text.
    Gather,
    /// A file for each rank.
    Own,
    /// One collective write.
    Together,
    /// One collective write through a write buffer.
    Buffered,
    /// A stream.
    Stream,
}

impl OutputWay {
    /// All ways.
    pub const ALL: [Self; 5] = [Self::Gather, Self::Own, Self::Together, Self::Buffered, Self::Stream];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gather => "gather",
            Self::Own => "own",
            Self::Together => "together",
            Self::Buffered => "buffered",
            Self::Stream => "stream",
        }
    }
}

/// What the output of a run has cost on this rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputCost {
    /// The time of writing.
    pub io: Duration,
    /// The time of messages of the output, and of waiting for rank 0 if it writes.
    pub talk: Duration,
    /// Bytes that this rank has written.
    pub bytes: u64,
}

/// An output of steps; the type of the records is hidden.
pub trait StepOutput {
    /// Writes the particles of a step. Collective.
    fn write(&mut self, simulation: &SphSimulation, header: &StepHeader) -> Result<()>;

    /// Completes what was started. Collective.
    fn finish(self: Box<Self>) -> Result<OutputCost>;
}

/// Creates the output of a run. Collective.
pub fn create(
    world: &Comm,
    way: OutputWay,
    form: RecordForm,
    table: &QuantityTable,
    files: &StepFiles,
    first_step: u64,
) -> Result<Box<dyn StepOutput>> {
    with_record!(form, table, R => {
        let target = match way {
            OutputWay::Gather => RecordTarget::Gather,
            OutputWay::Own => RecordTarget::Own,
            OutputWay::Together => RecordTarget::Together,
            OutputWay::Buffered => RecordTarget::Buffered(buffered::BufferedOutput::default()),
            OutputWay::Stream => RecordTarget::Stream(Box::new(stream::StreamOutput::create(world, &files.stream(first_step))?)),
        };
        let output: RecordOutput<R> =
            RecordOutput { target, files: files.clone(), records: Vec::new(), cost: OutputCost::default() };
        Ok(Box::new(output))
    })
}

struct RecordOutput<R> {
    target: RecordTarget<R>,
    files: StepFiles,
    records: Vec<R>,
    cost: OutputCost,
}

enum RecordTarget<R> {
    Gather,
    Own,
    Together,
    Buffered(buffered::BufferedOutput<R>),
    Stream(Box<stream::StreamOutput<R>>),
}

impl<R: StoredParticle> StepOutput for RecordOutput<R> {
    fn write(&mut self, simulation: &SphSimulation, header: &StepHeader) -> Result<()> {
        let (began, world, step) = (Instant::now(), simulation.world(), header.state.step);
        fill_records(simulation.particles(), simulation.quantities(), &mut self.records);
        if world.rank() == 0 {
            self.files.write_header(header)?;
        }
        let records = &self.records;
        let bytes: usize = records.iter().map(Object::encoded_size).sum();
        let (mut bytes, mut talk) = (bytes as u64, Duration::ZERO);
        match &mut self.target {
            RecordTarget::Gather => (bytes, talk) = gather::write(world, &self.files.text(step), records)?,
            RecordTarget::Own => own::write(world, &self.files.own(step, world.rank()), records)?,
            RecordTarget::Together => together::write(world, &self.files.particles(step), records)?,
            RecordTarget::Buffered(output) => output.write(world, &self.files.particles(step), records)?,
            RecordTarget::Stream(output) => output.write(records)?,
        }
        self.cost.talk += talk;
        self.cost.io += began.elapsed().saturating_sub(talk);
        self.cost.bytes += bytes;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<OutputCost> {
        let began = Instant::now();
        match self.target {
            RecordTarget::Buffered(output) => output.finish()?,
            RecordTarget::Stream(output) => output.finish().context("completing the stream")?,
            _ => {}
        }
        self.cost.io += began.elapsed();
        Ok(self.cost)
    }
}
