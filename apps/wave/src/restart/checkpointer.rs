//! Checkpoints of a run of either kind.

use anyhow::Result;
use aqueduct::comm::Comm;

use super::CheckpointRule;
use super::checkpoint_file::KwaveCheckpoint;
use super::checkpoint_store::GenerationFolder;
use super::saved_run::{RunState, SavedArrays, SavedRun};
use crate::output::recorder::SampleRecorder;
use crate::solver::time_step::WaveSolver;
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

    /// Whether the run ends with a checkpoint after this step. Collective.
    pub fn ends_run(&self, world: &Comm, step: u64) -> Result<bool> {
        match &self.target {
            CheckpointTarget::Folder(_) => Ok(false),
            CheckpointTarget::File(file) => file.is_due(world, step),
        }
    }

    /// Writes a checkpoint if one is due in this step, or if the run `ends` with it. Collective.
    pub fn step<T: Real>(
        &mut self,
        world: &Comm,
        solver: &WaveSolver<T>,
        recorder: Option<&mut SampleRecorder<T>>,
        ends: bool,
    ) -> Result<()> {
        let step = solver.step();
        let state = |recorder: Option<&SampleRecorder<T>>| {
            let output = recorder.map(SampleRecorder::state).transpose()?;
            Ok::<_, anyhow::Error>(RunState::new(step, solver.block(), &solver.fields, output))
        };
        match &mut self.target {
            CheckpointTarget::Folder(folder) if folder.is_due(world, step)? => {
                let mut recorder = recorder;
                let flush = recorder.as_mut().map(|recorder| recorder.start_flush()).transpose()?;
                folder.save(&state(recorder.as_deref())?, flush)
            }
            CheckpointTarget::File(file) if ends => {
                let mut recorder = recorder;
                // The output has all samples up to this step before the checkpoint counts.
                recorder.as_mut().map_or(Ok(()), |recorder| recorder.flush())?;
                file.save(world, &state(recorder.as_deref())?)
            }
            _ => Ok(()),
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
