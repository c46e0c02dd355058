//! The C door as a library to be preloaded.

use anyhow::Result;

use crate::shell::{cargo, run};

/// Builds `target/release/libaqueduct_mpiio.so`. No MPI is needed for it.
pub(crate) fn build() -> Result<()> {
    run(&mut cargo(&["build", "--release", "--package", "aqueduct-mpiio"]))
}
