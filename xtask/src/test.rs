//! Everything that CI runs.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::shell::{cargo, run, succeeds};
use crate::{packages, wheels};

/// A part of the work, by name.
type Stage = (&'static str, fn() -> Result<()>);

const STAGES: [Stage; 7] = [
    ("packages", packages::install),
    ("format", || run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("lints", || run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))),
    ("documentation", documentation),
    ("documentation examples", || run(&mut cargo(&["test", "--workspace", "--doc"]))),
    ("demonstration", || run(&mut cargo(&["run", "--release", "--", "--size", "8MiB"]))),
    ("tests", tests),
];

/// Installs what is missing, then runs all stages; the first that fails ends it.
pub(crate) fn run_all() -> Result<()> {
    for (name, stage) in STAGES {
        let start = Instant::now();
        stage().with_context(|| format!("stage \"{name}\""))?;
        println!("stage \"{name}\" took {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn documentation() -> Result<()> {
    run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))
}

/// All tests, those under `mpirun` too: here a missing MPI is a failure.
fn tests() -> Result<()> {
    let nextest = succeeds(&mut cargo(&["nextest", "--version"]));
    let words: &[&str] =
        if nextest { &["nextest", "run"] } else { &["test", "--tests", "--bins", "--examples"] };
    let mut command = cargo(words);
    command.args(["--workspace"]).env("AQUEDUCT_REQUIRE_MPI", "1").env("AQUEDUCT_REQUIRE_NUMPY", "1");
    for (name, version, variable) in wheels::WHEELS {
        command.env(variable, wheels::install(name, version)?);
    }
    run(&mut command)
}
