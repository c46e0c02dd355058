//! A run from its first to its last step.

use std::time::{Duration, Instant};

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::mardyn::PhaseSpace;

use crate::decomposition::grid::SimulationGrid;
use crate::force::species;
use crate::input::config::Config;
use crate::input::initial_state::{self, InitialState};
use crate::output::lock::OutputLocks;
use crate::output::output_marks::OutputMarks;
use crate::output::result_row::ResultRow;
use crate::output::{OutputState, Outputs};
use crate::progress::{self, RunProgress};
use crate::restart::checkpointer::{
    CheckpointCost, CheckpointPolicy, Checkpointer, RestoredState, StartMode,
};
use crate::restart::stop_condition::{StopCondition, StopReason};
use crate::simulation::{Model, Simulation};

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// The configuration.
    pub config: Config,
    /// The last step, counted from the start of the trajectory.
    pub steps: u64,
    /// The number of rows of energies that are printed.
    pub rows: u64,
    /// Folder and frequency of checkpoints.
    pub checkpoints: Option<CheckpointPolicy>,
    /// Where the run starts, if it has checkpoints.
    pub start: StartMode,
    /// When the run ends before its last step.
    pub stop: StopCondition,
}

impl RunSettings {
    /// A run to this step without checkpoints that prints nothing.
    pub fn new(config: Config, steps: u64) -> Self {
        let (start, stop) = (StartMode::default(), StopCondition::default());
        Self { config, steps, rows: 0, checkpoints: None, start, stop }
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunOutcome {
    /// The last row of energies.
    pub row: ResultRow,
    /// Why it ended before its last step, if it did; its state is in the latest checkpoint.
    pub stopped: Option<StopReason>,
}

/// Executes a run. Collective.
pub fn run(world: &Comm, job: &RunSettings) -> Result<RunOutcome> {
    let prints = world.rank() == 0 && job.rows > 0;
    let open = |policy: &CheckpointPolicy| Checkpointer::open(world, policy, job.start);
    let mut saver = job.checkpoints.as_ref().map(open).transpose()?;
    if let Some(saver) = saver.as_mut().filter(|_| job.stop.limit.is_some()) {
        saver.measure_early();
    }
    let _locks = OutputLocks::acquire(world, &job.config.outputs)?;
    let (space, mut simulation, back_to) = begin(world, job, saver.as_mut(), prints)?;
    if let Some(saver) = &mut saver {
        let known = back_to.as_ref().map(|state| state.marks.encode().into_bytes());
        let fresh = || OutputMarks::at_the_beginning(&job.config.outputs);
        // All ranks use the time of rank 0.
        let known = world.broadcast_vec(0, known.unwrap_or_else(|| fresh().encode().into_bytes()))?;
        saver.begin(&simulation, &OutputMarks::decode(&String::from_utf8_lossy(&known))?)?;
    }
    let mut outputs = Outputs::open(&job.config, world, back_to.as_ref())?;
    if prints {
        progress::print_line(&introduction(world, &simulation, &space));
        progress::print_line(&ResultRow::pretty_head());
    }
    let end = steps(&mut simulation, job, &space, &mut outputs, saver.as_mut())?;
    let marks = outputs.sync(world)?;
    saver.map_or(Ok(()), |saver| saver.finish(&simulation, &marks))?;
    outputs.finish()?;
    Ok(end)
}

/// The initial state: that of a checkpoint, or of the configuration; and the state of the outputs after a restart.
fn begin<'w>(
    world: &'w Comm,
    job: &RunSettings,
    saver: Option<&mut Checkpointer>,
    prints: bool,
) -> Result<(PhaseSpace, Simulation<'w>, Option<OutputState>)> {
    if let Some(saver) = saver.filter(|_| !matches!(job.start, StartMode::New | StartMode::StartOver)) {
        let space = initial_state::space(world, &job.config)?;
        if let Some(RestoredState { step, time, molecules, outputs, note }) =
            saver.restore(world, &space, job.config.cutoff)?
        {
            if prints {
                progress::print_line(&note);
            }
            let simulation = Simulation::new(world, model(&job.config, &space)?, molecules, step, time)?;
            return Ok((space, simulation, Some(outputs)));
        }
        if prints {
            progress::print_line("no checkpoint found: starting from the beginning");
        }
    }
    let InitialState { space, molecules } = initial_state::begin(world, &job.config)?;
    let simulation = Simulation::new(world, model(&job.config, &space)?, molecules, 0, space.time)?;
    Ok((space, simulation, None))
}

/// Computes the remaining steps and writes the outputs.
fn steps(
    simulation: &mut Simulation,
    job: &RunSettings,
    space: &PhaseSpace,
    outputs: &mut Outputs,
    mut saver: Option<&mut Checkpointer>,
) -> Result<RunOutcome> {
    let world = simulation.world();
    let prints = world.rank() == 0 && job.rows > 0;
    let first = simulation.step();
    let progress = RunProgress::new(prints, first, job.steps);
    let between = (job.steps.saturating_sub(first) / job.rows.max(1)).max(1);
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        let since = Instant::now();
        let step = simulation.step();
        // Without checkpoints the state would be lost.
        let stopped = match &saver {
            Some(saver) if step < job.steps => job.stop.check(world, longest, saver.longest())?,
            _ => None,
        };
        let last = step >= job.steps || stopped.is_some();
        let shown = job.rows > 0 && ((step - first).is_multiple_of(between) || last);
        let row =
            if shown || last || outputs.want_energies(step) { Some(measure(simulation)?) } else { None };
        if let Some(row) = row.filter(|_| shown && prints) {
            progress.print(&row.pretty());
        }
        outputs.write(simulation, space, row.as_ref())?;
        let before = Instant::now();
        if let (Some(saver), true) = (&mut saver, step > first) {
            saver.step(simulation, || outputs.sync(world))?;
        }
        // The time of a checkpoint does not count as time of a step.
        let stood = before.elapsed();
        if let Some(row) = row.filter(|_| last) {
            progress.finish();
            if prints {
                progress.print(&pace(space, step - first, began, saver.as_ref().map(|saver| saver.cost())));
            }
            return Ok(RunOutcome { row, stopped });
        }
        simulation.advance()?;
        progress.step();
        longest = longest.max(since.elapsed().saturating_sub(stood));
    }
}

/// The physical model of the configuration and the phase space.
pub fn model(config: &Config, space: &PhaseSpace) -> Result<Model> {
    Ok(Model {
        grid: SimulationGrid::new(space.length, config.cutoff, space.molecules)?,
        potential: species::potential(space, config.cutoff)?,
        timestep: config.timestep,
        thermostat: config.thermostat,
        decomposition_method: config.decomposition_method,
        rebalance: config.rebalance,
    })
}

fn measure(simulation: &Simulation) -> Result<ResultRow> {
    let volume = simulation.model().grid.volume();
    Ok(ResultRow::new(simulation.step(), simulation.time(), &simulation.energies()?, volume))
}

fn introduction(world: &Comm, simulation: &Simulation, space: &PhaseSpace) -> String {
    let ([x, y, z], model) = (space.length, simulation.model());
    let carried =
        (0..model.potential.components()).filter(|component| model.potential.centre(*component).is_none());
    let carried: Vec<String> = carried.map(|component| (component + 1).to_string()).collect();
    let note = match carried.as_slice() {
        [] => String::new(),
        some => format!("\ncomponents without forces, kept unchanged: {}", some.join(", ")),
    };
    format!(
        "{} molecules in a box of {x:.3} x {y:.3} x {z:.3}, {:?} cells, {} ranks ({}), {:?} decomposition{note}",
        space.molecules,
        model.grid.shape,
        world.size(),
        world.transport(),
        model.decomposition_method
    )
}

fn pace(space: &PhaseSpace, steps: u64, began: Instant, cost: Option<CheckpointCost>) -> String {
    let seconds = began.elapsed().as_secs_f64().max(1e-9);
    let rate = steps as f64 * space.molecules as f64 / seconds / 1e6;
    let pace = format!("{steps} steps in {seconds:.2} s: {rate:.2} million molecule steps per second");
    let Some(CheckpointCost { checkpoints, time }) = cost.filter(|cost| cost.checkpoints > 0) else {
        return pace;
    };
    let (stood, share) = (time.as_secs_f64(), 100.0 * time.as_secs_f64() / seconds);
    format!("{pace}; {checkpoints} checkpoints stopped it for {stood:.3} s, {share:.2} %")
}
