//! The human door: the `aqueduct` command.

mod bench;
mod demo;
mod exec;
mod overlap;

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
    /// Measures
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        None => demo::run(&arguments.demo).map(|()| ExitCode::SUCCESS),
        Some(Command::Demo(options)) => demo::run(&options).map(|()| ExitCode::SUCCESS),
        Some(Command::Exec(options)) => exec::run(&options),
        Some(Command::Bench(bench)) => bench::run(&bench).map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("aqueduct: {error:#}");
            ExitCode::FAILURE
        }
    }
}
