//! Benchmarks: `aqueduct bench …`.

use anyhow::Result;

use crate::overlap;

#[derive(clap::Subcommand)]
pub(crate) enum BenchCommand {
    /// The cost of each output mode for a time-stepping program that stores parts of a grid; every value is verified
    Overlap(Box<overlap::OverlapArguments>),
}

pub(crate) fn run(bench: &BenchCommand) -> Result<()> {
    match bench {
        BenchCommand::Overlap(arguments) => overlap::run(arguments),
    }
}
