//! The human door: the `aqueduct` command.

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

/// Parallel I/O for simulation codes. Without a command it runs the demonstration.
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
    /// All ranks write one shared file, read it back shifted by one rank, and verify every byte
    Demo(demo::DemoArguments),
    /// Runs an MPI program unchanged, its files served by aqueduct: aqueduct exec -- mpirun -n 4 program
    Exec(exec::ExecArguments),
    /// What a file holds: arrays, their types and shapes, what is complete, what is said about them
    Inspect(inspect::InspectArguments),
    /// The values of a file as text, a row of the first dimension per line
    Dump(dump::DumpArguments),
    /// Whether a file is whole: checksums, marks of completeness, and that all of it can be read
    Verify(verify::VerifyArguments),
    /// How far two files are apart, step by step; fails where that is more than a threshold
    Compare(compare::CompareArguments),
    /// Writes what a file holds into a file of another format
    Convert(convert::ConvertArguments),
    #[cfg(feature = "hdf5")]
    #[command(name = hdf5_probe::NAME, hide = true)]
    ProbeHdf5(hdf5_probe::Hdf5ProbeArguments),
    /// Measures
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

/// The exit status of a command that could not do its work, as of `cmp` and `diff`: 1 says that files differ or that one is damaged.
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
