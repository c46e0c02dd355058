//! External programs that read and write netCDF, HDF5 and their conventions. Missing ones are skipped with a notice;
//! `AQUEDUCT_REQUIRE_NETCDF=1` makes that a failure.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::launcher::which;

/// Reports that something is missing; a failure if it is required.
pub fn is_missing(what: &str, there: bool) -> bool {
    if !there {
        let required = std::env::var_os("AQUEDUCT_REQUIRE_NETCDF").is_some();
        assert!(!required, "{what} is required but not there: `cargo xtask prepare` installs it");
        eprintln!("skipped: {what} is not there");
    }
    !there
}

/// A program that can be started by its name.
pub fn command(name: &str) -> Option<PathBuf> {
    let found = which(name);
    if is_missing(name, found.is_some()) { None } else { found }
}

/// What a program says; it has to succeed.
pub fn output_of(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}\n{errors}");
    assert!(errors.is_empty(), "{command:?} complains: {errors}");
    text
}

/// A file that `ncvalidator` finds nothing wrong with: warnings count.
pub fn validate(path: &Path) {
    let Some(validator) = command("ncvalidator") else { return };
    let text = output_of(Command::new(validator).arg(path));
    let lower = text.to_lowercase();
    assert!(!lower.contains("warning") && !lower.contains("error"), "{text}");
    assert!(text.contains("is a valid NetCDF"), "{text}");
}

/// The values and definitions of a file as `ncdump` prints them.
pub fn dump(path: &Path) -> Option<String> {
    command("ncdump").map(|dump| output_of(Command::new(dump).arg(path)))
}

/// A Python that has a module.
pub fn python(module: &str) -> Option<String> {
    // The first python3 on the path may be one beside the system's, which has the packages.
    // That of the environment for readers has what Debian has not.
    let own = std::env::var("AQUEDUCT_TEST_READERS").map(|folder| format!("{folder}/bin/python"));
    let known = ["python3".to_owned(), "/usr/bin/python3".to_owned()];
    let found = own.into_iter().chain(known).find(|python| {
        let found = Command::new(python).args(["-c", &format!("import {module}")]).output();
        found.is_ok_and(|found| found.status.success())
    });
    if is_missing(&format!("python3 with {module}"), found.is_some()) { None } else { found }
}

/// Runs a script of the crate's `tests/programs` that needs netCDF4; what it printed.
pub fn run_python(script: &str, words: &[&str]) -> Option<String> {
    run_with("netCDF4", script, words)
}

/// Runs a script of the crate's `tests/programs` that needs a module; what it printed.
pub fn run_with(module: &str, script: &str, words: &[&str]) -> Option<String> {
    // Tests run in the folder of their crate.
    let path = Path::new("tests/programs").join(script);
    python(module).map(|python| output_of(Command::new(python).arg("-W").arg("ignore").arg(path).args(words)))
}
