//! Checkpoints of a run: when they are due, what is in them, and coming back.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use aqueduct::checkpoint::{Checkpoint, Generation, Interval, Molecule, Retention, Store};
use aqueduct::comm::{Comm, Op};
use aqueduct::mardyn::PhaseSpace;

use crate::decomposition::Decomposition;
use crate::decomposition::grid::SimulationGrid;
use crate::input::initial_state;
use crate::output::output_marks::OutputMarks;
use crate::output::{OutputState, phase_space};
use crate::simulation::Simulation;

/// Where checkpoints go, and how often.
#[derive(Clone, Debug)]
pub struct CheckpointPolicy {
    /// The folder of the generations.
    pub folder: PathBuf,
    /// A device that their files go through, such as `fault=nospace=1000000:ufs:`.
    pub through: Option<String>,
    /// When one is due.
    pub every: CheckpointInterval,
    /// How many generations stay.
    pub keep: usize,
    /// Whether the run waits for each, instead of computing on while it is written.
    pub blocking: bool,
}

/// When a checkpoint is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointInterval {
    /// After so many steps.
    Steps(u64),
    /// As often as it pays on a machine that fails once in this time, after Young and Daly.
    Auto(Duration),
}

/// Where a run with checkpoints begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartMode {
    /// At the beginning. A folder that has checkpoints is refused: they are of a run that could go on.
    #[default]
    New,
    /// At the beginning, whatever there is.
    StartOver,
    /// At the latest checkpoint; there must be one.
    Latest,
    /// At the latest checkpoint, or at the beginning if there is none.
    LatestIfAny,
    /// At this generation.
    Generation(u64),
}

/// The checkpoints of a run.
pub struct Checkpointer {
    store: Store,
    start: StartMode,
    /// Newer checkpoints than the state that the run begins with: they are of a future that will not be.
    has_newer: bool,
    blocking: bool,
    /// Whether the first checkpoint is written at once and waited for, so that it is known how long one takes.
    early: bool,
    schedule: CheckpointSchedule,
    /// When the last one was begun, while it is under way; and the longest that any has taken.
    began: Option<Instant>,
    longest: Duration,
    /// The step of the newest one.
    saved: Option<u64>,
    cost: CheckpointCost,
}

/// What checkpoints have kept a run from computing, on this rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckpointCost {
    /// How many were written on the way.
    pub checkpoints: u32,
    /// How long the run has stood still for them.
    pub time: Duration,
}

enum CheckpointSchedule {
    Steps(u64),
    /// Looked at by rank 0.
    Auto {
        interval: Interval,
        since: Instant,
    },
}

/// What a checkpoint brings back.
pub struct RestoredState {
    /// The step it was written after.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// Molecules about where they belong.
    pub molecules: Vec<Molecule>,
    /// How far the outputs were.
    pub outputs: OutputState,
    /// What is to be told about it.
    pub note: String,
}

impl Checkpointer {
    /// Opens the folder, and locks it: no other run changes it, or the outputs that belong to it. Collective.
    pub fn open(world: &Comm, policy: &CheckpointPolicy, start: StartMode) -> Result<Self> {
        let store = match start {
            StartMode::Latest | StartMode::Generation(_) => Store::open(world, &policy.folder)?,
            _ => Store::open_or_create(world, &policy.folder)?,
        };
        let store = store.retention(Retention::Last(policy.keep.max(1)));
        let mut store = match &policy.through {
            Some(device) => store.with_device(device),
            None => store,
        };
        store.lock()?;
        let newest = store.generations()?.last().copied();
        let has_newer = match (start, newest) {
            (StartMode::New, Some(newest)) => bail!(
                "{}: there are checkpoints, up to generation {newest}; go on from them with --restart latest, begin at the beginning and give \
                 them up with --start-over, or name another folder",
                policy.folder.display()
            ),
            (StartMode::StartOver, newest) => newest.is_some(),
            (StartMode::Generation(chosen), Some(newest)) => chosen != newest,
            _ => false,
        };
        let clock = match policy.every {
            CheckpointInterval::Steps(steps) => CheckpointSchedule::Steps(steps.max(1)),
            CheckpointInterval::Auto(between) => {
                CheckpointSchedule::Auto { interval: Interval::new(between), since: Instant::now() }
            }
        };
        let (saved, cost, blocking) = (None, CheckpointCost::default(), policy.blocking);
        let (began, longest, early) = (None, Duration::ZERO, false);
        Ok(Self { store, start, has_newer, blocking, early, schedule: clock, began, longest, saved, cost })
    }

    /// Writes a checkpoint after the first step, and waits for it: a run that ends before a limit of time needs to know how long one takes.
    pub fn measure_early(&mut self) {
        self.early = true;
    }

    /// The checkpoint that the run comes back to, compared with its checksums; none if it begins at the beginning.
    fn chosen(&self) -> Result<Option<Generation>> {
        match self.start {
            StartMode::New | StartMode::StartOver => Ok(None),
            StartMode::LatestIfAny => Ok(self.store.latest()?),
            StartMode::Latest => {
                let latest = self.store.latest()?;
                let folder = self.store.folder().display();
                ensure!(
                    latest.is_some(),
                    "{folder}: there is no checkpoint to come back to; check the path, or begin without --restart"
                );
                Ok(latest)
            }
            StartMode::Generation(number) => {
                let generation = self.store.generation(number)?;
                generation.verify()?;
                Ok(Some(generation))
            }
        }
    }

    /// What the run comes back to, on whatever number of ranks; none if it begins at the beginning. Collective.
    pub fn restore(
        &mut self,
        world: &Comm,
        space: &PhaseSpace,
        cutoff: f64,
    ) -> Result<Option<RestoredState>> {
        let Some(latest) = self.chosen()? else { return Ok(None) };
        let folder = self.store.folder().display();
        let (length, count) = (latest.value::<[f64; 3]>("length")?, latest.value::<u64>("count")?);
        ensure!(
            length == space.length && count == space.molecules,
            "{folder}: its checkpoints have {count} molecules in a box of {length:?}, the configuration {} in {:?}: \
             they are of another run; name another folder, or the configuration they belong to",
            space.molecules,
            space.length
        );
        let grid = SimulationGrid::new(length, cutoff, count)?;
        let brick = Decomposition::regular(&grid, world.size()).cell_box(world.rank());
        let molecules = latest.cells::<Molecule>("molecules", &initial_state::region(&grid, &brick))?;
        let found = world.allreduce_one(Op::Sum, molecules.len() as u64)?;
        ensure!(
            found == count,
            "{folder}: generation {} has {found} molecules instead of {count}",
            latest.number()
        );
        self.saved = Some(latest.step());
        let mut passed = String::new();
        for other in latest.skipped() {
            write!(passed, "; {} was passed over: {}", other.generation, other.error)?;
        }
        let (number, step, ranks) = (latest.number(), latest.step(), latest.ranks());
        let note = format!(
            "back to step {step}, from generation {number} of {folder}, written by {ranks} ranks{passed}"
        );
        let marks = if latest.has("outputs") {
            OutputMarks::decode(&latest.value::<String>("outputs")?)?
        } else {
            OutputMarks::default()
        };
        let outputs = OutputState { step, marks };
        Ok(Some(RestoredState { step, time: latest.value("time")?, molecules, outputs, note }))
    }

    /// Makes the state that a run begins with the latest checkpoint, where there are newer ones: before anything that belongs to those is changed.
    /// Collective.
    pub fn begin(&mut self, simulation: &Simulation, marks: &OutputMarks) -> Result<()> {
        if self.has_newer { self.save(simulation, marks, true) } else { Ok(()) }
    }

    /// Writes a checkpoint if one is due, after `before`, which makes the outputs durable and tells how far they are. Collective.
    pub fn step(
        &mut self,
        simulation: &Simulation,
        before: impl FnOnce() -> Result<OutputMarks>,
    ) -> Result<()> {
        self.note_end();
        if self.saved == Some(simulation.step()) || !(self.early || self.is_due(simulation)?) {
            return Ok(());
        }
        let early = std::mem::take(&mut self.early);
        let began = Instant::now();
        self.save(simulation, &before()?, self.blocking || early)?;
        let took = began.elapsed();
        self.cost = CheckpointCost { checkpoints: self.cost.checkpoints + 1, time: self.cost.time + took };
        if let CheckpointSchedule::Auto { interval, since } = &mut self.schedule {
            interval.cost(took);
            *since = Instant::now();
        }
        Ok(())
    }

    /// The longest that a checkpoint has taken so far, from its beginning until it was durable, as this rank has seen it.
    pub fn longest(&self) -> Duration {
        // One that is under way takes at least as long as it has taken.
        self.longest.max(self.began.map_or(Duration::ZERO, |began| began.elapsed()))
    }

    fn note_end(&mut self) {
        if let Some(began) = self.began.take_if(|_| !self.store.is_busy()) {
            self.longest = self.longest.max(began.elapsed());
        }
        for warning in self.store.take_warnings() {
            eprintln!("md: {warning}");
        }
    }

    /// What they have cost so far.
    pub fn cost(&self) -> CheckpointCost {
        self.cost
    }

    /// Writes the last one, if it is not there yet, and waits until all are durable. Collective.
    pub fn finish(mut self, simulation: &Simulation, marks: &OutputMarks) -> Result<()> {
        self.store.wait()?;
        if self.saved != Some(simulation.step()) {
            self.save(simulation, marks, true)?;
        }
        self.note_end();
        Ok(())
    }

    fn is_due(&self, simulation: &Simulation) -> Result<bool> {
        match &self.schedule {
            CheckpointSchedule::Steps(steps) => Ok(simulation.step().is_multiple_of(*steps)),
            CheckpointSchedule::Auto { interval, since } => {
                let mut due = [u8::from(interval.is_due(since.elapsed()))];
                simulation.world().broadcast(0, &mut due)?;
                Ok(due[0] == 1)
            }
        }
    }

    fn save(&mut self, simulation: &Simulation, marks: &OutputMarks, blocking: bool) -> Result<()> {
        let (grid, molecules) = phase_space::for_files(simulation)?;
        let count = simulation.world().allreduce_one(Op::Sum, molecules.len() as u64)?;
        let mut checkpoint = Checkpoint::new(simulation.step());
        checkpoint.value("time", &simulation.time());
        checkpoint.value("length", &grid.length());
        checkpoint.value("count", &count);
        checkpoint.value("outputs", &marks.encode());
        checkpoint.cells("molecules", &grid, &molecules);
        self.began = Some(Instant::now());
        if blocking {
            self.store.write(&checkpoint)?;
        } else {
            self.store.start(checkpoint)?;
        }
        self.note_end();
        self.saved = Some(simulation.step());
        Ok(())
    }
}
