//! The interposition library: building it, and its long tests.

use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{cargo, run};

/// Opens files on many communicators and starts many requests under both MPIs; memory, descriptors and threads must not grow. Takes 10 minutes by default.
/// Each line of the output says whether all counts (100 000 opens, 1000 communicators, 1 000 000 requests) were reached within the time limit;
/// `AQUEDUCT_SOAK_COUNTS=1` makes the latter a failure.
pub(crate) fn soak(minutes: Option<&str>) -> Result<()> {
    let minutes: u64 = minutes.unwrap_or("10").parse().context("the number of minutes")?;
    // Two MPI libraries, each on one and on several simulated nodes.
    let seconds = (minutes * 60 / 4).to_string();
    run(test("memory_descriptors_and_threads_stay_flat").env("AQUEDUCT_SOAK_SECONDS", seconds))
}

/// Runs programs on the library under valgrind: no invalid access and no leak.
pub(crate) fn valgrind() -> Result<()> {
    run(test("valgrind").env("AQUEDUCT_VALGRIND", "all"))
}

/// The tests of `crates/mpiio/tests` whose names contain `name`.
fn test(name: &str) -> Command {
    let mut command = cargo(&[
        "test",
        "--package",
        "aqueduct-mpiio",
        "--all-features",
        "--tests",
        name,
        "--",
        "--nocapture",
    ]);
    command.env("AQUEDUCT_REQUIRE_MPI", "1");
    command
}

/// Builds `target/release/libaqueduct_mpiio.so`. This needs no MPI.
pub(crate) fn build() -> Result<()> {
    run(&mut cargo(&["build", "--release", "--package", "aqueduct-mpiio"]))
}
