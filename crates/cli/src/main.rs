//! The command line: `aqueduct`.

mod array_file;
mod bench;
mod compare;
mod convert;
mod demo;
mod dump;
mod exec;
#[cfg(feature = "hdf5")]
mod hdf5_probe;
mod inspect;
mod overlap;
mod standard_output;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Parallel I/O for simulation codes. Without a command, the demonstration runs.
#[derive(Parser)]
#[command(name = "aqueduct", version, args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<CliCommand>,
    #[command(flatten)]
    demo: demo::DemoArguments,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Demonstration: all ranks write one shared file, read it back shifted by one rank, and verify every byte
    Demo(demo::DemoArguments),
    /// Run an unchanged MPI program whose MPI-IO calls go to aqueduct: aqueduct exec -- mpirun -n 4 program
    Exec(exec::ExecArguments),
    /// Print the structure of a file: arrays, types, shapes, attributes, completeness
    Inspect(inspect::InspectArguments),
    /// Print the values of a file as text, a row of the first dimension per line
    Dump(dump::DumpArguments),
    /// Check files for damage: checksums, completeness marks, and whether all data can be read
    Verify(verify::VerifyArguments),
    /// Compare two files element by element and print error norms; fails if a difference exceeds the tolerance
    Compare(compare::CompareArguments),
    /// Convert a file to another format
    Convert(convert::ConvertArguments),
    #[cfg(feature = "hdf5")]
    #[command(name = hdf5_probe::NAME, hide = true)]
    ProbeHdf5(hdf5_probe::Hdf5ProbeArguments),
    /// Run a benchmark
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

/// The exit status of a command that failed, as of `cmp` and `diff`: 1 means that files differ or that a file is damaged.
const FAILURE_STATUS: u8 = 2;

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    let outcome = match arguments.command {
        None => demo::run(&arguments.demo).map(|()| ExitCode::SUCCESS),
        Some(CliCommand::Demo(options)) => demo::run(&options).map(|()| ExitCode::SUCCESS),
        Some(CliCommand::Exec(options)) => exec::run(&options),
        Some(CliCommand::Inspect(options)) => inspect::run(&options),
        Some(CliCommand::Dump(options)) => dump::run(&options),
        Some(CliCommand::Verify(options)) => verify::run(&options),
        Some(CliCommand::Compare(options)) => compare::run(&options),
        Some(CliCommand::Convert(options)) => convert::run(&options),
        #[cfg(feature = "hdf5")]
        Some(CliCommand::ProbeHdf5(options)) => hdf5_probe::run(&options),
        Some(CliCommand::Bench(bench)) => bench::run(&bench).map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("aqueduct: {error:#}");
            ExitCode::from(FAILURE_STATUS)
        }
    }
}
