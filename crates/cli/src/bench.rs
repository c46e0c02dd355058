//! Measuring: `aqueduct bench …`.

use anyhow::Result;

use crate::overlap;

#[derive(clap::Subcommand)]
pub(crate) enum BenchCommand {
    /// A time-stepping program that stores sub-domains of a grid: what each mode of output costs it, every value verified
    Overlap(Box<overlap::OverlapArguments>),
}

pub(crate) fn run(bench: &BenchCommand) -> Result<()> {
    match bench {
        BenchCommand::Overlap(arguments) => overlap::run(arguments),
    }
}
