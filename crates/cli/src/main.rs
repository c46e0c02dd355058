//! The human door: the `aqueduct` command.

mod demo;

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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        None => demo::run(&arguments.demo),
        Some(Command::Demo(options)) => demo::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aqueduct: {error:#}");
            ExitCode::FAILURE
        }
    }
}
