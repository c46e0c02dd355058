//! Checkpoints of a run: when they are due, what is in them, and coming back.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use aqueduct::checkpoint::mardyn::PhaseSpace;
use aqueduct::checkpoint::{Checkpoint, Interval, Keep, Molecule, Store};
use aqueduct::comm::{Comm, Op};

use crate::decomposition::Decomposition;
use crate::grid::Grid;
use crate::origin;
use crate::output::phase;
use crate::simulation::Simulation;

/// Where checkpoints go, and how often.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The folder of the generations.
    pub folder: PathBuf,
    /// A device that their files go through, such as `fault=nospace=1000000:ufs:`.
    pub through: Option<String>,
    /// When one is due.
    pub every: Every,
    /// How many generations stay.
    pub keep: usize,
    /// Whether the run waits for each, instead of computing on while it is written.
    pub blocking: bool,
}

/// When a checkpoint is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// After so many steps.
    Steps(u64),
    /// As often as it pays on a machine that fails once in this time, after Young and Daly.
    Auto(Duration),
}

/// The checkpoints of a run.
pub struct Saver {
    store: Store,
    blocking: bool,
    clock: Clock,
    /// The step of the newest one.
    saved: Option<u64>,
    cost: Cost,
}

/// What checkpoints have kept a run from computing, on this rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// How many were written on the way.
    pub checkpoints: u32,
    /// How long the run has stood still for them.
    pub time: Duration,
}

enum Clock {
    Steps(u64),
    /// Looked at by rank 0.
    Auto {
        interval: Interval,
        since: Instant,
    },
}

/// What a checkpoint brings back.
pub struct Restored {
    /// The step it was written after.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// Molecules about where they belong.
    pub molecules: Vec<Molecule>,
    /// What is to be told about it.
    pub note: String,
}

impl Saver {
    /// Opens the folder. Collective.
    pub fn open(world: &Comm, policy: &Policy) -> Result<Self> {
        let store = Store::open(world, &policy.folder)?.keep(Keep::Last(policy.keep.max(1)));
        let store = match &policy.through {
            Some(device) => store.through(device),
            None => store,
        };
        let clock = match policy.every {
            Every::Steps(steps) => Clock::Steps(steps.max(1)),
            Every::Auto(between) => Clock::Auto { interval: Interval::new(between), since: Instant::now() },
        };
        Ok(Self { store, blocking: policy.blocking, clock, saved: None, cost: Cost::default() })
    }

    /// The newest whole checkpoint, on whatever number of ranks; none where none was ever committed. Collective.
    pub fn latest(&mut self, world: &Comm, space: &PhaseSpace, cutoff: f64) -> Result<Option<Restored>> {
        let Some(latest) = self.store.latest()? else { return Ok(None) };
        let folder = self.store.folder().display();
        let (length, count) = (latest.value::<[f64; 3]>("length")?, latest.value::<u64>("count")?);
        ensure!(
            length == space.length && count == space.molecules,
            "{folder}: its checkpoints have {count} molecules in a box of {length:?}, the configuration {} in {:?}: \
             they are of another run; name another folder, or the configuration they belong to",
            space.molecules,
            space.length
        );
        let grid = Grid::new(length, cutoff, count)?;
        let brick = Decomposition::regular(&grid, world.size()).brick(world.rank());
        let molecules = latest.cells::<Molecule>("molecules", &origin::region(&grid, &brick))?;
        let found = world.allreduce_one(Op::Sum, molecules.len() as u64)?;
        ensure!(
            found == count,
            "{folder}: generation {} has {found} molecules instead of {count}",
            latest.number()
        );
        self.saved = Some(latest.step());
        let mut passed = String::new();
        for other in latest.passed_over() {
            write!(passed, "; {} was passed over: {}", other.generation, other.error)?;
        }
        let (number, step, ranks) = (latest.number(), latest.step(), latest.ranks());
        let note = format!(
            "back to step {step}, from generation {number} of {folder}, written by {ranks} ranks{passed}"
        );
        Ok(Some(Restored { step, time: latest.value("time")?, molecules, note }))
    }

    /// Writes a checkpoint if one is due, after `before`: what is to be durable no later than it. Collective.
    pub fn step(&mut self, simulation: &Simulation, before: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.saved == Some(simulation.step()) || !self.is_due(simulation)? {
            return Ok(());
        }
        let began = Instant::now();
        before()?;
        self.save(simulation, self.blocking)?;
        let took = began.elapsed();
        self.cost = Cost { checkpoints: self.cost.checkpoints + 1, time: self.cost.time + took };
        if let Clock::Auto { interval, since } = &mut self.clock {
            interval.cost(took);
            *since = Instant::now();
        }
        Ok(())
    }

    /// What they have cost so far.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Writes the last one, if it is not there yet, and waits until all are durable. Collective.
    pub fn finish(mut self, simulation: &Simulation) -> Result<()> {
        self.store.wait()?;
        if self.saved != Some(simulation.step()) {
            self.save(simulation, true)?;
        }
        Ok(())
    }

    fn is_due(&self, simulation: &Simulation) -> Result<bool> {
        match &self.clock {
            Clock::Steps(steps) => Ok(simulation.step().is_multiple_of(*steps)),
            Clock::Auto { interval, since } => {
                let mut due = [u8::from(interval.is_due(since.elapsed()))];
                simulation.world().broadcast(0, &mut due)?;
                Ok(due[0] == 1)
            }
        }
    }

    fn save(&mut self, simulation: &Simulation, blocking: bool) -> Result<()> {
        let (grid, molecules) = phase::for_files(simulation)?;
        let count = simulation.world().allreduce_one(Op::Sum, molecules.len() as u64)?;
        let mut checkpoint = Checkpoint::new(simulation.step());
        checkpoint.value("time", &simulation.time());
        checkpoint.value("length", &grid.length());
        checkpoint.value("count", &count);
        checkpoint.cells("molecules", &grid, &molecules);
        if blocking {
            self.store.write(&checkpoint)?;
        } else {
            self.store.start(checkpoint)?;
        }
        self.saved = Some(simulation.step());
        Ok(())
    }
}
