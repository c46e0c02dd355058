//! Checkpoints in a folder of generations.

use std::time::Instant;

use anyhow::{Result, ensure};
use aqueduct::checkpoint::{ArrayBlock, Checkpoint, Generation, Interval, Retention, Store};
use aqueduct::comm::Comm;
use aqueduct::stream::{PendingFlush, ResumeState};

use super::CheckpointKind;
use super::saved_run::{FieldPlace, RunState, SavedArrays};
use crate::transform::real::Real;

/// The states of the output, one of each rank.
const OUTPUT: &str = "output";

/// A folder of generations and its schedule.
pub(super) struct GenerationFolder {
    store: Store,
    every: Option<u64>,
    interval: Interval,
    since: Instant,
    fingerprint: u64,
}

impl<T: Real> SavedArrays<T> for Generation {
    fn field(&self, place: &FieldPlace) -> Result<Vec<T>> {
        Ok(self.array(&place.name, &block(place))?)
    }

    fn output(&self) -> Result<Vec<ResumeState>> {
        Ok(if self.has(OUTPUT) { self.objects(OUTPUT)? } else { Vec::new() })
    }
}

fn block(place: &FieldPlace) -> ArrayBlock {
    ArrayBlock::new(place.shape.clone(), place.start.clone(), place.count.clone())
}

impl GenerationFolder {
    /// Opens and locks the folder. Collective.
    pub(super) fn open(
        world: &Comm,
        kind: &CheckpointKind,
        resume: bool,
        fingerprint: u64,
    ) -> Result<Option<Self>> {
        let CheckpointKind::Store { folder, through, every, between_failures, keep } = kind else {
            return Ok(None);
        };
        let store = Store::open_or_create(world, folder)?.retention(Retention::Last(*keep));
        let mut store = match through {
            Some(device) => store.with_device(device),
            None => store,
        };
        store.lock()?;
        let newest = store.generations()?.last().copied();
        ensure!(
            resume || newest.is_none(),
            "{}: the folder has checkpoints up to generation {}; continue with --restart latest, or use another folder",
            folder.display(),
            newest.unwrap_or(0)
        );
        Ok(Some(Self {
            store,
            every: *every,
            interval: Interval::new(*between_failures),
            since: Instant::now(),
            fingerprint,
        }))
    }

    /// The newest complete generation of this run. Collective.
    pub(super) fn latest(&self, required: bool) -> Result<Option<Generation>> {
        let folder = self.store.folder().display();
        let Some(latest) = self.store.latest()? else {
            ensure!(!required, "{folder}: there is no checkpoint; check the path, or run without --restart");
            return Ok(None);
        };
        ensure!(
            latest.value::<u64>("fingerprint")? == self.fingerprint,
            "{folder}: generation {} belongs to another simulation: another input, number of steps, precision, or other stored quantities",
            latest.number()
        );
        Ok(Some(latest))
    }

    /// Whether a checkpoint is due. Collective.
    pub(super) fn is_due(&self, world: &Comm, step: u64) -> Result<bool> {
        if let Some(steps) = self.every {
            return Ok(step.is_multiple_of(steps));
        }
        let mut due = [u8::from(self.interval.is_due(self.since.elapsed()))];
        world.broadcast(0, &mut due)?;
        Ok(due[0] == 1)
    }

    /// Writes a checkpoint while the run continues; it counts when the output is durable up to its step. Collective.
    pub(super) fn save<T: Real>(
        &mut self,
        state: &RunState<'_, T>,
        output: Option<PendingFlush>,
    ) -> Result<()> {
        let began = Instant::now();
        let mut checkpoint = Checkpoint::new(state.step);
        checkpoint.value("fingerprint", &self.fingerprint);
        for (place, values) in &state.fields {
            checkpoint.array(&place.name, &block(place), values);
        }
        if let Some(output) = &state.output {
            checkpoint.objects(OUTPUT, std::slice::from_ref(output));
        }
        self.store.start_after(checkpoint, || output.map_or(Ok(()), PendingFlush::wait))?;
        self.interval.cost(began.elapsed());
        self.since = Instant::now();
        Ok(())
    }

    /// Waits for the checkpoint that is being written. Collective.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.store.wait()?;
        for warning in self.store.take_warnings() {
            eprintln!("wave: {warning}");
        }
        Ok(())
    }
}
