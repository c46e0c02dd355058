//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aqueduct::comm::{Comm, Launch};
use aqueduct::stream::{self, Options, OutputMode, Role};
use aqueduct_wave::grid::decomposition::DecompositionKind;
use aqueduct_wave::output::output_file::open_target;
use aqueduct_wave::output::recorder::RecordingOptions;
use aqueduct_wave::progress::print_line;
use aqueduct_wave::restart::{CheckpointKind, CheckpointRule, FileInterval};
use aqueduct_wave::run::{self, RunInput, WaveSettings, WaveSummary};
use aqueduct_wave::scenario::built_in::{Scenario, ScenarioKind, ScenarioOptions};
use aqueduct_wave::scenario::input_writer::write_input;
use aqueduct_wave::scenario::listed_points::SensorChoice;

use crate::flags::QuantityArguments;

/// Ultrasound by the k-space pseudospectral method, with the input files, output files and command line of k-Wave.
///
/// Ranks are threads of this process, or the processes of an MPI job: `mpirun -n 4 wave -i input.h5 -o output.h5`. Results are bitwise the same
/// on any number of ranks. Without an input file a built-in simulation runs.
#[derive(clap::Parser)]
#[command(name = "wave", version, args_conflicts_with_subcommands = true)]
pub(crate) struct WaveArguments {
    #[command(subcommand)]
    action: Option<WaveAction>,
    /// The input file of k-Wave
    #[arg(short = 'i', value_name = "FILE", requires = "output")]
    input: Option<String>,
    /// The output file
    #[arg(short = 'o', value_name = "FILE")]
    output: Option<String>,
    /// The number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores]
    #[arg(short = 't', value_name = "THREADS")]
    threads: Option<usize>,
    /// The same as -t
    #[arg(short = 'n', value_name = "RANKS", conflicts_with = "threads")]
    ranks: Option<usize>,
    /// Report progress every so many per cent
    #[arg(short = 'r', value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    percent: u64,
    /// Compress the output (deflate)
    #[arg(short = 'c', value_name = "LEVEL", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=9))]
    compression: u32,
    /// Sample from this step on, counted from 1
    #[arg(short = 's', value_name = "STEP", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    first_sample: u64,
    /// Make only so many steps
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(1..))]
    benchmark: Option<u64>,
    /// How much is printed
    #[arg(long, value_name = "LEVEL", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=2))]
    verbose: u8,
    /// Copy the mask of the sensor to the output
    #[arg(long = "copy_sensor_mask")]
    copy_sensor_mask: bool,
    /// GPU of k-Wave's CUDA program: not supported
    #[arg(short = 'g', value_name = "DEVICE")]
    gpu: Option<String>,
    #[command(flatten)]
    quantities: QuantityArguments,
    #[command(flatten)]
    stream: StreamArguments,
    #[command(flatten)]
    restart: RestartArguments,
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// How the grid is decomposed among ranks
    #[arg(long, value_enum, default_value_t = DecompositionChoice::Auto)]
    decomposition: DecompositionChoice,
    /// The precision of the computation
    #[arg(long, value_enum, default_value_t = PrecisionChoice::Single)]
    precision: PrecisionChoice,
    /// Write times and memory of the run to this file (JSON)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write pictures of the final pressure, one plane per direction, to files of this prefix (PNG)
    #[arg(long, value_name = "PREFIX")]
    pictures: Option<String>,
}

#[derive(clap::Subcommand)]
enum WaveAction {
    /// Write a built-in simulation as an input file of k-Wave
    Make {
        /// The simulation
        simulation: ScenarioChoice,
        /// The file
        file: String,
        #[command(flatten)]
        scenario: ScenarioArguments,
    },
    /// Compare an output with another one: the same as `aqueduct compare --data-only`
    Verify {
        /// The output
        output: OsString,
        /// The file to compare it with
        #[arg(long, value_name = "FILE")]
        against: OsString,
        /// More options of `aqueduct compare`, such as --threshold 1e-6
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
}

/// Options of built-in simulations.
#[derive(clap::Args)]
struct ScenarioArguments {
    /// The built-in simulation
    #[arg(long = "scenario", value_enum, default_value_t = ScenarioChoice::Ball)]
    kind: ScenarioChoice,
    /// Points of a built-in simulation: N for a cube, or `NxNyxNz`
    #[arg(long, value_name = "POINTS", default_value = "64")]
    grid: GridChoice,
    /// Steps of a built-in simulation
    #[arg(long, default_value_t = 200)]
    steps: u64,
    /// Courant number of a built-in simulation: points that a wave moves in a step
    #[arg(long, default_value_t = 0.3)]
    courant: f64,
    /// Where a built-in simulation is sampled: slice:x, slice:y, slice:z, points:N, boxes:COUNTxSIDE or whole
    #[arg(long, default_value = "slice:z")]
    sensor: SensorArgument,
}

/// Options of the output of samples.
#[derive(clap::Args)]
struct StreamArguments {
    /// Which ranks and threads write samples
    #[arg(long, value_enum, default_value_t = ModeArgument::Auto)]
    mode: ModeArgument,
    /// The number of buffers per rank
    #[arg(long, default_value_t = 2)]
    buffers: usize,
    /// The memory of the buffers of a rank in bytes
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
    /// The number of ranks that only write, with --mode servers [default: one per node]
    #[arg(long, value_name = "RANKS")]
    servers: Option<usize>,
    /// The number of ranks of a group in which a leader writes
    #[arg(long, value_name = "RANKS")]
    group: Option<usize>,
    /// Bind I/O threads to these processors, numbered from 0
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    pin: Vec<usize>,
    /// Make samples durable every so many steps
    #[arg(long = "durable-every", value_name = "STEPS")]
    durable_every: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ModeArgument {
    Auto,
    Blocking,
    Thread,
    Leaders,
    Servers,
}

impl StreamArguments {
    fn options(&self) -> Options {
        let mode = match self.mode {
            ModeArgument::Auto => OutputMode::Auto,
            ModeArgument::Blocking => OutputMode::Blocking,
            ModeArgument::Thread => OutputMode::Thread,
            ModeArgument::Leaders => OutputMode::Leaders,
            ModeArgument::Servers => OutputMode::Servers,
        };
        let options = Options::new().mode(mode).buffers(self.buffers).pin(self.pin.iter().copied());
        let options = self.memory.map_or(options.clone(), |bytes| options.memory(bytes));
        let options = self.group.map_or(options.clone(), |ranks| options.group(ranks));
        self.durable_every.map_or(options.clone(), |steps| options.durable_every(steps))
    }
}

/// Options of checkpoints.
#[derive(clap::Args)]
struct RestartArguments {
    /// A checkpoint file as k-Wave has it: the run ends when the interval is over, and the same command continues it
    #[arg(long = "checkpoint_file", value_name = "FILE", conflicts_with = "checkpoints")]
    checkpoint_file: Option<String>,
    /// Seconds after which the run ends with a checkpoint
    #[arg(long = "checkpoint_interval", value_name = "SECONDS", requires = "checkpoint_file")]
    checkpoint_interval: Option<u64>,
    /// Steps after which the run ends with a checkpoint
    #[arg(long = "checkpoint_timesteps", value_name = "STEPS", requires = "checkpoint_file")]
    checkpoint_timesteps: Option<u64>,
    /// The folder for checkpoints that are written while the run continues
    #[arg(long, value_name = "FOLDER", requires = "output")]
    checkpoints: Option<PathBuf>,
    /// A device for the files of checkpoints; `fault=nospace=1000000:ufs:` simulates a disk that is full after 1 MB
    #[arg(long, value_name = "DEVICE", requires = "checkpoints")]
    through: Option<String>,
    /// Steps between two checkpoints, or `auto`: the interval that costs the least time, from the measured cost and --mtbf
    #[arg(long, value_name = "STEPS", default_value = "auto", requires = "checkpoints")]
    every: String,
    /// Mean time between failures in hours, for `--every auto`
    #[arg(long, value_name = "HOURS", default_value_t = 24.0, requires = "checkpoints")]
    mtbf: f64,
    /// Number of checkpoints that are kept
    #[arg(long, default_value_t = 2, requires = "checkpoints")]
    keep: usize,
    /// Continue at the `latest` checkpoint, on any number of ranks; with `auto`, start from the beginning if there is none
    #[arg(long, value_name = "WHICH", requires = "checkpoints")]
    restart: Option<RestartMode>,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum RestartMode {
    Latest,
    Auto,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum DecompositionChoice {
    Auto,
    Slab,
    Pencil,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum PrecisionChoice {
    Single,
    Double,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ScenarioChoice {
    Mode,
    Ball,
    Plane,
    Tissue,
}

#[derive(Clone, Copy)]
struct GridChoice([usize; 3]);

impl FromStr for GridChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
        match parts.as_deref() {
            Ok([side]) => Ok(Self([*side; 3])),
            Ok([x, y, z]) => Ok(Self([*x, *y, *z])),
            _ => Err("give N or NxNyxNz, for example 64 or 64x48x1".to_owned()),
        }
    }
}

#[derive(Clone, Copy)]
struct SensorArgument(SensorChoice);

impl FromStr for SensorArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || "give slice:x, slice:y, slice:z, points:N, boxes:COUNTxSIDE or whole".to_owned();
        let (kind, value) = text.split_once(':').unwrap_or((text, ""));
        let choice = match kind {
            "whole" => Some(SensorChoice::Whole),
            "slice" => ["x", "y", "z"].iter().position(|name| *name == value).map(SensorChoice::Slice),
            "points" => {
                value.parse().ok().filter(|count| (1..1 << 32).contains(count)).map(SensorChoice::Points)
            }
            "boxes" => value.split_once('x').and_then(|(count, side)| {
                Some(SensorChoice::Boxes(
                    count.parse().ok().filter(|count| (1..1 << 20).contains(count))?,
                    side.parse().ok()?,
                ))
            }),
            _ => None,
        };
        choice.map(Self).ok_or_else(usage)
    }
}

impl ScenarioArguments {
    fn scenario(&self, kind: ScenarioChoice) -> Result<Scenario> {
        let kind = match kind {
            ScenarioChoice::Mode => ScenarioKind::Mode,
            ScenarioChoice::Ball => ScenarioKind::Ball,
            ScenarioChoice::Plane => ScenarioKind::Plane,
            ScenarioChoice::Tissue => ScenarioKind::Tissue,
        };
        Scenario::new(ScenarioOptions {
            kind,
            points: self.grid.0,
            steps: self.steps,
            courant: self.courant,
            corrected: true,
            sensor: self.sensor.0,
        })
    }
}

impl RestartArguments {
    fn rule(&self) -> Result<Option<CheckpointRule>> {
        if let Some(file) = &self.checkpoint_file {
            let interval = match (self.checkpoint_interval, self.checkpoint_timesteps) {
                (Some(seconds), None) => FileInterval::Time(Duration::from_secs(seconds)),
                (None, Some(steps)) if steps > 0 => FileInterval::Steps(steps),
                _ => bail!(
                    "--checkpoint_file needs --checkpoint_interval or --checkpoint_timesteps, one of them"
                ),
            };
            return Ok(Some(CheckpointRule {
                kind: CheckpointKind::File { file: file.clone(), interval },
                resume: true,
                required: false,
            }));
        }
        let Some(folder) = &self.checkpoints else { return Ok(None) };
        let every = match (self.every.as_str(), self.every.parse::<u64>()) {
            ("auto", _) => None,
            (_, Ok(steps)) if steps > 0 => Some(steps),
            _ => bail!("--every is {:?}; give a number of steps, or auto", self.every),
        };
        ensure!(self.mtbf > 0.0 && self.mtbf < 1e6, "--mtbf is {}; give hours", self.mtbf);
        let kind = CheckpointKind::Store {
            folder: folder.clone(),
            through: self.through.clone(),
            every,
            between_failures: Duration::from_secs_f64(self.mtbf * 3600.0),
            keep: self.keep.max(1),
        };
        Ok(Some(CheckpointRule {
            kind,
            resume: self.restart.is_some(),
            required: self.restart == Some(RestartMode::Latest),
        }))
    }
}

impl WaveArguments {
    fn launch(&self) -> Result<Launch> {
        let launch = Launch::from_env()?;
        Ok(match self.threads.or(self.ranks) {
            Some(ranks) => launch.ranks(ranks),
            None => launch,
        })
    }

    fn settings(&self) -> Result<WaveSettings> {
        let input = match &self.input {
            Some(file) => RunInput::File(file.clone()),
            None => RunInput::Scenario(Box::new(self.scenario.scenario(self.scenario.kind)?)),
        };
        Ok(WaveSettings {
            output: self.output.clone(),
            quantities: self.quantities.flags(),
            first_sample: self.first_sample,
            steps: self.benchmark,
            decomposition: match self.decomposition {
                DecompositionChoice::Auto => DecompositionKind::Auto,
                DecompositionChoice::Slab => DecompositionKind::Slab,
                DecompositionChoice::Pencil => DecompositionKind::Pencil,
            },
            recording: RecordingOptions { stream: self.stream.options(), served: false },
            compression: self.compression,
            copy_mask: self.copy_sensor_mask,
            percent: self.percent,
            verbose: self.verbose > 0,
            checkpoints: self.restart.rule()?,
            pictures: self.pictures.clone(),
            ..WaveSettings::new(input)
        })
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &WaveArguments) -> Result<()> {
    match &arguments.action {
        Some(WaveAction::Make { simulation, file, scenario }) => {
            let scenario = scenario.scenario(*simulation)?;
            Launch::from_env()?.run(|world| write_input(world, &scenario, file))?;
            return Ok(());
        }
        Some(WaveAction::Verify { output, against, options }) => return verify(output, against, options),
        None => {}
    }
    if arguments.gpu.is_some() {
        bail!("-g chooses a GPU; wave runs on processors only: leave it out");
    }
    let settings = arguments.settings()?;
    let served = matches!(arguments.stream.mode, ModeArgument::Servers);
    ensure!(
        served || arguments.stream.servers.is_none(),
        "--servers is the number of ranks of --mode servers; add that"
    );
    ensure!(!served || settings.output.is_some(), "--mode servers writes an output; give it by -o");
    ensure!(
        !served || settings.checkpoints.is_none(),
        "an output that servers write cannot be continued after a restart; use another --mode with checkpoints"
    );
    arguments.launch()?.run(|world| {
        if served { run_served(world, arguments, &settings) } else { compute(world, arguments, &settings) }
    })?;
    Ok(())
}

/// Runs the simulation on these ranks, and reports it. Collective.
fn compute(world: &Comm, arguments: &WaveArguments, settings: &WaveSettings) -> Result<()> {
    let double = arguments.precision == PrecisionChoice::Double;
    let summary = if double { run::run::<f64>(world, settings)? } else { run::run::<f32>(world, settings)? };
    finish(world, arguments, settings, &summary, double)
}

/// Runs the simulation on the ranks that are not servers. Collective.
fn run_served(world: &Comm, arguments: &WaveArguments, settings: &WaveSettings) -> Result<()> {
    let role = match arguments.stream.servers {
        Some(servers) => stream::split_io_servers(world, servers)?,
        None => stream::split_io_servers_per_node(world)?,
    };
    match role {
        Role::Server(server) => Ok(server.serve_into(open_target).map(drop)?),
        Role::Compute(group) => {
            let stream = settings.recording.stream.clone().served_by(&group);
            let recording = RecordingOptions { stream, served: true };
            compute(group.comm(), arguments, &WaveSettings { recording, ..settings.clone() })
        }
    }
}

/// Compares two outputs by the program `aqueduct`, which is beside this one or in the search path.
fn verify(output: &OsString, against: &OsString, options: &[OsString]) -> Result<()> {
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name("aqueduct"));
    let program = beside.filter(|path| path.exists()).unwrap_or_else(|| "aqueduct".into());
    let mut command = Command::new(program);
    command.args(["compare", "--data-only"]).arg(output).arg(against).args(options);
    let status = command.status().context(
        "wave verify runs `aqueduct compare`; install it: cargo install aqueduct-cli, or add it to PATH",
    )?;
    ensure!(status.success(), "the outputs differ, or cannot be compared");
    Ok(())
}

/// Reports a run, and checks it against the exact solution.
fn finish(
    world: &Comm,
    arguments: &WaveArguments,
    settings: &WaveSettings,
    summary: &WaveSummary,
    double: bool,
) -> Result<()> {
    if world.rank() != 0 {
        return Ok(());
    }
    let times = &summary.times;
    if arguments.verbose > 0 {
        let per_step = times.stepping.as_secs_f64() * 1e3 / summary.steps_made.max(1) as f64;
        print_line(&format!(
            "loading {:.2} s, preparing {:.2} s, {} steps {:.2} s ({per_step:.2} ms per step; output {:.2} s, checkpoints {:.2} s), storing {:.2} s, \
             memory {} MB",
            times.loading.as_secs_f64(),
            times.preparing.as_secs_f64(),
            summary.steps_made,
            times.stepping.as_secs_f64(),
            times.output.as_secs_f64(),
            times.checkpoints.as_secs_f64(),
            times.storing.as_secs_f64(),
            aqueduct_wave::report::peak_memory() >> 20
        ));
        if summary.ended_early {
            print_line(&format!(
                "ended with a checkpoint after step {}; the same command continues",
                summary.steps
            ));
        }
    }
    if let Some(file) = &arguments.report {
        let seconds = |time: Duration| time.as_secs_f64();
        let json = serde_json::json!({
            "steps": summary.steps, "steps_made": summary.steps_made, "ranks": world.size(),
            "loading": seconds(times.loading), "preparing": seconds(times.preparing), "stepping": seconds(times.stepping),
            "storing": seconds(times.storing), "output": seconds(times.output), "checkpoints": seconds(times.checkpoints),
            "memory": aqueduct_wave::report::peak_memory(), "exact_error": summary.exact_error,
        });
        std::fs::write(file, format!("{json:#}\n"))?;
    }
    if let (Some(error), RunInput::Scenario(scenario)) = (summary.exact_error, &settings.input) {
        let bound = scenario.bound(double);
        if arguments.verbose > 0 {
            print_line(&format!("error against the exact solution: {error:.2e} (bound {bound:.0e})"));
        }
        ensure!(
            error <= bound,
            "the error against the exact solution is {error:.2e}, above the bound of {bound:.0e}"
        );
    }
    Ok(())
}
