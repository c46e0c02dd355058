//! `H5MD`: positions over time in HDF5; molecules in the order of their ids.

use anyhow::Result;
use aqueduct::comm::Op;
use aqueduct::format::h5md::{Creator, Frame, Trajectory};

use crate::exchange;
use crate::simulation::Simulation;

/// A trajectory from where a run begins. One that comes back begins another file: the frames in the first stay as they are.
pub struct Frames {
    prefix: String,
    trajectory: Option<Trajectory>,
}

impl Frames {
    /// A trajectory in `<prefix>-<first step>.h5md`.
    // As without HDF5, where it always fails.
    #[allow(clippy::unnecessary_wraps)]
    pub fn new(prefix: &str) -> Result<Self> {
        Ok(Self { prefix: prefix.to_owned(), trajectory: None })
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
                Trajectory::create(world, format!("{}-{step}.h5md", self.prefix), &creator, total)?
            }
        };
        let positions: Vec<[f64; 3]> = molecules.iter().map(|molecule| molecule.position).collect();
        let edges = simulation.model().grid.length;
        trajectory.write(&Frame { step: step as i64, time: simulation.time(), edges }, first, &positions)?;
        self.trajectory = Some(trajectory);
        Ok(())
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        Ok(self.trajectory.map_or(Ok(()), Trajectory::close)?)
    }
}
