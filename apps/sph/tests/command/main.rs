//! The command `sph`: outputs, restart, files for viewers, and the amount of code for I/O.
#![allow(clippy::float_cmp)]

mod kill_recovery;
mod lines_of_code;
mod outputs;
mod restart;
mod scaling;
mod viewers;

use std::path::Path;
use std::process::{Command, Output};

use aqueduct::comm::Launch;
use aqueduct_sph::output::step_files::StepFiles;
use aqueduct_sph::particle_set::ParticleSet;

/// A small jet, as options of the command.
pub(crate) const JET: [&str; 8] =
    ["--set", "cells 6 5 5", "--set", "nozzle 1.3", "--set", "velocity 2", "--rows", "1"];

/// Runs the command on threads.
pub(crate) fn sph(ranks: usize, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sph"));
    command.args(arguments).args(["-n", &ranks.to_string()]).env("AQUEDUCT_MPI", "none");
    command.output().unwrap()
}

/// Runs the command, which has to succeed; what it printed.
pub(crate) fn succeeds(ranks: usize, arguments: &[&str]) -> String {
    let output = sph(ranks, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The files of a prefix in a folder.
pub(crate) fn files(folder: &Path, prefix: &str) -> StepFiles {
    StepFiles { prefix: folder.join(prefix).display().to_string(), device: String::new() }
}

/// The words of all particles of a stored step by id, read on some ranks.
pub(crate) fn stored(files: &StepFiles, step: u64, ranks: usize) -> Vec<Vec<u64>> {
    let header = files.read_header(step).unwrap();
    let read =
        |world: &aqueduct::comm::Comm| files.read(world, &header).map_err(|error| format!("{error:#}"));
    let parts: Vec<ParticleSet> = Launch::threads(ranks).run(read).unwrap();
    let mut rows: Vec<Vec<u64>> = Vec::new();
    for part in &parts {
        for at in 0..part.len() {
            let mut words = Vec::new();
            part.pack_row(at, &mut words);
            rows.push(words);
        }
    }
    rows.sort_unstable();
    rows
}
