//! The command `wave`: ultrasound on threads or under `mpirun`, with the command line of k-Wave.

mod command;
mod flags;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = match command::WaveArguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            // The exit code of k-Wave for wrong options.
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    match command::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wave: {error:#}");
            ExitCode::FAILURE
        }
    }
}
