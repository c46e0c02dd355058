//! The stages of CI.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::shell::{cargo, run, succeeds};
use crate::{mpi4py, packages, publishing, python, wheels};

/// A named part of CI.
type Stage = (&'static str, fn() -> Result<()>);

const STAGES: [Stage; 10] = [
    ("packages", packages::install),
    ("format", || run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("publishing", publishing::check),
    ("lints", lints),
    ("documentation", documentation),
    ("documentation examples", || run(&mut whole(&["test", "--doc"]))),
    ("demonstration", || run(&mut cargo(&["run", "--release", "--", "demo", "--size", "8MiB"]))),
    ("main job", || run(&mut cargo(&["run", "--release"]))),
    ("wheel", || python::test_wheel("release")),
    ("tests", tests),
];

/// Runs all stages, or those that are named; the first failure ends the run.
pub(crate) fn run_stages(wanted: &[&str]) -> Result<()> {
    let is_unknown = |name: &&&str| !STAGES.iter().any(|(stage, _)| *stage == **name);
    if let Some(unknown) = wanted.iter().find(is_unknown) {
        let names: Vec<&str> = STAGES.iter().map(|(name, _)| *name).collect();
        bail!("there is no stage {unknown}; the stages are {}", names.join(", "));
    }
    for (name, stage) in STAGES.iter().filter(|(name, _)| wanted.is_empty() || wanted.contains(name)) {
        let start = Instant::now();
        stage().with_context(|| format!("stage \"{name}\""))?;
        println!("stage \"{name}\" took {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Cargo on the whole workspace with all features, so that everything is built once.
fn whole(words: &[&str]) -> Command {
    let mut command = cargo(words);
    command.args(["--workspace", "--all-features"]);
    command
}

/// With all features, and without, as most users build it.
fn lints() -> Result<()> {
    run(whole(&["clippy", "--all-targets"]).args(["--", "--deny", "warnings"]))?;
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))
}

fn documentation() -> Result<()> {
    run(whole(&["doc", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))
}

/// All tests, also those under `mpirun`: a missing MPI library is a failure, and so is a file system that root cannot mount.
fn tests() -> Result<()> {
    let nextest = succeeds(&mut cargo(&["nextest", "--version"]));
    let words: &[&str] =
        if nextest { &["nextest", "run"] } else { &["test", "--tests", "--bins", "--examples"] };
    let mut command = whole(words);
    command.env("AQUEDUCT_REQUIRE_MPI", "1").env("AQUEDUCT_REQUIRE_NUMPY", "1");
    command.env("AQUEDUCT_REQUIRE_NETCDF", "1").env("AQUEDUCT_REQUIRE_CHROMIUM", "1");
    if is_root()? {
        // Tests of failing file systems mount file systems.
        command.env("AQUEDUCT_REQUIRE_MOUNTS", "1");
    }
    command.envs(installed()?);
    run(&mut command)
}

fn is_root() -> Result<bool> {
    let id = Command::new("id").arg("-u").output().context("id -u")?;
    Ok(id.stdout.trim_ascii() == b"0")
}

/// Installs packages of the Python registry; the variables with their paths, for the tests.
fn installed() -> Result<Vec<(&'static str, PathBuf)>> {
    let mut variables = Vec::new();
    for (name, version, variable) in wheels::WHEELS {
        variables.push((variable, wheels::install(name, version)?));
    }
    variables.push((wheels::READERS_VARIABLE, wheels::readers()?));
    variables.push((wheels::KWAVE_VARIABLE, wheels::kwave()?));
    variables.push((mpi4py::VARIABLE, mpi4py::install()?));
    Ok(variables)
}

/// Installs everything that the tests need and prints the variables.
pub(crate) fn prepare() -> Result<()> {
    packages::install()?;
    for (variable, path) in installed()? {
        println!("export {variable}={}", path.display());
    }
    Ok(())
}
