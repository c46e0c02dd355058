//! `H5MD`: positions over time in HDF5; molecules are ordered by id.

use anyhow::{Context, Result, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct::formats::h5md::{self, Creator, Trajectory, TrajectoryFrame};

use crate::input::units::SimulationUnits;
use crate::simulation::Simulation;
use crate::simulation::exchange;

const CREATOR: Creator<'static> = Creator { author: "md", program: "md", version: env!("CARGO_PKG_VERSION") };

/// A trajectory in `<prefix>-<first step>.h5md`. A restarted run appends to it.
pub struct H5mdOutput {
    prefix: String,
    units: Option<SimulationUnits>,
    trajectory: Option<Trajectory>,
    /// The steps of the first and the last frame.
    steps: Option<(u64, u64)>,
}

impl H5mdOutput {
    /// Opens a trajectory: a new one or, after a restart, the frames up to the checkpoint. `kept` has the step of the first frame, the number
    /// of frames, and the step of the last frame. Without units the file has none. Collective.
    pub fn open(
        world: &Comm,
        prefix: &str,
        units: Option<SimulationUnits>,
        kept: Option<&[u64]>,
    ) -> Result<Self> {
        let mut made = Self { prefix: prefix.to_owned(), units, trajectory: None, steps: None };
        if let Some(&[first, frames, last]) = kept {
            let name = made.name(first);
            let trajectory = take_back(world, &name, made.file_units(), frames)
                .with_context(|| format!("H5MD: {name}"))?;
            (made.trajectory, made.steps) = (Some(trajectory), Some((first, last)));
        }
        Ok(made)
    }

    fn name(&self, first: u64) -> String {
        format!("{}-{first}.h5md", self.prefix)
    }

    fn file_units(&self) -> Option<h5md::TrajectoryUnits<'static>> {
        self.units.map(|_| h5md::TrajectoryUnits::MOLECULAR)
    }

    /// The position for a checkpoint, the argument `kept` of [`open`](Self::open).
    pub fn mark(&self) -> Vec<u64> {
        let frames = self.trajectory.as_ref().map_or(0, Trajectory::frames);
        self.steps.map_or(Vec::new(), |(first, last)| vec![first, frames, last])
    }

    /// Appends a frame unless the file has it. Collective.
    pub fn write(&mut self, simulation: &Simulation) -> Result<()> {
        let (world, step) = (simulation.world(), simulation.step());
        if self.steps.is_some_and(|(_, last)| last >= step) {
            return Ok(());
        }
        let molecules = exchange::sort_by_id(world, simulation.molecules())?;
        let count = molecules.len() as u64;
        let first = world.exclusive_scan_one(Op::Sum, count)?.unwrap_or(0);
        let mut trajectory = match self.trajectory.take() {
            Some(trajectory) => trajectory,
            None => {
                let total = world.allreduce_one(Op::Sum, count)?;
                Trajectory::replace(world, self.name(step), &CREATOR, self.file_units(), total)?
            }
        };
        let units = self.units.unwrap_or(SimulationUnits::BARE);
        let positions: Vec<[f64; 3]> =
            molecules.iter().map(|molecule| units.place(molecule.position)).collect();
        let (time, edges) = (simulation.time() * units.time, units.place(simulation.model().grid.length));
        trajectory.write(&TrajectoryFrame { step: step as i64, time, edges }, first, &positions)?;
        self.trajectory = Some(trajectory);
        self.steps = Some((self.steps.map_or(step, |(first, _)| first), step));
        Ok(())
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        Ok(self.trajectory.map_or(Ok(()), Trajectory::close)?)
    }
}

/// Opens a trajectory and keeps its first frames. To remove later frames, the first ones are copied and the copy replaces the file.
fn take_back(
    world: &Comm,
    name: &str,
    units: Option<h5md::TrajectoryUnits<'_>>,
    frames: u64,
) -> Result<Trajectory> {
    let found = Trajectory::open(world, name)?;
    ensure!(
        found.frames() >= frames,
        "it has {} frames, but {frames} when the checkpoint was written; restore the file, or use --start-over",
        found.frames()
    );
    let copy = format!("{name}.new");
    if found.frames() == frames {
        if world.rank() == 0 {
            // A run that was killed while copying has left an incomplete copy.
            let _ = std::fs::remove_file(&copy);
        }
        return Ok(found);
    }
    let mut kept = Trajectory::replace(world, &copy, &CREATOR, units, found.particles())?;
    let border = |rank: usize| (u128::from(found.particles()) * rank as u128 / world.size() as u128) as u64;
    let (first, end) = (border(world.rank()), border(world.rank() + 1));
    for number in 0..frames {
        let (frame, positions) = found.read(number, first, end - first)?;
        kept.write(&frame, first, &positions)?;
    }
    kept.close()?;
    found.close()?;
    if world.rank() == 0 {
        std::fs::rename(&copy, name)?;
    }
    world.barrier()?;
    Ok(Trajectory::open(world, name)?)
}
