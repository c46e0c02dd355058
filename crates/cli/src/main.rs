//! The human door: the `aqueduct` command.

mod bench;
mod compare;
mod convert;
mod data;
mod demo;
mod dump;
mod exec;
mod inspect;
#[cfg(feature = "hdf5")]
mod look;
mod out;
mod overlap;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Parallel I/O for simulation codes. Without a command it runs the demonstration.
#[derive(Parser)]
#[command(name = "aqueduct", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    demo: demo::Arguments,
}

#[derive(Subcommand)]
enum Command {
    /// All ranks write one shared file, read it back shifted by one rank, and verify every byte
    Demo(demo::Arguments),
    /// Runs an MPI program unchanged, its files served by aqueduct: aqueduct exec -- mpirun -n 4 program
    Exec(exec::Arguments),
    /// What a file holds: arrays, their types and shapes, what is complete, what is said about them
    Inspect(inspect::Arguments),
    /// The values of a file as text, a row of the first dimension per line
    Dump(dump::Arguments),
    /// Whether a file is whole: checksums, marks of completeness, and that all of it can be read
    Verify(verify::Arguments),
    /// How far two files are apart, step by step; fails where that is more than a threshold
    Compare(compare::Arguments),
    /// Writes what a file holds into a file of another format
    Convert(convert::Arguments),
    #[cfg(feature = "hdf5")]
    #[command(name = look::NAME, hide = true)]
    Look(look::Arguments),
    /// Measures
    #[command(subcommand)]
    Bench(bench::Bench),
}

/// The exit status of a command that could not do its work, as of `cmp` and `diff`: 1 says that files differ or that one is damaged.
const TROUBLE: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        None => demo::run(&arguments.demo).map(|()| ExitCode::SUCCESS),
        Some(Command::Demo(options)) => demo::run(&options).map(|()| ExitCode::SUCCESS),
        Some(Command::Exec(options)) => exec::run(&options),
        Some(Command::Inspect(options)) => inspect::run(&options),
        Some(Command::Dump(options)) => dump::run(&options),
        Some(Command::Verify(options)) => verify::run(&options),
        Some(Command::Compare(options)) => compare::run(&options),
        Some(Command::Convert(options)) => convert::run(&options),
        #[cfg(feature = "hdf5")]
        Some(Command::Look(options)) => look::run(&options),
        Some(Command::Bench(bench)) => bench::run(&bench).map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("aqueduct: {error:#}");
            ExitCode::from(TROUBLE)
        }
    }
}
