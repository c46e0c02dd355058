//! Checkpoints of a run of either kind.

use anyhow::Result;
use aqueduct::comm::Comm;

use super::CheckpointRule;
use super::checkpoint_file::KwaveCheckpoint;
use super::checkpoint_store::GenerationFolder;
use crate::grid::field_block::FieldBlock;
use crate::output::recorder::SampleRecorder;
use crate::output::saved_array::{ArrayPlace, SavedArrays};
use crate::solver::time_step::{WaveFields, WaveSolver};
use crate::transform::real::Real;

/// Where checkpoints go.
enum CheckpointTarget {
    Folder(Box<GenerationFolder>),
    File(KwaveCheckpoint),
}

/// Checkpoints of a run.
pub struct WaveCheckpointer {
    target: CheckpointTarget,
    resume: bool,
    required: bool,
}

/// A checkpoint that a run continues from: the number of steps that were made, and its arrays.
pub struct SavedRun<T> {
    /// Steps that were made.
    pub step: u64,
    /// The arrays.
    pub arrays: Box<dyn SavedArrays<T>>,
}

const DIRECTIONS: [&str; 3] = ["x", "y", "z"];

fn place(block: &FieldBlock, name: String) -> ArrayPlace {
    let shape = [2, 1, 0].map(|at| block.points[at] as u64);
    ArrayPlace { name, shape: shape.into(), start: block.start().into(), count: block.shape().into() }
}

/// The fields with their places.
fn saved_fields<'f, T>(block: &FieldBlock, fields: &'f WaveFields<T>) -> Vec<(ArrayPlace, &'f [T])> {
    let mut list = vec![(place(block, "p".into()), fields.pressure.as_slice())];
    for (kind, parts) in [("u", &fields.velocity), ("rho", &fields.density)] {
        let named = DIRECTIONS.iter().zip(parts);
        list.extend(
            named.map(|(direction, values)| (place(block, format!("{kind}{direction}")), values.as_slice())),
        );
    }
    list
}

impl WaveCheckpointer {
    /// Opens the checkpoints of a run with this hash. Collective.
    pub fn open(world: &Comm, rule: &CheckpointRule, fingerprint: u64) -> Result<Option<Self>> {
        let folder = GenerationFolder::open(world, &rule.kind, rule.resume, fingerprint)?
            .map(|folder| CheckpointTarget::Folder(Box::new(folder)));
        let target =
            folder.or_else(|| KwaveCheckpoint::new(&rule.kind, fingerprint).map(CheckpointTarget::File));
        Ok(target.map(|target| Self { target, resume: rule.resume, required: rule.required }))
    }

    /// The checkpoint that the run continues from. Collective.
    pub fn find<T: Real>(&mut self, world: &Comm) -> Result<Option<SavedRun<T>>> {
        if !self.resume {
            return Ok(None);
        }
        Ok(match &mut self.target {
            CheckpointTarget::Folder(folder) => folder.latest(self.required)?.map(|latest| SavedRun {
                step: latest.step(),
                arrays: Box::new(latest) as Box<dyn SavedArrays<T>>,
            }),
            CheckpointTarget::File(file) => match file.open(world)? {
                Some(found) => Some(SavedRun { step: found.step()?, arrays: Box::new(found) }),
                None => None,
            },
        })
    }

    /// Writes a checkpoint if one is due; whether the run ends with it. Collective.
    pub fn step<T: Real>(
        &mut self,
        world: &Comm,
        solver: &WaveSolver<T>,
        recorder: Option<&mut SampleRecorder<T>>,
    ) -> Result<bool> {
        let step = solver.step();
        let due = match &self.target {
            CheckpointTarget::Folder(folder) => folder.is_due(world, step)?,
            CheckpointTarget::File(file) => file.is_due(world, step)?,
        };
        if !due {
            return Ok(false);
        }
        // The output has all samples up to this step before the checkpoint is committed.
        let state = match recorder {
            Some(recorder) => {
                recorder.flush()?;
                recorder.state(world)?
            }
            None => Vec::new(),
        };
        let fields = saved_fields(solver.block(), &solver.fields);
        match &mut self.target {
            CheckpointTarget::Folder(folder) => folder.save(step, &fields, &state).map(|()| false),
            CheckpointTarget::File(file) => file.save(world, step, &fields, &state).map(|()| true),
        }
    }

    /// Waits for checkpoints that are being written; a checkpoint file is removed after the last step. Collective.
    pub fn finish(&mut self, world: &Comm, is_last: bool) -> Result<()> {
        match &mut self.target {
            CheckpointTarget::Folder(folder) => folder.finish(),
            CheckpointTarget::File(file) if is_last => file.remove(world),
            CheckpointTarget::File(_) => Ok(()),
        }
    }
}

impl<T: Real> SavedRun<T> {
    /// Sets the fields of a simulation. Collective.
    pub fn restore(&self, solver: &mut WaveSolver<T>) -> Result<()> {
        let block = solver.block().clone();
        let read = |name: String| self.arrays.field(&place(&block, name));
        let directions = DIRECTIONS.iter().take(solver.fields.velocity.len());
        solver.fields.pressure = read("p".into())?;
        let velocity =
            directions.clone().map(|direction| read(format!("u{direction}"))).collect::<Result<Vec<_>>>()?;
        solver.fields.velocity = velocity;
        solver.fields.density =
            directions.map(|direction| read(format!("rho{direction}"))).collect::<Result<Vec<_>>>()?;
        solver.continue_from(self.step);
        Ok(())
    }
}
