//! A run from its first to its last step.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;
use serde::Serialize;

use crate::config::FmmConfig;
use crate::packet_file::OutputStart;
use crate::packet_output::{IoMethod, PacketOutput, read_last};
use crate::picture;
use crate::scene;
use crate::simulation::FmmSimulation;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct FmmSettings {
    /// The configuration.
    pub config: FmmConfig,
    /// The last step, counted from the start.
    pub steps: u64,
    /// Steps between two stored ones.
    pub every: u64,
    /// The file of packets.
    pub output: Option<String>,
    /// A file of packets to begin with, in place of the ball.
    pub input: Option<String>,
    /// Continue the output after its last stored step.
    pub restart: bool,
    /// Replace an output that exists.
    pub start_over: bool,
    /// Who reads and writes.
    pub io: IoMethod,
    /// Rows of energies to print.
    pub rows: u64,
    /// A picture of the last step.
    pub picture: Option<PathBuf>,
}

impl FmmSettings {
    /// A run to this step without files.
    pub fn new(config: FmmConfig, steps: u64) -> Self {
        let (every, io) = (config.method.relay, IoMethod::Together);
        let (output, input, picture) = (None, None, None);
        let (restart, start_over, rows) = (false, false, 0);
        Self { config, steps, every, output, input, restart, start_over, io, rows, picture }
    }
}

/// The times of a run in seconds, of the rank that spends most of them reading and writing, so that they add up; and the bytes of all ranks. One line
/// of JSON.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct FmmTimes {
    /// `fmm`.
    pub program: &'static str,
    /// Number of ranks.
    pub ranks: usize,
    /// Who reads and writes.
    pub output: String,
    /// Computing, with the global sums.
    pub compute: f64,
    /// Reading and writing, with the messages of that.
    pub io: f64,
    /// Messages of reading and writing that are not in `io`: none.
    pub talk: f64,
    /// The global sums.
    pub sums: f64,
    /// All of it.
    pub total: f64,
    /// Bytes written.
    pub bytes: u64,
}

impl FmmTimes {
    /// Appends the line to a file.
    pub fn append(&self, path: &Path) -> Result<()> {
        let write = || {
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            writeln!(file, "{}", serde_json::to_string(self)?)
        };
        write().with_context(|| format!("writing {}", path.display()))
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct FmmOutcome {
    /// Kinetic energy of the last step.
    pub kinetic: f64,
    /// Internal energy of the last step.
    pub internal: f64,
    /// Entropy of the last step.
    pub entropy: f64,
    /// Where the time went.
    pub times: FmmTimes,
}

/// Executes a run. Collective.
pub fn run(world: &Comm, settings: &FmmSettings) -> Result<FmmOutcome> {
    match settings.config.dimension {
        2 => run_in::<2>(world, settings),
        _ => run_in::<3>(world, settings),
    }
}

fn run_in<const D: usize>(world: &Comm, settings: &FmmSettings) -> Result<FmmOutcome> {
    let (config, start) = (&settings.config, Instant::now());
    let relay = config.method.relay;
    ensure!(
        settings.every > 0 && settings.every.is_multiple_of(relay),
        "steps are stored when the quadrature points are laid anew: --every must be a multiple of {relay}"
    );
    let reading = Instant::now();
    let (packets, stored) = initial_packets::<D>(world, settings)?;
    let first = stored.map_or(0, |stored| stored.saturating_sub(1) * settings.every);
    let start_over = if settings.start_over { OutputStart::Replace } else { OutputStart::New };
    let begin = stored.map_or(start_over, OutputStart::After);
    let open = |name: &String| PacketOutput::open(world, settings.io, name, packets.len(), begin);
    let mut output = settings.output.as_ref().map(open).transpose()?;
    let (mut io, mut bytes) = (reading.elapsed(), 0);
    let mut simulation = FmmSimulation::new(world, config.method, packets, first)?;
    let prints = world.rank() == 0 && settings.rows > 0;
    if prints {
        println!(
            "{:>9} {:>10} {:>20} {:>20} {:>20} {:>12}",
            "step", "time", "kinetic", "internal", "total", "entropy"
        );
    }
    let between = (settings.steps.saturating_sub(first) / settings.rows.max(1)).max(1);
    loop {
        let (step, last) = (simulation.step(), simulation.step() >= settings.steps);
        if prints && ((step - first).is_multiple_of(between) || last) {
            print_row(&simulation);
        }
        let is_new = stored.is_none() || step > first;
        if let Some(output) = output.as_mut().filter(|_| is_new && step.is_multiple_of(settings.every)) {
            output.write(simulation.packets())?;
            bytes += size_of_val(simulation.packets()) as u64;
        }
        if last {
            break;
        }
        simulation.advance()?;
    }
    if let Some(path) = settings.picture.as_ref().filter(|_| world.rank() == 0) {
        write_picture(&simulation, path)?;
    }
    let closing = Instant::now();
    if let Some(output) = output {
        io += output.time;
        output.close()?;
    }
    io += closing.elapsed();
    let total = start.elapsed();
    let times = [total.saturating_sub(io), io, simulation.sum_time, total].map(|time| time.as_secs_f64());
    let [compute, io, sums, total] = times_of_longest_io(world, times)?;
    let energies = simulation.energies();
    Ok(FmmOutcome {
        kinetic: energies.kinetic,
        internal: energies.internal,
        entropy: simulation.entropy(),
        times: FmmTimes {
            program: "fmm",
            ranks: world.size(),
            output: format!("{:?}", settings.io).to_lowercase(),
            compute,
            io,
            talk: 0.0,
            sums,
            total,
            bytes,
        },
    })
}

/// The times of the rank with the most of the second kind. Collective.
fn times_of_longest_io(world: &Comm, times: [f64; 4]) -> Result<[f64; 4]> {
    let all = world.allgather(&[times])?;
    Ok(all.into_iter().max_by(|one, other| one[1].total_cmp(&other[1])).unwrap_or(times))
}

/// The packets to begin with: those of the last stored step of the output, of the input, or the ball; and the number of steps in the output, if it is
/// continued.
fn initial_packets<const D: usize>(
    world: &Comm,
    settings: &FmmSettings,
) -> Result<(Vec<crate::packet::MassPacket<D>>, Option<u64>)> {
    let config = &settings.config;
    if let Some(output) = settings.output.as_ref().filter(|_| settings.restart) {
        let (packets, steps) = read_last(world, settings.io, output, config.packets)?;
        return Ok((packets, Some(steps)));
    }
    match &settings.input {
        Some(input) => Ok((read_last(world, settings.io, input, config.packets)?.0, None)),
        None => Ok((scene::ball(config.packets, config.method.gas.gamma)?, None)),
    }
}

fn write_picture<const D: usize>(simulation: &FmmSimulation<'_, D>, path: &Path) -> Result<()> {
    let caption = format!("{} packets, time {:.3}", simulation.packets().len(), simulation.time());
    fs::write(path, picture::svg(simulation.packets(), &caption))
        .with_context(|| format!("writing the picture {}", path.display()))
}

fn print_row<const D: usize>(simulation: &FmmSimulation<'_, D>) {
    let energies = simulation.energies();
    println!(
        "{:9} {:10.4} {:20.15} {:20.15} {:20.15} {:12.8}",
        simulation.step(),
        simulation.time(),
        energies.kinetic,
        energies.internal,
        energies.total(),
        simulation.entropy()
    );
}
