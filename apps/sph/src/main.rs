//! The command `sph`: smoothed particle hydrodynamics on threads or under `mpirun`.

mod command;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match command::run(&command::SphArguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sph: {error:#}");
            ExitCode::FAILURE
        }
    }
}
