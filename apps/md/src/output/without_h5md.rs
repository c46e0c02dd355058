//! `H5MD` where this program was built without HDF5: an error that says so.

use anyhow::{Result, bail};

use crate::simulation::Simulation;
use crate::units::Units;

/// Nothing can be written here.
pub enum Frames {}

impl Frames {
    /// Tells what to do.
    pub fn new(prefix: &str, _: Option<Units>) -> Result<Self> {
        bail!(
            "output H5MD {prefix}: this program was built without HDF5; install libhdf5-dev and build it with `--features hdf5`"
        )
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
    use super::*;

    #[test]
    fn a_trajectory_is_an_error_with_the_way_out() {
        let error = Frames::new("run", None).err().unwrap().to_string();
        assert!(error.contains("output H5MD run") && error.contains("--features hdf5"), "{error}");
    }
}
