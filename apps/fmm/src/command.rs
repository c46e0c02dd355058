//! The command line.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use aqueduct::comm::{Comm, Launch};
use aqueduct_fmm::config::FmmConfig;
use aqueduct_fmm::packet_output::IoMethod;
use aqueduct_fmm::run::{FmmSettings, run as run_simulation};

/// The finite mass method: a ball of gas expands, divided into mass packets that deform.
///
/// Ranks are threads of this process, or the processes of an MPI job: `mpirun -n 4 fmm ball.cfg`. A trajectory is bitwise the same on any number of ranks.
#[derive(clap::Parser)]
#[command(name = "fmm", version)]
pub(crate) struct FmmArguments {
    /// The configuration file [default: 400 packets in 2 dimensions]
    config: Option<PathBuf>,
    /// The last step, counted from the start of the trajectory
    #[arg(long, short, default_value_t = 400)]
    steps: u64,
    /// Number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
    /// Steps between two stored ones; a multiple of the `relay` of the configuration
    #[arg(long, default_value_t = 20)]
    every: u64,
    /// The file of packets; a name of Aqueduct, for example throttle=11MB/s:ufs:ball
    #[arg(long, short)]
    output: Option<String>,
    /// Who reads and writes the packets, and when; an input and a restart have the method that they were written with
    #[arg(long, value_enum, default_value_t = IoMethod::Together)]
    io: IoMethod,
    /// Continue the output after its last stored step, on any number of ranks
    #[arg(long, requires = "output")]
    restart: bool,
    /// Replace an output that exists
    #[arg(long, conflicts_with = "restart")]
    start_over: bool,
    /// Begin with the last stored step of this file
    #[arg(long, conflicts_with = "restart")]
    input: Option<String>,
    /// Number of rows of energies to print; 0 prints nothing
    #[arg(long, default_value_t = 10)]
    rows: u64,
    /// Draw the packets of the last step as ellipses, in SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Append where the time went, as one line of JSON
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(command: &FmmArguments) -> Result<()> {
    let launch = Launch::from_env()?;
    let launch = command.ranks.map_or(launch.clone(), |ranks| launch.ranks(ranks));
    launch.run(|world| rank(world, command).map_err(|error| format!("{error:#}")))?;
    Ok(())
}

fn rank(world: &Comm, command: &FmmArguments) -> Result<()> {
    let settings = FmmSettings {
        config: config(world, command)?,
        steps: command.steps,
        every: command.every,
        output: command.output.clone(),
        input: command.input.clone(),
        restart: command.restart,
        start_over: command.start_over,
        io: command.io,
        rows: command.rows,
        picture: command.picture.clone(),
    };
    let outcome = run_simulation(world, &settings)?;
    if world.rank() > 0 {
        return Ok(());
    }
    if command.rows > 0 {
        println!("{}", serde_json::to_string(&outcome.times)?);
    }
    command.times.as_ref().map_or(Ok(()), |path| outcome.times.append(path))
}

/// Rank 0 reads the configuration; all ranks parse the same text.
fn config(world: &Comm, command: &FmmArguments) -> Result<FmmConfig> {
    let Some(path) = &command.config else { return Ok(FmmConfig::default()) };
    let text = match world.rank() {
        0 => fs::read(path).with_context(|| format!("reading the configuration {}", path.display()))?,
        _ => Vec::new(),
    };
    let text = world.broadcast_vec(0, text)?;
    FmmConfig::parse(&path.display().to_string(), &String::from_utf8_lossy(&text))
}
