//! `H5MD` where this program was built without HDF5: an error that says so.

use anyhow::{Result, bail};
use aqueduct::comm::Comm;

use crate::input::units::SimulationUnits;
use crate::simulation::Simulation;

/// Nothing can be written here.
pub enum H5mdUnavailable {}

/// The output of this name where HDF5 is there.
pub type H5mdOutput = H5mdUnavailable;

impl H5mdUnavailable {
    /// Tells what to do.
    pub fn open(_: &Comm, prefix: &str, _: Option<SimulationUnits>, _: Option<&[u64]>) -> Result<Self> {
        bail!(
            "output H5MD {prefix}: this program was built without HDF5; install libhdf5-dev and build it with `--features hdf5`"
        )
    }

    /// There is none to be anywhere.
    pub fn mark(&self) -> Vec<u64> {
        match *self {}
    }

    /// There is none to write to.
    pub fn write(&mut self, _: &Simulation) -> Result<()> {
        match *self {}
    }

    /// There is none to close.
    pub fn close(self) -> Result<()> {
        match self {}
    }
}

#[cfg(test)]
mod tests {
    use aqueduct::comm::{Error, Launch};

    use super::*;

    #[test]
    fn a_trajectory_is_an_error_with_the_way_out() {
        let open = |world: &Comm| {
            Ok::<_, Error>(H5mdUnavailable::open(world, "run", None, None).err().unwrap().to_string())
        };
        let error = Launch::threads(1).run(open).unwrap().remove(0);
        assert!(error.contains("output H5MD run") && error.contains("--features hdf5"), "{error}");
    }
}
