//! Everything that CI runs.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::shell::{cargo, run, succeeds};
use crate::{mpi4py, packages, publishing, wheels};

/// A part of the work, by name.
type Stage = (&'static str, fn() -> Result<()>);

const STAGES: [Stage; 8] = [
    ("packages", packages::install),
    ("format", || run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("publishing", publishing::check),
    ("lints", lints),
    ("documentation", documentation),
    ("documentation examples", || run(&mut whole(&["test", "--doc"]))),
    ("demonstration", || run(&mut cargo(&["run", "--release", "--", "--size", "8MiB"]))),
    ("tests", tests),
];

/// Installs what is missing, then runs all stages, or those that are named; the first that fails ends it.
pub(crate) fn run_stages(wanted: &[&str]) -> Result<()> {
    let is_unknown = |name: &&&str| !STAGES.iter().any(|(stage, _)| *stage == **name);
    if let Some(unknown) = wanted.iter().find(is_unknown) {
        let names: Vec<&str> = STAGES.iter().map(|(name, _)| *name).collect();
        bail!("there is no stage {unknown}; there are {}", names.join(", "));
    }
    for (name, stage) in STAGES.iter().filter(|(name, _)| wanted.is_empty() || wanted.contains(name)) {
        let start = Instant::now();
        stage().with_context(|| format!("stage \"{name}\""))?;
        println!("stage \"{name}\" took {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Cargo at work on all of it, with every feature: everything that is built here is built once.
fn whole(words: &[&str]) -> Command {
    let mut command = cargo(words);
    command.args(["--workspace", "--all-features"]);
    with_hdf5(&mut command);
    command
}

/// With every feature, and without: that is how most people build it.
fn lints() -> Result<()> {
    run(whole(&["clippy", "--all-targets"]).args(["--", "--deny", "warnings"]))?;
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))
}

fn documentation() -> Result<()> {
    run(whole(&["doc", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))
}

/// All tests, those under `mpirun` too: here a missing MPI is a failure, and so is a file system that root cannot mount.
fn tests() -> Result<()> {
    let nextest = succeeds(&mut cargo(&["nextest", "--version"]));
    let words: &[&str] =
        if nextest { &["nextest", "run"] } else { &["test", "--tests", "--bins", "--examples"] };
    let mut command = whole(words);
    command.env("AQUEDUCT_REQUIRE_MPI", "1").env("AQUEDUCT_REQUIRE_NUMPY", "1");
    command.env("AQUEDUCT_REQUIRE_NETCDF", "1");
    if is_root()? {
        // Tests of failing file systems mount them.
        command.env("AQUEDUCT_REQUIRE_MOUNTS", "1");
    }
    command.envs(installed()?);
    run(&mut command)
}

fn is_root() -> Result<bool> {
    let id = Command::new("id").arg("-u").output().context("id -u")?;
    Ok(id.stdout.trim_ascii() == b"0")
}

/// Tells a build where the serial HDF5 is: not the one for MPI, which the library's own scripts would prefer.
pub(crate) fn with_hdf5(command: &mut Command) {
    if std::env::var_os("HDF5_DIR").is_none() {
        command.env("HDF5_DIR", format!("/usr/lib/{}-linux-gnu/hdf5/serial", std::env::consts::ARCH));
    }
}

/// What comes from the Python registry, and the variables that tell tests where it is.
fn installed() -> Result<Vec<(&'static str, PathBuf)>> {
    let mut variables = Vec::new();
    for (name, version, variable) in wheels::WHEELS {
        variables.push((variable, wheels::install(name, version)?));
    }
    variables.push((wheels::READERS_VARIABLE, wheels::readers()?));
    variables.push((mpi4py::VARIABLE, mpi4py::install()?));
    Ok(variables)
}

/// Installs everything that tests need.
pub(crate) fn prepare() -> Result<()> {
    packages::install()?;
    for (variable, path) in installed()? {
        println!("export {variable}={}", path.display());
    }
    Ok(())
}
