//! The verification of the runs: every stored value is compared with that of an undisturbed run on one rank.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Launch;
use aqueduct::prelude::*;
use aqueduct::stream::Reader;

use super::particles::{COUNT, FieldParticle, ParticleSimulation};

/// What was verified.
pub(super) struct Verified {
    pub(super) files: String,
    pub(super) text: String,
}

/// The step of the newest checkpoint that is whole.
pub(super) fn restart_step(folder: &Path) -> Result<u64> {
    let step = Launch::threads(1).run(|world| {
        let store = Store::open(world, folder.join("checkpoints"))?;
        store.latest().map(|latest| latest.map(|generation| generation.step()))
    })?;
    step[0].context("the first run was killed before its first checkpoint; run the command again")
}

/// The stream files in a folder, in the order of their first steps.
pub(super) fn stream_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = paths.filter(|path| first_step(path).is_some()).collect();
    files.sort_by_key(|path| first_step(path));
    files
}

/// The first step of the file `from-STEP.stream`.
fn first_step(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("from-")?.strip_suffix(".stream")?.parse().ok()
}

pub(super) fn verify(folder: &Path, restart: u64) -> Result<Verified> {
    let files = stream_files(folder);
    ensure!(files.len() == 2, "expected the stream files of two runs in {}", folder.display());
    let outcome = Launch::threads(1)
        .run(|world| verify_files(world, &files, restart).map_err(|error| format!("{error:#}")))?;
    outcome.into_iter().next().context("no rank has verified the files")
}

fn verify_files(world: &aqueduct::comm::Comm, files: &[PathBuf], restart: u64) -> Result<Verified> {
    let readers = files
        .iter()
        .map(|path| Ok((first_step(path).unwrap_or(0), Reader::open(world, &path.to_string_lossy())?)))
        .collect::<Result<Vec<_>>>()?;
    let last = readers
        .iter()
        .flat_map(|(first, reader)| reader.stored_steps().iter().map(move |step| first + step.step + 1))
        .max();
    let last = last.context("no step is whole")?;
    let mut reference = ParticleSimulation::new(0, 1);
    let (mut steps, mut values) = (0u64, 0u64);
    while reference.step < last {
        let counts = reference.counts();
        reference.advance(&counts);
        let field: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
        let mut is_stored = false;
        for (first, reader) in &readers {
            let Some(step) = reference.step.checked_sub(first + 1).and_then(|number| reader.step(number))
            else {
                continue;
            };
            let particles = reader.objects::<FieldParticle>("particles", step)?.read(0..COUNT)?;
            ensure!(particles == reference.particles, "the particles of step {} differ", reference.step);
            ensure!(
                reader.read::<f64>("density", step)? == field,
                "the density of step {} differs",
                reference.step
            );
            values += 5 * COUNT + field.len() as u64;
            is_stored = true;
        }
        // A run that is killed may lose its last steps, but none before the checkpoint that continues it.
        ensure!(is_stored, "step {} is in no file", reference.step);
        steps += 1;
    }
    let whole = |at: usize| readers[at].1.stored_steps().len();
    let incomplete = readers[0].1.incomplete_steps().len();
    Ok(Verified {
        files: format!(
            "{} whole steps before the kill, of which {} are done again; {} steps of run 2; {incomplete} incomplete",
            whole(0),
            (whole(0) as u64).saturating_sub(restart),
            whole(1)
        ),
        text: format!("all {steps} steps, {values} values, have the bits of an undisturbed run on one rank"),
    })
}
