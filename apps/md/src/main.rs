//! The command `md`: Lennard-Jones molecular dynamics on threads or under `mpirun`.

mod command;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match command::run(&command::Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("md: {error:#}");
            ExitCode::FAILURE
        }
    }
}
