//! A run: input, steps, output.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct::stream::ResumeState;

use crate::grid::WaveGrid;
use crate::grid::decomposition::{DecompositionKind, PencilDecomposition};
use crate::input::kwave_problem::KwaveInput;
use crate::output::output_memory::output_bytes;
use crate::output::picture::write_pictures;
use crate::output::quantities::QuantityFlags;
use crate::output::quantity_streams::SamplingPlan;
use crate::output::recorder::{RecordingOptions, SampleRecorder};
use crate::problem::{SensorMask, WaveProblem};
use crate::progress::{WaveProgress, print_line};
use crate::report::{WaveTimes, run_attributes};
use crate::restart::CheckpointRule;
use crate::restart::checkpointer::WaveCheckpointer;
use crate::restart::fingerprint::fingerprint;
use crate::scenario::built_in::Scenario;
use crate::scenario::input_writer::attributes;
use crate::solver::memory_estimate::MemoryNeed;
use crate::solver::time_step::WaveSolver;
use crate::transform::real::Real;

/// What is simulated.
#[derive(Clone, Debug)]
pub enum RunInput {
    /// An input file of k-Wave.
    File(String),
    /// A built-in simulation.
    Scenario(Box<Scenario>),
}

/// The settings of a run, the same on all ranks.
#[derive(Clone, Debug)]
pub struct WaveSettings {
    /// What is simulated.
    pub input: RunInput,
    /// The output file, if there is one.
    pub output: Option<String>,
    /// What is stored.
    pub quantities: QuantityFlags,
    /// The first sampled step, from 1.
    pub first_sample: u64,
    /// The number of steps, instead of that of the input.
    pub steps: Option<u64>,
    /// How the grid is decomposed.
    pub decomposition: DecompositionKind,
    /// How samples are written.
    pub recording: RecordingOptions,
    /// The level of compression of the output; 0 for none.
    pub compression: u32,
    /// Whether the mask of the sensor is copied.
    pub copy_mask: bool,
    /// Progress is reported every so many per cent.
    pub percent: u64,
    /// Whether rank 0 prints.
    pub verbose: bool,
    /// Checkpoints, if there are any.
    pub checkpoints: Option<CheckpointRule>,
    /// The prefix of pictures of the final pressure.
    pub pictures: Option<String>,
}

impl WaveSettings {
    /// A run without output that prints nothing.
    pub fn new(input: RunInput) -> Self {
        Self {
            input,
            output: None,
            quantities: QuantityFlags::default().or_default(),
            first_sample: 1,
            steps: None,
            decomposition: DecompositionKind::Auto,
            recording: RecordingOptions::default(),
            compression: 0,
            copy_mask: false,
            percent: 5,
            verbose: false,
            checkpoints: None,
            pictures: None,
        }
    }
}

/// What a run returns.
#[derive(Clone, Debug, Default)]
pub struct WaveSummary {
    /// The number of steps that were made, those before a restart included.
    pub steps: u64,
    /// The number of steps of this run.
    pub steps_made: u64,
    /// Whether it ended with a checkpoint before its last step.
    pub ended_early: bool,
    /// Times of this rank.
    pub times: WaveTimes,
    /// The greatest difference from the exact solution, relative to its greatest value, if there is one.
    pub exact_error: Option<f64>,
}

/// Runs a simulation. Collective.
pub fn run<T: Real>(world: &Comm, settings: &WaveSettings) -> Result<WaveSummary> {
    let begin = Instant::now();
    let mut problem = load::<T>(world, settings)?;
    let loaded = Instant::now();
    let decomposition = PencilDecomposition::new(settings.decomposition, &problem.grid, world.size());
    check_sampling(settings, &problem)?;
    let shown = settings.verbose && world.rank() == 0;
    let courant = world.allreduce_one(Op::Max, courant_number(&problem))?;
    if shown {
        announce(world, &problem, &decomposition, settings, courant);
    }
    let hash = match &settings.checkpoints {
        Some(_) => run_fingerprint::<T>(world, settings, &problem)?,
        None => 0,
    };
    let mut solver = WaveSolver::<T>::new(world, &decomposition, &mut problem)?;
    let mut samples = begin_samples(world, settings, &problem, hash, &mut solver)?;
    let prepared = Instant::now();
    let first = solver.step();
    if shown && first > 0 {
        print_line(&format!("continued after step {first}"));
    }
    let progress = WaveProgress::new(shown, first, problem.steps, settings.percent);
    let mut times =
        WaveTimes { loading: loaded - begin, preparing: prepared - loaded, ..WaveTimes::default() };
    let mut exact = ExactCheck::new(settings, &problem);
    let mut ended_early = false;
    while solver.step() < problem.steps && !ended_early {
        solver.advance()?;
        exact.compare(&solver);
        let step = solver.step();
        let is_last = step == problem.steps;
        if let Some(checkpointer) = samples.checkpointer.as_ref().filter(|_| !is_last) {
            ended_early = checkpointer.ends_run(world, step)?;
        }
        if let Some(recorder) = samples.recorder.as_mut() {
            let begin = Instant::now();
            recorder.sample(&mut solver, is_last || ended_early)?;
            times.output += begin.elapsed();
        }
        if progress.is_due(step) {
            check_finite(world, courant, &solver)?;
        }
        progress.step(step);
        if let Some(checkpointer) = samples.checkpointer.as_mut().filter(|_| !is_last) {
            let begin = Instant::now();
            checkpointer.step(world, &solver, samples.recorder.as_mut(), ended_early)?;
            times.checkpoints += begin.elapsed();
        }
    }
    times.stepping = prepared.elapsed();
    progress.finish();
    let storing = Instant::now();
    let written = samples.finish(world, &problem, solver.step(), (&times, ended_early))?;
    if let Some(report) = written.filter(|_| shown) {
        print_line(&format!("output: {report}"));
    }
    draw(world, settings, &problem, &solver)?;
    times.storing = storing.elapsed();
    let exact_error = exact.finish(world)?;
    Ok(WaveSummary {
        steps: solver.step(),
        steps_made: solver.step() - first,
        ended_early,
        times,
        exact_error,
    })
}

/// Draws the last pressure, if pictures are wanted. Collective.
fn draw<T: Real>(
    world: &Comm,
    settings: &WaveSettings,
    problem: &WaveProblem,
    solver: &WaveSolver<T>,
) -> Result<()> {
    let Some(prefix) = &settings.pictures else { return Ok(()) };
    let pressure: Vec<f32> = solver.fields.pressure.iter().map(|value| value.stored()).collect();
    write_pictures(world, prefix, &problem.block, &pressure)
}

/// The hash of a run, which its checkpoints have. Collective.
fn run_fingerprint<T: Real>(world: &Comm, settings: &WaveSettings, problem: &WaveProblem) -> Result<u64> {
    let plan = settings.output.as_ref().map(|name| output_plan(name, settings, problem));
    fingerprint(world, problem, plan.as_ref(), size_of::<T>())
}

/// Output and checkpoints of a run.
struct RunOutputs<T> {
    recorder: Option<SampleRecorder<T>>,
    checkpointer: Option<WaveCheckpointer>,
}

/// Begins output and checkpoints, and continues the simulation at a checkpoint. Collective.
fn begin_samples<T: Real>(
    world: &Comm,
    settings: &WaveSettings,
    problem: &WaveProblem,
    hash: u64,
    solver: &mut WaveSolver<T>,
) -> Result<RunOutputs<T>> {
    let plan = settings.output.as_ref().map(|name| output_plan(name, settings, problem));
    let mut checkpointer = match &settings.checkpoints {
        Some(rule) => WaveCheckpointer::open(world, rule, hash)?,
        None => None,
    };
    let saved = match &mut checkpointer {
        Some(checkpointer) => checkpointer.find::<T>(world)?,
        None => None,
    };
    if let Some(saved) = &saved {
        saved.restore(solver)?;
    }
    let states: Option<Vec<ResumeState>> = saved.map(|saved| saved.arrays.output()).transpose()?;
    let recorder = plan
        .map(|plan| {
            SampleRecorder::new(world, problem, (&plan, &settings.recording), solver, states.as_deref())
        })
        .transpose()?;
    Ok(RunOutputs { recorder, checkpointer })
}

impl<T: Real> RunOutputs<T> {
    /// Completes the output, unless the run ended early, and the checkpoints; how samples were written. Collective.
    fn finish(
        self,
        world: &Comm,
        problem: &WaveProblem,
        steps: u64,
        (times, early): (&WaveTimes, bool),
    ) -> Result<Option<String>> {
        let report = match self.recorder {
            Some(recorder) if early => Some(recorder.finish(world, steps, None)?),
            Some(recorder) => {
                let mut about: Vec<_> = attributes(&problem.description, "output").into();
                let run = run_attributes(world, times)?;
                about.retain(|(name, _)| run.iter().all(|(other, _)| name != other));
                about.extend(run);
                Some(recorder.finish(world, steps, Some(&about))?)
            }
            None => None,
        };
        if let Some(mut checkpointer) = self.checkpointer {
            checkpointer.finish(world, !early)?;
        }
        Ok(report)
    }
}

fn load<T: Real>(world: &Comm, settings: &WaveSettings) -> Result<WaveProblem> {
    let mut problem = match &settings.input {
        RunInput::File(name) => {
            let input = KwaveInput::open(world, name)?;
            check_memory::<T>(world, settings, &input.grid, &input.memory_need())?;
            input.read(world, settings.decomposition, settings.steps)?
        }
        RunInput::Scenario(scenario) => {
            check_memory::<T>(world, settings, &scenario.grid, &scenario.memory_need())?;
            scenario.problem(world, settings.decomposition)
        }
    };
    problem.steps = settings.steps.unwrap_or(problem.steps);
    Ok(problem)
}

fn output_plan(name: &str, settings: &WaveSettings, problem: &WaveProblem) -> SamplingPlan {
    SamplingPlan {
        name: name.to_owned(),
        quantities: settings.quantities.quantities(problem.grid.dimensions()),
        first_step: settings.first_sample - 1,
        compression: settings.compression,
        copy_mask: settings.copy_mask,
    }
}

/// Refuses a run that does not fit into the memory of its machine, before it is allocated. Collective.
fn check_memory<T: Real>(
    world: &Comm,
    settings: &WaveSettings,
    grid: &WaveGrid,
    need: &MemoryNeed,
) -> Result<()> {
    let decomposition = PencilDecomposition::new(settings.decomposition, grid, world.size());
    let quantities = settings.quantities.quantities(grid.dimensions());
    let quantities = if settings.output.is_some() { &quantities[..] } else { &[] };
    let mine = need.bytes::<T>(grid, &decomposition, world.rank()).saturating_add(output_bytes::<T>(
        need,
        quantities,
        grid,
        &decomposition,
        world.rank(),
    ));
    let node = world.split_by_node()?;
    let needed = node.allreduce_one(Op::Sum, mine)?;
    let available = node.allreduce_one(Op::Min, aqueduct::device::available_memory())?;
    let worst = world.allreduce_one(Op::Max, needed.saturating_sub(available))?;
    if worst == 0 {
        return Ok(());
    }
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    bail!(
        "a grid of {:?} points needs {:.2} GiB of memory per node, {:.2} GiB are available; use more nodes, a smaller grid, or single precision",
        grid.points,
        gib(needed),
        gib(available)
    )
}

fn check_sampling(settings: &WaveSettings, problem: &WaveProblem) -> Result<()> {
    let (first, steps) = (settings.first_sample, problem.steps);
    ensure!(
        (1..=steps).contains(&first),
        "sampling begins with step {first}; it should be from 1 to {steps}"
    );
    let masked =
        settings.quantities.quantities(problem.grid.dimensions()).iter().any(|quantity| !quantity.whole);
    let empty = match &problem.sensor {
        SensorMask::Points { count, .. } => *count == 0,
        SensorMask::Boxes(boxes) => boxes.is_empty(),
    };
    ensure!(
        settings.output.is_none() || !masked || !empty,
        "the input has no sensor: dataset sensor_mask_index is missing or empty; store only quantities of the whole grid, as --p_final"
    );
    Ok(())
}

fn announce(
    world: &Comm,
    problem: &WaveProblem,
    decomposition: &PencilDecomposition,
    settings: &WaveSettings,
    courant: f64,
) {
    let [nx, ny, nz] = problem.grid.points;
    let output = if settings.output.is_some() { "output" } else { "no output" };
    let line = format!(
        "{}: {nx} × {ny} × {nz} points, {} steps, Courant number {courant:.3}, {} ranks as {} × {} parts, {output}",
        problem.description,
        problem.steps,
        world.size(),
        decomposition.planes,
        decomposition.rows
    );
    print_line(&line);
    let limit = 2.0 / (std::f64::consts::PI * (problem.grid.dimensions() as f64).sqrt());
    let homogeneous = matches!(problem.medium.sound_speed, crate::problem::MediumField::Uniform(_));
    if courant > limit && !homogeneous {
        print_line(&format!(
            "warning: the Courant number {courant:.3} is above {limit:.3}; the run may be unstable"
        ));
    }
}

/// c · dt / d of this rank's medium.
fn courant_number(problem: &WaveProblem) -> f64 {
    problem.medium.sound_speed.largest() * problem.dt / problem.grid.finest_spacing()
}

/// An error if the pressure is not finite somewhere. Collective.
fn check_finite<T: Real>(world: &Comm, courant: f64, solver: &WaveSolver<T>) -> Result<()> {
    let found = solver.fields.pressure.iter().position(|value| !value.wide().is_finite());
    let mine = found.map_or(u64::MAX, |local| solver.block().global(local) as u64);
    let first = world.allreduce_one(Op::Min, mine)?;
    if first == u64::MAX {
        return Ok(());
    }
    let [nx, ny, _] = solver.block().points;
    let first = first as usize;
    let place = [first % nx + 1, first / nx % ny + 1, first / nx / ny + 1];
    bail!(
        "the pressure is not finite at {place:?} after step {}; the Courant number is {courant:.3}: use a smaller time step, or check the sources",
        solver.step()
    )
}

/// The comparison with the exact solution in the course of a run.
struct ExactCheck<'s> {
    scenario: Option<&'s Scenario>,
    at: u64,
    /// The greatest difference, and the greatest value.
    largest: [f64; 2],
}

impl<'s> ExactCheck<'s> {
    fn new(settings: &'s WaveSettings, problem: &WaveProblem) -> Self {
        let scenario = match &settings.input {
            RunInput::Scenario(scenario) if scenario.exact.is_some() => Some(&**scenario),
            _ => None,
        };
        let at = scenario.map_or(0, |scenario| scenario.compared_step(problem.steps));
        Self { scenario, at, largest: [0.0; 2] }
    }

    fn compare<T: Real>(&mut self, solver: &WaveSolver<T>) {
        let Some(exact) =
            self.scenario.and_then(|scenario| scenario.exact).filter(|_| solver.step() == self.at)
        else {
            return;
        };
        let block = solver.block();
        let [nx, ny, _] = block.points;
        for (local, value) in solver.fields.pressure.iter().enumerate() {
            let index = block.global(local);
            let point = [index % nx, index / nx % ny, index / nx / ny];
            if let Some(expected) = exact.pressure(point, self.at - 1) {
                let difference = (value.wide() - expected).abs();
                // A difference that is not a number is the greatest.
                self.largest[0] =
                    if difference.is_nan() { f64::INFINITY } else { self.largest[0].max(difference) };
                self.largest[1] = self.largest[1].max(expected.abs());
            }
        }
    }

    /// The difference relative to the amplitude of the solution, which is 1.
    fn finish(&self, world: &Comm) -> Result<Option<f64>> {
        if self.scenario.is_none() {
            return Ok(None);
        }
        let largest = world.allreduce(Op::Max, &self.largest)?;
        Ok((largest[1] > 0.0).then(|| largest[0]))
    }
}
