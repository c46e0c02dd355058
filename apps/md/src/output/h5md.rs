//! `H5MD`: positions over time in HDF5; molecules in the order of their ids.

use anyhow::Result;
use aqueduct::comm::Op;
use aqueduct::format::h5md::{self, Creator, Frame, Trajectory};

use crate::exchange;
use crate::simulation::Simulation;
use crate::units::Units;

/// A trajectory from where a run begins. One that comes back begins another file: the frames in the first stay as they are.
pub struct Frames {
    prefix: String,
    units: Option<Units>,
    trajectory: Option<Trajectory>,
}

impl Frames {
    /// A trajectory in `<prefix>-<first step>.h5md`; without units its numbers are bare, and it says none.
    // As without HDF5, where it always fails.
    #[allow(clippy::unnecessary_wraps)]
    pub fn new(prefix: &str, units: Option<Units>) -> Result<Self> {
        Ok(Self { prefix: prefix.to_owned(), units, trajectory: None })
    }

    /// One more frame. Collective.
    pub fn write(&mut self, simulation: &Simulation) -> Result<()> {
        let (world, step) = (simulation.world(), simulation.step());
        let molecules = exchange::by_id(world, simulation.molecules())?;
        let count = molecules.len() as u64;
        let first = world.exclusive_scan_one(Op::Sum, count)?.unwrap_or(0);
        let mut trajectory = match self.trajectory.take() {
            Some(trajectory) => trajectory,
            None => {
                let total = world.allreduce_one(Op::Sum, count)?;
                let creator = Creator { author: "md", program: "md", version: env!("CARGO_PKG_VERSION") };
                let told = self.units.map(|_| h5md::Units::MOLECULAR);
                Trajectory::create(world, format!("{}-{step}.h5md", self.prefix), &creator, told, total)?
            }
        };
        let units = self.units.unwrap_or(Units::BARE);
        let positions: Vec<[f64; 3]> =
            molecules.iter().map(|molecule| units.place(molecule.position)).collect();
        let (time, edges) = (simulation.time() * units.time, units.place(simulation.model().grid.length));
        trajectory.write(&Frame { step: step as i64, time, edges }, first, &positions)?;
        self.trajectory = Some(trajectory);
        Ok(())
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        Ok(self.trajectory.map_or(Ok(()), Trajectory::close)?)
    }
}
