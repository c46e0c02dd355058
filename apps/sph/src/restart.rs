//! Restart: the last complete step of a run, on any number of ranks.

use anyhow::{Context, Result, bail, ensure};
use aqueduct::comm::Comm;

use crate::config::Config;
use crate::output::step_files::{StepFiles, StepHeader};
use crate::simulation::SphSimulation;

/// Where a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStart {
    /// From the beginning; stored steps of the same prefix are an error.
    New,
    /// From the beginning; stored steps are removed.
    StartOver,
    /// At the last complete step.
    Latest,
    /// At the last complete step, or from the beginning if there is none.
    LatestIfAny,
    /// At this step.
    Step(u64),
}

/// The simulation at a stored step; files of later steps are removed. `None` if there is no step and none is required. Collective.
pub fn resume<'w>(
    world: &'w Comm,
    files: &StepFiles,
    start: RunStart,
    note: impl Fn(&str),
) -> Result<Option<SphSimulation<'w>>> {
    let headers = headers(world, files, start)?;
    let mut reason = None;
    for header in headers {
        let step = header.state.step;
        match load(world, files, &header) {
            Ok(simulation) => {
                remove_later(world, files, step)?;
                note(&format!(
                    "restart at step {step}, written by {} ranks as {}",
                    header.ranks,
                    header.way.name()
                ));
                return Ok(Some(simulation));
            }
            Err(error) if matches!(start, RunStart::Step(_)) => return Err(error),
            Err(error) => {
                note(&format!("step {step} is not complete: {error:#}"));
                reason = Some(error);
            }
        }
    }
    match (start, reason) {
        (RunStart::LatestIfAny, _) => {
            if world.rank() == 0 {
                files.remove_after(None)?;
            }
            world.barrier()?;
            Ok(None)
        }
        (_, Some(error)) => Err(error.context(format!("no stored step of {} is complete", files.prefix))),
        (_, None) => bail!("there is no stored step of {}; run without --restart", files.prefix),
    }
}

/// The headers of the steps to try, the last one first, as rank 0 reads them.
fn headers(world: &Comm, files: &StepFiles, start: RunStart) -> Result<Vec<StepHeader>> {
    let mut found = Ok(Vec::new());
    if world.rank() == 0 {
        found = match start {
            RunStart::Step(step) => files.read_header(step).map(|header| vec![header]),
            // An unreadable header is that of an incomplete step.
            _ => {
                Ok(files.steps().into_iter().rev().filter_map(|step| files.read_header(step).ok()).collect())
            }
        };
    }
    let text = match &found {
        Ok(headers) => serde_json::to_vec(headers)?,
        Err(error) => format!("!{error:#}").into_bytes(),
    };
    let text = world.broadcast_vec(0, text)?;
    if let Some((b'!', message)) = text.split_first() {
        bail!("{}", String::from_utf8_lossy(message));
    }
    Ok(serde_json::from_slice(&text)?)
}

fn load<'w>(world: &'w Comm, files: &StepFiles, header: &StepHeader) -> Result<SphSimulation<'w>> {
    let step = header.state.step;
    let config = Config::parse(&format!("the configuration in the header of step {step}"), &header.config)?;
    ensure!(
        header.quantities == config.quantities(),
        "step {step} has other quantities than its configuration; it was written by another version"
    );
    let particles = files.read(world, header).with_context(|| format!("reading step {step}"))?;
    SphSimulation::resume(world, &config, particles, header.state)
}

fn remove_later(world: &Comm, files: &StepFiles, step: u64) -> Result<()> {
    let removed = if world.rank() == 0 { files.remove_after(Some(step)) } else { Ok(()) };
    world.barrier()?;
    removed
}

/// Checks or clears the stored steps of a run from the beginning. Collective.
pub fn begin(world: &Comm, files: &StepFiles, start: RunStart) -> Result<()> {
    let found = if world.rank() == 0 { files.steps().last().copied() } else { None };
    let found = world.broadcast_vec(0, found.into_iter().collect::<Vec<u64>>())?;
    if let (RunStart::New, [last]) = (start, found.as_slice()) {
        bail!(
            "there are stored steps of {} up to step {last}; continue with --restart latest, discard them with --start-over, \
             or use another --prefix",
            files.prefix
        );
    }
    if start == RunStart::StartOver && world.rank() == 0 {
        files.remove_after(None)?;
    }
    Ok(world.barrier()?)
}
