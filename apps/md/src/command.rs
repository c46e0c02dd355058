//! The command line.

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use aqueduct::comm::{Comm, Launch};
use aqueduct_md::input::config::Config;
use aqueduct_md::restart::checkpointer::{CheckpointInterval, CheckpointPolicy, StartMode};
use aqueduct_md::restart::stop_condition::{StopCondition, StopReason};
use aqueduct_md::restart::wall_time::{duration, moment};
use aqueduct_md::run::{self, RunSettings};
use signal_hook::consts::SIGTERM;

/// What is simulated where no configuration is given.
const ARGON: &str = "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\n\
    phaseSpaceFile Generator fcc 4000 0.8442 1.44\nparallelization KDDecomposition\n";

/// Lennard-Jones molecular dynamics after `MarDyn`: linked cells, leapfrog, checkpoints, restart on any number of ranks.
///
/// Ranks are threads of this process, or the processes of an MPI job: `mpirun -n 4 md liquid.cfg`. A trajectory is the same, to the
/// bit, on any number of ranks and for every decomposition.
#[derive(clap::Parser)]
#[command(name = "md", version)]
pub(crate) struct MdArguments {
    /// The configuration [default: 4000 molecules of liquid argon, nothing written]
    config: Option<PathBuf>,
    /// The last step, counted from the start of the trajectory
    #[arg(long, short, default_value_t = 200)]
    steps: u64,
    /// Ranks, where they are threads [default: as `AQUEDUCT_RANKS` says, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
    /// Rows of energies to print; 0 prints nothing at all
    #[arg(long, default_value_t = 10)]
    rows: u64,
    /// The folder for checkpoints; nothing else belongs there
    #[arg(long, value_name = "FOLDER")]
    checkpoints: Option<PathBuf>,
    /// A device that files of checkpoints go through: `fault=nospace=1000000:ufs:` plays a disk that is full after a megabyte
    #[arg(long, value_name = "DEVICE", requires = "checkpoints", value_parser = device)]
    through: Option<String>,
    /// Steps between two checkpoints, or `auto`: as often as it pays, by what they cost and how often the machine fails
    #[arg(long, value_name = "STEPS", default_value = "auto", requires = "checkpoints")]
    every: CheckpointFrequency,
    /// The mean time between failures, for `--every auto`: 90m, 24h, 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    mtbf: Duration,
    /// Checkpoints that are kept
    #[arg(long, default_value = "2")]
    keep: NonZeroUsize,
    /// Wait for each checkpoint instead of computing on while it is written
    #[arg(long)]
    blocking: bool,
    /// Come back to the `latest` checkpoint, on any number of ranks; `auto`: without one, begin at the beginning
    #[arg(long, value_name = "WHICH", requires = "checkpoints")]
    restart: Option<RestartChoice>,
    /// Come back to this generation of the checkpoints, and give up the newer ones
    #[arg(long, value_name = "NUMBER", requires = "checkpoints", conflicts_with = "restart")]
    generation: Option<u64>,
    /// Begin at the beginning in a folder that has checkpoints, and give them up
    #[arg(long, requires = "checkpoints", conflicts_with_all = ["restart", "generation"])]
    start_over: bool,
    /// End with a checkpoint before this: a duration from now on (`90m`), seconds since 1970 (`@1800000000`), or a moment in UTC (`2026-11-18T14:30:00Z`)
    #[arg(long, value_name = "TIME", requires = "checkpoints", value_parser = moment)]
    until: Option<SystemTime>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum RestartChoice {
    Latest,
    Auto,
}

impl MdArguments {
    fn start(&self) -> StartMode {
        match (self.restart, self.generation) {
            (Some(RestartChoice::Latest), _) => StartMode::Latest,
            (Some(RestartChoice::Auto), _) => StartMode::LatestIfAny,
            (None, Some(number)) => StartMode::Generation(number),
            (None, None) if self.start_over => StartMode::StartOver,
            (None, None) => StartMode::New,
        }
    }
}

/// How often checkpoints are written.
#[derive(Clone, Copy)]
enum CheckpointFrequency {
    Auto,
    Steps(u64),
}

impl FromStr for CheckpointFrequency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Self::Auto),
            (_, Ok(steps)) if steps > 0 => Ok(Self::Steps(steps)),
            _ => Err("give a number of steps, or auto".to_owned()),
        }
    }
}

/// What goes in front of names.
fn device(text: &str) -> Result<String, String> {
    let named = text.ends_with(':').then(|| text.to_owned());
    named.ok_or_else(|| {
        "give a device or wrappers with their colons, such as ufs: or fault=nospace=1000000:ufs:".to_owned()
    })
}

/// Runs it; why it has ended before its last step, if it did.
pub(crate) fn run(command: &MdArguments) -> Result<Option<StopReason>> {
    let signal = Arc::new(AtomicBool::new(false));
    if command.checkpoints.is_some() {
        // Without checkpoints there is nothing to be done before the end.
        signal_hook::flag::register(SIGTERM, Arc::clone(&signal)).context("waiting for SIGTERM")?;
    }
    let stop =
        StopCondition { signal: command.checkpoints.is_some().then_some(signal), limit: command.until };
    let launch = Launch::from_env()?;
    let launch = command.ranks.map_or(launch.clone(), |ranks| launch.ranks(ranks));
    let ends = launch.run(|world| rank(world, command, &stop).map_err(|error| format!("{error:#}")))?;
    Ok(ends.into_iter().flatten().next())
}

fn rank(world: &Comm, command: &MdArguments, stop: &StopCondition) -> Result<Option<StopReason>> {
    let every = match command.every {
        CheckpointFrequency::Auto => CheckpointInterval::Auto(command.mtbf),
        CheckpointFrequency::Steps(steps) => CheckpointInterval::Steps(steps),
    };
    let policy = |folder: &PathBuf| CheckpointPolicy {
        folder: folder.clone(),
        through: command.through.clone(),
        every,
        keep: command.keep.get(),
        blocking: command.blocking,
    };
    let job = RunSettings {
        config: config(world, command)?,
        steps: command.steps,
        rows: command.rows,
        checkpoints: command.checkpoints.as_ref().map(policy),
        start: command.start(),
        stop: stop.clone(),
    };
    Ok(run::run(world, &job)?.stopped)
}

/// Rank 0 reads it; all ranks understand the same text.
fn config(world: &Comm, command: &MdArguments) -> Result<Config> {
    let Some(path) = &command.config else { return Config::parse("argon", ARGON) };
    let text = match world.rank() {
        0 => fs::read(path).with_context(|| format!("reading the configuration {}", path.display()))?,
        _ => Vec::new(),
    };
    let text = world.broadcast_vec(0, text)?;
    Config::parse(&path.display().to_string(), &String::from_utf8_lossy(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_ends_in_a_colon() {
        assert_eq!(device("trace=x:ufs:").as_deref(), Ok("trace=x:ufs:"));
        assert!(device("ufs").unwrap_err().contains("colon"));
    }

    #[test]
    fn checkpoints_are_due_by_steps_or_as_often_as_it_pays() {
        assert!(matches!("auto".parse(), Ok(CheckpointFrequency::Auto)));
        assert!(matches!("100".parse(), Ok(CheckpointFrequency::Steps(100))));
        assert!(["0", "-1", "often"].iter().all(|text| text.parse::<CheckpointFrequency>().is_err()));
    }
}
