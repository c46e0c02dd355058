//! The fast tests: formatting, lints, unit tests and quick integration tests. At most two minutes on a warm target; no MPI, no Python.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::shell::{cargo, run, succeeds};

/// The time limit if everything is built and one crate has changed.
const LIMIT: Duration = Duration::from_secs(120);

/// Integration tests that take seconds and start no other programs, by the names of their files.
const QUICK_TESTS: [&str; 18] = [
    "tidy",
    "error_messages",
    "threads",
    "devices",
    "fault",
    "trace",
    "ufs",
    "access",
    "counters",
    "distribution",
    "layout",
    "objects",
    "schemas",
    "dataset",
    "header",
    "streams",
    "store",
    "edge_cases",
];

/// Runs the fast tests.
pub(crate) fn run_all() -> Result<()> {
    let start = Instant::now();
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))?;
    if !succeeds(&mut cargo(&["nextest", "--version"])) {
        bail!("cargo-nextest is missing; install it with: cargo install --locked cargo-nextest");
    }
    let mut tests = cargo(&["nextest", "run", "--workspace", "--profile", "fast", "--lib", "--bins"]);
    tests.args(["--exclude", "aqueduct-model-checks"]);
    tests.args(QUICK_TESTS.iter().flat_map(|name| ["--test", name]));
    run(&mut tests)?;
    let took = start.elapsed();
    println!("the fast tests took {:.0} s", took.as_secs_f64());
    if took > LIMIT {
        println!("notice: this exceeds {} s; much was built, or a test is not quick", LIMIT.as_secs());
    }
    Ok(())
}
