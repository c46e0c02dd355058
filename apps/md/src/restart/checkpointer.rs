//! Checkpoints of a run: when they are due, their contents, and the restart.

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

/// Folder and frequency of checkpoints.
#[derive(Clone, Debug)]
pub struct CheckpointPolicy {
    /// The folder of the generations.
    pub folder: PathBuf,
    /// A device for their files, such as `fault=nospace=1000000:ufs:`.
    pub through: Option<String>,
    /// When a checkpoint is due.
    pub every: CheckpointInterval,
    /// The number of generations that are kept.
    pub keep: usize,
    /// Whether the run waits for each checkpoint instead of computing while it is written.
    pub blocking: bool,
}

/// When a checkpoint is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointInterval {
    /// After this number of steps.
    Steps(u64),
    /// At the best interval for this mean time between failures, after Young and Daly.
    Auto(Duration),
}

/// Where a run with checkpoints starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartMode {
    /// At the beginning. A folder with checkpoints is an error, since they belong to a run that could be continued.
    #[default]
    New,
    /// At the beginning, also in a folder with checkpoints.
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
    /// Checkpoints that are newer than the initial state of the run. They are discarded.
    has_newer: bool,
    blocking: bool,
    /// Whether the first checkpoint is written after the first step and waited for, to measure its duration.
    early: bool,
    schedule: CheckpointSchedule,
    /// The start of the checkpoint that is being written, and the longest duration so far.
    began: Option<Instant>,
    longest: Duration,
    /// The step of the newest checkpoint.
    saved: Option<u64>,
    cost: CheckpointCost,
}

/// The cost of the checkpoints of a run on this rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckpointCost {
    /// The number of checkpoints.
    pub checkpoints: u32,
    /// The time for which they stopped the run.
    pub time: Duration,
}

enum CheckpointSchedule {
    Steps(u64),
    /// Used by rank 0.
    Auto {
        interval: Interval,
        since: Instant,
    },
}

/// The state of a checkpoint.
pub struct RestoredState {
    /// The step after which it was written.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// The molecules, approximately on their ranks.
    pub molecules: Vec<Molecule>,
    /// The positions of the outputs.
    pub outputs: OutputState,
    /// A message about the restart.
    pub note: String,
}

impl Checkpointer {
    /// Opens and locks the folder, so that no other run changes it or the outputs that belong to it. Collective.
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
                "{}: the folder has checkpoints up to generation {newest}; continue with --restart latest, discard them and start from the \
                 beginning with --start-over, or use another folder",
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

    /// Makes the run write a checkpoint after the first step and wait for it. A run with a time limit needs to know how long a checkpoint takes.
    pub fn measure_early(&mut self) {
        self.early = true;
    }

    /// The checkpoint from which the run restarts, after verification; `None` if it starts at the beginning.
    fn chosen(&self) -> Result<Option<Generation>> {
        match self.start {
            StartMode::New | StartMode::StartOver => Ok(None),
            StartMode::LatestIfAny => Ok(self.store.latest()?),
            StartMode::Latest => {
                let latest = self.store.latest()?;
                let folder = self.store.folder().display();
                ensure!(
                    latest.is_some(),
                    "{folder}: there is no checkpoint; check the path, or run without --restart"
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

    /// The state from which the run restarts, on any number of ranks; `None` if it starts at the beginning. Collective.
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
             they belong to another run; use another folder, or the configuration of that run",
            space.molecules,
            space.length
        );
        let grid = SimulationGrid::new(length, cutoff, count)?;
        let cell_box = Decomposition::regular(&grid, world.size()).cell_box(world.rank());
        let molecules = latest.cells::<Molecule>("molecules", &initial_state::region(&grid, &cell_box))?;
        let found = world.allreduce_one(Op::Sum, molecules.len() as u64)?;
        ensure!(
            found == count,
            "{folder}: generation {} has {found} molecules instead of {count}",
            latest.number()
        );
        self.saved = Some(latest.step());
        let mut passed = String::new();
        for other in latest.skipped() {
            write!(passed, "; generation {} was skipped: {}", other.generation, other.error)?;
        }
        let (number, step, ranks) = (latest.number(), latest.step(), latest.ranks());
        let note = format!(
            "restart at step {step}, from generation {number} of {folder}, written by {ranks} ranks{passed}"
        );
        let marks = if latest.has("outputs") {
            OutputMarks::decode(&latest.value::<String>("outputs")?)?
        } else {
            OutputMarks::default()
        };
        let outputs = OutputState { step, marks };
        Ok(Some(RestoredState { step, time: latest.value("time")?, molecules, outputs, note }))
    }

    /// If there are newer checkpoints than the initial state, writes the initial state as the latest checkpoint before outputs are changed.
    /// Collective.
    pub fn begin(&mut self, simulation: &Simulation, marks: &OutputMarks) -> Result<()> {
        if self.has_newer { self.save(simulation, marks, true) } else { Ok(()) }
    }

    /// Writes a checkpoint if one is due. It calls `before` first, which syncs the outputs and returns their positions. Collective.
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

    /// The longest duration of a checkpoint so far on this rank, from its start until it was durable.
    pub fn longest(&self) -> Duration {
        // The checkpoint that is being written takes at least the time since its start.
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

    /// The cost of the checkpoints so far.
    pub fn cost(&self) -> CheckpointCost {
        self.cost
    }

    /// Writes a checkpoint of the last step, unless there is one, and waits until all are durable. Collective.
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
