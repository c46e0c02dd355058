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

/// The configuration that is used if none is given.
const ARGON: &str = "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\n\
    phaseSpaceFile Generator fcc 4000 0.8442 1.44\nparallelization KDDecomposition\n";

/// Lennard-Jones molecular dynamics after `MarDyn`: linked cells, leapfrog, checkpoints, restart on any number of ranks.
///
/// Ranks are threads of this process, or the processes of an MPI job: `mpirun -n 4 md liquid.cfg`. A trajectory is bitwise the same on
/// any number of ranks and for every decomposition.
#[derive(clap::Parser)]
#[command(name = "md", version)]
pub(crate) struct MdArguments {
    /// The configuration file [default: 4000 molecules of liquid argon, no output files]
    config: Option<PathBuf>,
    /// The last step, counted from the start of the trajectory
    #[arg(long, short, default_value_t = 200)]
    steps: u64,
    /// Number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
    /// Number of rows of energies to print; 0 prints nothing
    #[arg(long, default_value_t = 10)]
    rows: u64,
    /// The folder for checkpoints; it must not have other contents
    #[arg(long, value_name = "FOLDER")]
    checkpoints: Option<PathBuf>,
    /// A device for the files of checkpoints; `fault=nospace=1000000:ufs:` simulates a disk that is full after 1 MB
    #[arg(long, value_name = "DEVICE", requires = "checkpoints", value_parser = device)]
    through: Option<String>,
    /// Steps between two checkpoints, or `auto`: the interval that costs the least time, from the measured cost and --mtbf
    #[arg(long, value_name = "STEPS", default_value = "auto", requires = "checkpoints")]
    every: CheckpointFrequency,
    /// Mean time between failures, for `--every auto`: 90m, 24h, 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    mtbf: Duration,
    /// Number of checkpoints that are kept
    #[arg(long, default_value = "2")]
    keep: NonZeroUsize,
    /// Wait for each checkpoint instead of computing while it is written
    #[arg(long)]
    blocking: bool,
    /// Restart from the `latest` checkpoint, on any number of ranks; with `auto`, start from the beginning if there is none
    #[arg(long, value_name = "WHICH", requires = "checkpoints")]
    restart: Option<RestartChoice>,
    /// Restart from this generation of the checkpoints, and discard the newer ones
    #[arg(long, value_name = "NUMBER", requires = "checkpoints", conflicts_with = "restart")]
    generation: Option<u64>,
    /// Start from the beginning in a folder that has checkpoints, and discard them
    #[arg(long, requires = "checkpoints", conflicts_with_all = ["restart", "generation"])]
    start_over: bool,
    /// End with a checkpoint before this time: a duration from now (`90m`), seconds since 1970 (`@1800000000`), or UTC (`2026-11-18T14:30:00Z`)
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

/// Parses a device prefix.
fn device(text: &str) -> Result<String, String> {
    let named = text.ends_with(':').then(|| text.to_owned());
    named.ok_or_else(|| {
        "give a device or layers, each with its colon, for example ufs: or fault=nospace=1000000:ufs:"
            .to_owned()
    })
}

/// Runs the command; returns why the run ended before its last step, if it did.
pub(crate) fn run(command: &MdArguments) -> Result<Option<StopReason>> {
    let signal = Arc::new(AtomicBool::new(false));
    if command.checkpoints.is_some() {
        // Without checkpoints SIGTERM ends the process as usual.
        signal_hook::flag::register(SIGTERM, Arc::clone(&signal))
            .context("installing the handler of SIGTERM")?;
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

/// Rank 0 reads the configuration; all ranks parse the same text.
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
    fn the_checkpoint_frequency_is_auto_or_a_number_of_steps() {
        assert!(matches!("auto".parse(), Ok(CheckpointFrequency::Auto)));
        assert!(matches!("100".parse(), Ok(CheckpointFrequency::Steps(100))));
        assert!(["0", "-1", "often"].iter().all(|text| text.parse::<CheckpointFrequency>().is_err()));
    }
}
