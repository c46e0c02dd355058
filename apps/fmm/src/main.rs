//! The command `fmm`: the finite mass method on threads or under `mpirun`.

mod command;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match command::run(&command::FmmArguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fmm: {error:#}");
            ExitCode::FAILURE
        }
    }
}
