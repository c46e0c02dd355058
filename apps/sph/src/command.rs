//! The command line.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use aqueduct::comm::{Comm, Launch};
use aqueduct_sph::config::Config;
use aqueduct_sph::output::OutputWay;
use aqueduct_sph::output::step_files::StepFiles;
use aqueduct_sph::record::RecordForm;
use aqueduct_sph::restart::RunStart;
use aqueduct_sph::run::{self, SphSettings};

/// Smoothed particle hydrodynamics after `sph2000`: a jet of diesel into a chamber of air; five ways of output, restart on any number of ranks.
///
/// Ranks are threads of this process, or the processes of an MPI job: `mpirun -n 4 sph jet.cfg`. A trajectory is bitwise the same on any
/// number of ranks and for every decomposition.
#[derive(clap::Parser)]
#[command(name = "sph", version)]
pub(crate) struct SphArguments {
    /// The configuration file [default: the jet, see --print-config]
    config: Option<PathBuf>,
    /// Print the configuration with all keys, and end
    #[arg(long)]
    print_config: bool,
    /// Set a key of the configuration, for example `--set "integrator cash-karp"`
    #[arg(long, value_name = "KEY VALUES")]
    set: Vec<String>,
    /// The last step, counted from the start of the trajectory
    #[arg(long, short, default_value_t = 200)]
    steps: u64,
    /// Number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
    /// The way of output [default: no output]
    #[arg(long)]
    output: Option<OutputWay>,
    /// The form of stored particles: lists are of variable size, arrays of constant size
    #[arg(long, default_value = "lists")]
    record: RecordForm,
    /// The prefix of the names of all files
    #[arg(long, default_value = "sph")]
    prefix: String,
    /// A device for the particles, with its colon, for example `throttle=11MB/s each:ufs:`
    #[arg(long, value_name = "DEVICE", default_value = "", hide_default_value = true, value_parser = device)]
    file: String,
    /// Steps between two outputs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Steps between two pictures (PNG) of a slice; with numbered names they are the frames of a movie
    #[arg(long, value_name = "STEPS", default_value_t = 0, hide_default_value = true)]
    pictures: u64,
    /// Steps between two frames in a VTKHDF file
    #[arg(long, value_name = "STEPS", default_value_t = 0, hide_default_value = true)]
    vtk: u64,
    /// Restart at the `latest` complete step, on any number of ranks; with `auto`, start from the beginning if there is none; or at a step
    #[arg(long, value_name = "WHICH", value_parser = restart)]
    restart: Option<RunStart>,
    /// Start from the beginning and remove stored steps
    #[arg(long, conflicts_with = "restart")]
    start_over: bool,
    /// Append the times as a line of JSON
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
    /// Number of lines to print; 0 prints nothing
    #[arg(long, default_value_t = 10)]
    rows: u64,
}

fn restart(text: &str) -> Result<RunStart, String> {
    match (text, text.parse()) {
        ("latest", _) => Ok(RunStart::Latest),
        ("auto", _) => Ok(RunStart::LatestIfAny),
        (_, Ok(step)) => Ok(RunStart::Step(step)),
        _ => Err("give latest, auto or the number of a step".to_owned()),
    }
}

fn device(text: &str) -> Result<String, String> {
    let named = text.is_empty() || text.ends_with(':');
    named.then(|| text.to_owned()).ok_or_else(|| "give a device or layers, each with its colon".to_owned())
}

/// Runs the command.
pub(crate) fn run(command: &SphArguments) -> Result<()> {
    let launch = Launch::from_env()?;
    let launch = command.ranks.map_or(launch.clone(), |ranks| launch.ranks(ranks));
    launch.run(|world| rank(world, command).map_err(|error| format!("{error:#}")))?;
    Ok(())
}

fn rank(world: &Comm, command: &SphArguments) -> Result<()> {
    let config = config(world, command)?;
    if command.print_config {
        if world.rank() == 0 {
            print!("{config}");
        }
        return Ok(());
    }
    let start = match command.restart {
        Some(start) => start,
        None if command.start_over => RunStart::StartOver,
        None => RunStart::New,
    };
    let settings = SphSettings {
        steps: command.steps,
        way: command.output,
        record: command.record,
        files: StepFiles { prefix: command.prefix.clone(), device: command.file.clone() },
        every: command.every,
        pictures: command.pictures,
        vtk: command.vtk,
        start,
        times: command.times.clone(),
        rows: command.rows,
        ..SphSettings::new(config, command.steps)
    };
    run::run(world, &settings).map(drop)
}

/// Rank 0 reads the configuration; all ranks parse the same text.
fn config(world: &Comm, command: &SphArguments) -> Result<Config> {
    let (mut name, mut text) = ("--set".to_owned(), String::new());
    if let Some(path) = &command.config {
        name = path.display().to_string();
        let read = if world.rank() == 0 { fs::read(path) } else { Ok(Vec::new()) };
        let read = read.with_context(|| format!("reading the configuration {name}"))?;
        text = String::from_utf8_lossy(&world.broadcast_vec(0, read)?).into_owned();
    }
    for line in &command.set {
        text.push('\n');
        text.push_str(line);
    }
    Config::parse(&name, &text)
}
