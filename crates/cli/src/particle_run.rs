//! The run without arguments: a particle simulation on all cores streams its particles and its density, is killed, restarts on another number
//! of ranks, and is verified value by value; a page reports on its I/O.

mod particles;
mod verification;

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use aqueduct::comm::{Comm, Launch};
use aqueduct::file::trace::TRACE_VARIABLE;
use aqueduct::prelude::*;
use aqueduct::stream::Options;

use crate::report;
use crate::standard_output;
use particles::{FieldParticle, GRID, ParticleSimulation};

/// Steps between two checkpoints.
const CHECKPOINT_INTERVAL: u64 = 8;
/// The step after which the first run is killed.
const KILLED_AFTER: u64 = 21;
/// Steps of the second run.
const FURTHER_STEPS: u64 = 24;

#[derive(clap::Args)]
pub(crate) struct ParticleRunArguments {
    /// The folder of the results
    folder: PathBuf,
    /// The last step
    until: u64,
}

/// Variables of launchers: where one is set, this process is one of several.
const LAUNCHER_VARIABLES: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "PMI_FD"];

/// True under `mpirun`.
pub(crate) fn is_launched() -> bool {
    LAUNCHER_VARIABLES.iter().any(|name| std::env::var_os(name).is_some())
}

/// The whole story, from the first run to the page.
pub(crate) fn run() -> Result<()> {
    let start = Instant::now();
    let folder = PathBuf::from("aqueduct-run");
    remove_earlier_results(&folder)?;
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let print = |line: String| standard_output::print(&(line + "\n"));
    let count = particles::COUNT;
    print(format!(
        "{count} particles on a grid of {GRID} × {GRID}; results in the folder {}",
        folder.display()
    ))?;
    print(format!(
        "run 1: {cores} ranks stream particles and density of every step, with a checkpoint every {CHECKPOINT_INTERVAL} steps"
    ))?;
    let mut first = ParticleRun::start(&folder, "trace-1", cores, u64::MAX)?;
    let killed_at = first.wait_for_step(KILLED_AFTER)?;
    first.child.kill().context("killing the first run")?;
    let status = first.child.wait()?;
    ensure!(status.signal() == Some(9), "the first run ended before it was killed: {status}");
    print(format!("run 1: killed by SIGKILL after step {killed_at}"))?;
    let restart = verification::restart_step(&folder)?;
    let ranks = cores + 1;
    print(format!("run 2: restarts from the checkpoint of step {restart} on {ranks} ranks"))?;
    let mut second = ParticleRun::start(&folder, "trace-2", ranks, restart + FURTHER_STEPS)?;
    let reached = second.wait_for_step(u64::MAX)?;
    let status = second.child.wait()?;
    ensure!(status.success(), "the second run failed: {status}");
    print(format!("run 2: finished with step {reached}"))?;
    let verified = verification::verify(&folder, restart)?;
    print(format!("stream files: {}", verified.files))?;
    print(format!("verified: {}", verified.text))?;
    let page = write_report(&folder, &print)?;
    remove_data(&folder)?;
    print(format!("report, after {:.1} s: {}", start.elapsed().as_secs_f64(), page.display()))?;
    Ok(())
}

/// A run in a process of its own, which can be killed.
struct ParticleRun {
    child: Child,
    /// Its standard output, which stays open: a closed pipe would end it.
    lines: Lines<BufReader<ChildStdout>>,
}

impl ParticleRun {
    fn start(folder: &Path, trace: &str, ranks: usize, until: u64) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut child = Command::new(program)
            .arg("particle-run")
            .arg(folder)
            .arg(until.to_string())
            .env("AQUEDUCT_MPI", "none")
            .env("AQUEDUCT_RANKS", ranks.to_string())
            .env(TRACE_VARIABLE, folder.join(trace))
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a run")?;
        let output = child.stdout.take().context("a run has no output")?;
        Ok(Self { child, lines: BufReader::new(output).lines() })
    }

    /// Waits until it has done a step, or ends; the last step that it has done.
    fn wait_for_step(&mut self, wanted: u64) -> Result<u64> {
        let mut last = None;
        while last.is_none_or(|step| step < wanted) {
            let Some(line) = self.lines.next().transpose()? else { break };
            last = line.strip_prefix("step ").and_then(|step| step.parse().ok()).or(last);
        }
        match last {
            Some(step) => Ok(step),
            None => bail!("the run ended before its first step: {}", self.child.wait()?),
        }
    }
}

/// A run that is not waited for ends with this program.
impl Drop for ParticleRun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One run: the ranks of this process.
pub(crate) fn simulate(arguments: &ParticleRunArguments) -> Result<()> {
    let ParticleRunArguments { folder, until } = arguments;
    Launch::from_env()?.run(|world| steps(world, folder, *until).map_err(|error| format!("{error:#}")))?;
    Ok(())
}

fn steps(world: &Comm, folder: &Path, until: u64) -> Result<()> {
    let mut store = Store::open_or_create(world, folder.join("checkpoints"))?.retention(Retention::Last(2));
    let mut simulation = ParticleSimulation::new(world.rank() as u64, world.size() as u64);
    if let Some(latest) = store.latest()? {
        // On any number of ranks: each takes its part of the particles.
        let all =
            ArrayBlock::new([particles::COUNT], [simulation.first], [simulation.particles.len() as u64]);
        simulation.particles = latest.array("particles", &all)?;
        simulation.step = latest.step();
    }
    let rows = particles::part(GRID as u64, world.rank() as u64, world.size() as u64);
    let mut streams = Streams::new();
    let objects = streams.add_objects::<FieldParticle>(Stream::objects("particles"));
    let shape = [GRID as u64; 2];
    let block = Stream::array("density", shape).block([rows.start, 0], [rows.end - rows.start, GRID as u64]);
    let density = streams.add::<f64>(block);
    let name = folder.join(format!("from-{}.stream", simulation.step));
    let mut output = Options::new().replace().create(world, &name.to_string_lossy(), &streams)?;
    while simulation.step < until {
        let counts = world.allreduce(Op::Sum, &simulation.counts())?;
        simulation.advance(&counts);
        let own = &counts[rows.start as usize * GRID..rows.end as usize * GRID];
        let field: Vec<f64> = own.iter().map(|count| *count as f64).collect();
        output.step()?.put_objects(objects, &simulation.particles).put(density, &field).commit()?;
        if simulation.step.is_multiple_of(CHECKPOINT_INTERVAL) {
            output.flush()?;
            let mut checkpoint = Checkpoint::new(simulation.step);
            let count = simulation.particles.len() as u64;
            let all = ArrayBlock::new([particles::COUNT], [simulation.first], [count]);
            checkpoint.array("particles", &all, &simulation.particles);
            store.start(checkpoint)?;
        }
        if world.rank() == 0 {
            standard_output::print(&format!("step {}\n", simulation.step))?;
        }
    }
    store.wait()?;
    output.finish()?;
    Ok(())
}

/// Writes the page of both runs and prints a line about each; the path of the page.
fn write_report(folder: &Path, print: &impl Fn(String) -> std::io::Result<()>) -> Result<PathBuf> {
    let page = folder.join("report.html");
    let runs = report::write_page(&[folder.join("trace-1"), folder.join("trace-2")], &page)?;
    for (at, run) in runs.iter().enumerate() {
        print(format!("run {}: {}", at + 1, run.summary.headline()))?;
    }
    Ok(page.canonicalize().unwrap_or(page))
}

/// Removes what an earlier run has left, and nothing else.
fn remove_earlier_results(folder: &Path) -> Result<()> {
    for trace in ["trace-1", "trace-2"] {
        remove(&folder.join(trace))?;
    }
    remove_data(folder)?;
    std::fs::create_dir_all(folder).with_context(|| format!("creating the folder {}", folder.display()))
}

/// Removes streams and checkpoints, which are large.
fn remove_data(folder: &Path) -> Result<()> {
    remove(&folder.join("checkpoints"))?;
    for name in verification::stream_files(folder) {
        for suffix in ["", ".steps"] {
            let path = PathBuf::from(format!("{}{suffix}", name.display()));
            if path.exists() {
                std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
            }
        }
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}
