//! A run from its beginning to its last step.

use std::time::Instant;

use anyhow::Result;
use aqueduct::checkpoint::mardyn::PhaseSpace;
use aqueduct::comm::Comm;

use crate::config::Config;
use crate::grid::Grid;
use crate::origin::{self, Beginning};
use crate::output::Outputs;
use crate::progress::{self, Progress};
use crate::row::Row;
use crate::saver::{Cost, Policy, Restored, Saver};
use crate::simulation::{Model, Simulation};
use crate::species;

/// What to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// What the configuration says.
    pub config: Config,
    /// The last step, counted from the start of the trajectory.
    pub steps: u64,
    /// How many rows of energies are printed.
    pub rows: u64,
    /// Where checkpoints go, and how often.
    pub checkpoints: Option<Policy>,
    /// Whether to come back to the latest checkpoint, if there is one.
    pub restart: bool,
}

/// Does it. Collective; the last row of energies.
pub fn run(world: &Comm, job: &Job) -> Result<Row> {
    let speaks = world.rank() == 0 && job.rows > 0;
    let mut saver = job.checkpoints.as_ref().map(|policy| Saver::open(world, policy)).transpose()?;
    let (space, mut simulation, back_to) = begin(world, job, saver.as_mut(), speaks)?;
    let mut outputs = Outputs::open(&job.config, world.rank(), back_to)?;
    if speaks {
        progress::say(&introduction(world, &simulation, &space));
        progress::say(&Row::pretty_head());
    }
    let row = steps(&mut simulation, job, &space, &mut outputs, saver.as_mut())?;
    outputs.finish()?;
    saver.map_or(Ok(()), |saver| saver.finish(&simulation))?;
    Ok(row)
}

/// The first state: that of the latest checkpoint, or of the configuration; and the step a run comes back to.
fn begin<'w>(
    world: &'w Comm,
    job: &Job,
    saver: Option<&mut Saver>,
    speaks: bool,
) -> Result<(PhaseSpace, Simulation<'w>, Option<u64>)> {
    if let (true, Some(saver)) = (job.restart, saver) {
        let space = origin::space(world, &job.config)?;
        if let Some(Restored { step, time, molecules, note }) =
            saver.latest(world, &space, job.config.cutoff)?
        {
            if speaks {
                progress::say(&note);
            }
            let simulation = Simulation::new(world, model(&job.config, &space)?, molecules, step, time)?;
            return Ok((space, simulation, Some(step)));
        }
        if speaks {
            progress::say("there is no checkpoint yet: from the beginning");
        }
    }
    let Beginning { space, molecules } = origin::begin(world, &job.config)?;
    let simulation = Simulation::new(world, model(&job.config, &space)?, molecules, 0, space.time)?;
    Ok((space, simulation, None))
}

/// Takes the steps that are left, and writes on the way.
fn steps(
    simulation: &mut Simulation,
    job: &Job,
    space: &PhaseSpace,
    outputs: &mut Outputs,
    mut saver: Option<&mut Saver>,
) -> Result<Row> {
    let speaks = simulation.world().rank() == 0 && job.rows > 0;
    let first = simulation.step();
    let progress = Progress::new(speaks, first, job.steps);
    let between = (job.steps.saturating_sub(first) / job.rows.max(1)).max(1);
    let began = Instant::now();
    loop {
        let step = simulation.step();
        let last = step >= job.steps;
        let shown = job.rows > 0 && ((step - first).is_multiple_of(between) || last);
        let row =
            if shown || last || outputs.want_energies(step) { Some(measure(simulation)?) } else { None };
        if let Some(row) = row.filter(|_| shown && speaks) {
            progress.print(&row.pretty());
        }
        outputs.write(simulation, space, row.as_ref())?;
        if let (Some(saver), true) = (&mut saver, step > first) {
            saver.step(simulation, || outputs.sync())?;
        }
        if let Some(row) = row.filter(|_| last) {
            progress.finish();
            if speaks {
                progress.print(&pace(space, step - first, began, saver.as_ref().map(|saver| saver.cost())));
            }
            return Ok(row);
        }
        simulation.advance()?;
        progress.step();
    }
}

/// What the configuration and the phase space make of the physics.
pub fn model(config: &Config, space: &PhaseSpace) -> Result<Model> {
    Ok(Model {
        grid: Grid::new(space.length, config.cutoff, space.molecules)?,
        potential: species::potential(space, config.cutoff)?,
        timestep: config.timestep,
        thermostat: config.thermostat,
        manner: config.manner,
        rebalance: config.rebalance,
    })
}

fn measure(simulation: &Simulation) -> Result<Row> {
    let volume = simulation.model().grid.volume();
    Ok(Row::new(simulation.step(), simulation.time(), &simulation.energies()?, volume))
}

fn introduction(world: &Comm, simulation: &Simulation, space: &PhaseSpace) -> String {
    let ([x, y, z], model) = (space.length, simulation.model());
    let carried =
        (0..model.potential.components()).filter(|component| model.potential.centre(*component).is_none());
    let carried: Vec<String> = carried.map(|component| (component + 1).to_string()).collect();
    let note = match carried.as_slice() {
        [] => String::new(),
        some => format!("\ncomponents without forces here, carried along unchanged: {}", some.join(", ")),
    };
    format!(
        "{} molecules in a box of {x:.3} x {y:.3} x {z:.3}, {:?} cells, on {} ranks by {}, {:?} decomposition{note}",
        space.molecules,
        model.grid.shape,
        world.size(),
        world.transport(),
        model.manner
    )
}

fn pace(space: &PhaseSpace, steps: u64, began: Instant, cost: Option<Cost>) -> String {
    let seconds = began.elapsed().as_secs_f64().max(1e-9);
    let rate = steps as f64 * space.molecules as f64 / seconds / 1e6;
    let pace = format!("{steps} steps in {seconds:.2} s: {rate:.2} million molecule steps per second");
    let Some(Cost { checkpoints, time }) = cost.filter(|cost| cost.checkpoints > 0) else { return pace };
    let (stood, share) = (time.as_secs_f64(), 100.0 * time.as_secs_f64() / seconds);
    format!("{pace}; it stood still for {stood:.3} s, {share:.2} %, for {checkpoints} checkpoints")
}
