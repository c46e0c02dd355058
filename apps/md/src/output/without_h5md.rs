//! `H5MD` in a program that was built without HDF5: an error with the remedy.

use anyhow::{Result, bail};
use aqueduct::comm::Comm;

use crate::input::units::SimulationUnits;
use crate::simulation::Simulation;

/// No value: the output cannot be opened.
pub enum H5mdUnavailable {}

/// Stands for the output of this name with HDF5.
pub type H5mdOutput = H5mdUnavailable;

impl H5mdUnavailable {
    /// Returns the error.
    pub fn open(_: &Comm, prefix: &str, _: Option<SimulationUnits>, _: Option<&[u64]>) -> Result<Self> {
        bail!("output H5MD {prefix}: this program was built without HDF5; build it with the default features")
    }

    /// Never called.
    pub fn mark(&self) -> Vec<u64> {
        match *self {}
    }

    /// Never called.
    pub fn write(&mut self, _: &Simulation) -> Result<()> {
        match *self {}
    }

    /// Never called.
    pub fn close(self) -> Result<()> {
        match self {}
    }
}

#[cfg(test)]
mod tests {
    use aqueduct::comm::{Error, Launch};

    use super::*;

    #[test]
    fn a_trajectory_is_an_error_with_a_remedy() {
        let open = |world: &Comm| {
            Ok::<_, Error>(H5mdUnavailable::open(world, "run", None, None).err().unwrap().to_string())
        };
        let error = Launch::threads(1).run(open).unwrap().remove(0);
        assert!(error.contains("output H5MD run") && error.contains("default features"), "{error}");
    }
}
