//! Builds and starts the benchmarks, which are in `crates/bench`.

use anyhow::Result;

use crate::shell::{cargo, run};
use crate::{mpiio, packages, python, wheels};

/// Runs a benchmark with its arguments. Without a name, or with `--list`, prints them all.
pub(crate) fn start(words: &[&str]) -> Result<()> {
    let name = words.first().copied().unwrap_or("--list");
    let compares_libraries = ["peers", "formats", "hdf5", "programs", "motif", "python"].contains(&name)
        && !words.contains(&"--help");
    if compares_libraries && let Err(error) = packages::install() {
        eprintln!("{error:#}; cases that need them are n/a");
    }
    if name == "programs" || words.contains(&"--preload") {
        mpiio::build()?;
    }
    if name == "motif" {
        run(&mut cargo(&["build", "--release", "--quiet", "--package", "aqueduct-motif"]))?;
    }
    let mut command = cargo(&["run", "--release", "--quiet", "--package", "aqueduct-bench"]);
    if name == "wave" {
        run(&mut cargo(&["build", "--release", "--quiet", "--package", "aqueduct-wave"]))?;
        match wheels::kwave() {
            Ok(folder) => _ = command.env(wheels::KWAVE_VARIABLE, folder),
            Err(error) => eprintln!("{error:#}; its rows are n/a"),
        }
    }
    if name == "python" {
        command.env("AQUEDUCT_BENCH_PYTHON", python::interpreter()?);
    }
    run(command.arg("--").args(words))
}
