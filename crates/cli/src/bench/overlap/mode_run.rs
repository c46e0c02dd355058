//! One run of the benchmark in one mode.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct::file::{File, Kind};
use aqueduct::stream::{ComputeGroup, Options, Output, Role, Streams, split_io_servers};

use super::file_format::OverlapFormat;
use super::load::SyntheticLoad;
use super::timeline::{ActivitySpan, RankActivity, RecordingTarget, TimelineRecorder};
use super::{OverlapArguments, OverlapMode};

/// The measurements of a run.
#[derive(Clone, Debug)]
pub(crate) struct ModeResult {
    pub(crate) mode: OverlapMode,
    /// The mode at the end, and the reason for it.
    pub(crate) final_mode: String,
    pub(crate) compute_ranks: usize,
    /// Time from the first step to the end of the file, and its parts, each on the rank where it was longest.
    pub(crate) seconds: f64,
    pub(crate) computing: f64,
    pub(crate) in_commit: f64,
    pub(crate) writing: f64,
    /// The largest fraction of its memory limit that a rank used.
    pub(crate) memory: f64,
    /// The timeline of each rank.
    pub(crate) spans: Vec<Vec<ActivitySpan>>,
}

/// The measurements of a rank that computes.
#[derive(Default)]
struct OverlapTimings {
    seconds: f64,
    computing: f64,
    in_commit: f64,
    memory: f64,
    final_mode: String,
}

/// Runs the program and returns the measurements on rank 0. Collective.
pub(crate) fn run(
    world: &Comm,
    arguments: &OverlapArguments,
    choice: OverlapMode,
) -> Result<Option<ModeResult>> {
    let name = format!("{}-{choice}", arguments.file);
    refuse_existing(world, arguments, &name)?;
    let options = Options::new()
        .replace()
        .mode(choice.mode())
        .buffers(arguments.buffers)
        .steps(arguments.steps())
        .pin(arguments.pin.iter().copied());
    let options = arguments.memory.map_or(options.clone(), |memory| options.memory(memory.0));
    let options = arguments.durable_every.map_or(options.clone(), |steps| options.durable_every(steps));
    let options = arguments.group.map_or(options.clone(), |ranks| options.group(ranks));
    world.barrier()?;
    let notes = TimelineRecorder::begin();
    let mut computers = world.size();
    let measured = if choice == OverlapMode::Servers {
        computers -= arguments.servers;
        match split_io_servers(world, arguments.servers)? {
            Role::Compute(crew) => compute_with_servers(world, arguments, &crew, &options, &name, &notes)?,
            Role::Server(server) => {
                let service = server.serve_into(|comm, name, declared| {
                    RecordingTarget::create(comm, name, declared, (arguments.format, &notes))
                })?;
                let memory = service.memory_peak as f64 / service.memory_cap as f64;
                OverlapTimings { memory, ..OverlapTimings::default() }
            }
        }
    } else {
        let streams = declare(world, arguments);
        let target = |comm: &Comm, declared: &_| {
            RecordingTarget::create(comm, &name, declared, (arguments.format, &notes))
        };
        let output = options.create_on(world, &name, &streams.0, target)?;
        compute(world, arguments, output, &streams.1, &notes, world.size())?
    };
    let trial = gather(world, choice, computers, &measured, &notes)?;
    world.barrier()?;
    arguments.format.verify(world, arguments, &name)?;
    if !arguments.keep {
        arguments.format.delete(world, &name)?;
    }
    Ok(trial)
}

fn compute_with_servers(
    world: &Comm,
    arguments: &OverlapArguments,
    crew: &ComputeGroup,
    options: &Options,
    name: &str,
    notes: &TimelineRecorder,
) -> Result<OverlapTimings> {
    let streams = declare(crew.comm(), arguments);
    let output = options.clone().served_by(crew).create(crew.comm(), name, &streams.0)?;
    compute(crew.comm(), arguments, output, &streams.1, notes, world.size())
}

type Keys = Vec<aqueduct::stream::StreamKey<f64>>;

fn declare(comm: &Comm, arguments: &OverlapArguments) -> (Streams, Keys) {
    let boxes = arguments.boxes();
    let mut streams = Streams::new();
    let add = |number| {
        let paths = (0..boxes.len()).map(|one| OverlapFormat::array(number, one));
        let stream = arguments.grid.stream(format!("quantity {number}"), &boxes, comm.rank(), comm.size());
        // Stream files would have the paths in their description.
        streams.add(if arguments.format == OverlapFormat::Stream { stream } else { stream.paths(paths) })
    };
    let keys = (0..arguments.data).map(add).collect();
    (streams, keys)
}

/// The program on the ranks that compute.
fn compute(
    comm: &Comm,
    arguments: &OverlapArguments,
    output: Output,
    keys: &Keys,
    notes: &TimelineRecorder,
    ranks: usize,
) -> Result<OverlapTimings> {
    let (grid, mut output) = (arguments.grid, output);
    let planes = grid.planes(comm.rank(), comm.size());
    let mut field = vec![0.0; ((planes.end - planes.start) * grid.0[1] * grid.0[2]) as usize];
    let mut load = SyntheticLoad::new(arguments.amount().shared_by(comm.size(), ranks));
    let mut measured = OverlapTimings::default();
    comm.barrier()?;
    let begin = Instant::now();
    for iteration in 0..arguments.iterations {
        let start = Instant::now();
        notes.record(RankActivity::Computing, || load.work(comm, iteration))?;
        measured.computing += start.elapsed().as_secs_f64();
        for step in iteration * arguments.write..(iteration + 1) * arguments.write {
            let start = Instant::now();
            notes.record(RankActivity::Computing, || grid.fill(comm.rank(), comm.size(), step, &mut field));
            measured.computing += start.elapsed().as_secs_f64();
            let start = Instant::now();
            notes.record(RankActivity::HandingOver, || -> Result<()> {
                let handed = keys.iter().fold(output.step()?, |step, key| step.put(*key, &field));
                handed.commit()?;
                Ok(())
            })?;
            measured.in_commit += start.elapsed().as_secs_f64();
        }
    }
    let report = notes.record(RankActivity::HandingOver, || output.finish())?;
    measured.seconds = begin.elapsed().as_secs_f64();
    measured.memory = report.memory_peak as f64 / report.memory_cap as f64;
    ensure!(report.memory_peak <= report.memory_cap, "the buffers exceeded their memory limit: {report:?}");
    measured.final_mode = format!("{:?}: {}", report.mode, report.reason);
    Ok(measured)
}

/// The longest times of all ranks, and the timelines, on rank 0.
fn gather(
    world: &Comm,
    choice: OverlapMode,
    computers: usize,
    measured: &OverlapTimings,
    notes: &TimelineRecorder,
) -> Result<Option<ModeResult>> {
    let spans = notes.gather(world)?;
    let mine = [measured.seconds, measured.computing, measured.in_commit, measured.memory];
    let longest = world.allreduce(Op::Max, &mine)?;
    // Rank 0 computes in every mode.
    Ok(spans.map(|spans| {
        let writing = |spans: &Vec<ActivitySpan>| -> f64 {
            let writes = spans.iter().filter(|span| span.activity == RankActivity::Writing);
            writes.map(|span| span.end - span.begin).sum()
        };
        ModeResult {
            mode: choice,
            final_mode: measured.final_mode.clone(),
            compute_ranks: computers,
            seconds: longest[0],
            computing: longest[1],
            in_commit: longest[2],
            writing: spans.iter().map(writing).fold(0.0, f64::max),
            memory: longest[3],
            spans,
        }
    }))
}

/// Checks that no existing file is overwritten without --overwrite.
fn refuse_existing(world: &Comm, arguments: &OverlapArguments, name: &str) -> Result<()> {
    // Files with the default name may be left of an interrupted run, and are replaced.
    if arguments.overwrite || arguments.file == "aqueduct-overlap" || arguments.repeat > 1 && arguments.keep {
        return Ok(());
    }
    match File::open(world, name) {
        Ok(file) => {
            file.close()?;
            bail!("{name} exists; choose another name with --file, or replace it with --overwrite")
        }
        Err(error) if error.kind() == Kind::NoSuchFile => Ok(()),
        Err(error) => Err(error.into()),
    }
}
