//! The command `md`: Lennard-Jones molecular dynamics on threads or under `mpirun`.

mod command;

use std::process::ExitCode;

use aqueduct_md::restart::stop_condition::StopReason;
use clap::Parser;

/// The exit status of a run that ended before its last step with a checkpoint: `EX_TEMPFAIL` of sysexits.h.
const STOPPED: u8 = 75;

fn main() -> ExitCode {
    match command::run(&command::MdArguments::parse()) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(reason)) => {
            let why = match reason {
                StopReason::Signal => "SIGTERM",
                StopReason::TimeLimit => "the time limit of --until",
            };
            eprintln!("md: ended by {why} with a checkpoint; continue with --restart latest");
            ExitCode::from(STOPPED)
        }
        Err(error) => {
            eprintln!("md: {error:#}");
            ExitCode::FAILURE
        }
    }
}
