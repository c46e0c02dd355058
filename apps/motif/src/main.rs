//! The command `motif`: parallel search for motifs on threads or under `mpirun`.

mod command;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match command::run(command::MotifArguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("motif: {error:#}");
            ExitCode::FAILURE
        }
    }
}
