//! Measuring: `aqueduct bench …`.

use anyhow::Result;

use crate::overlap;

#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// A time-stepping program that stores sub-domains of a grid: what each mode of output costs it, every value verified
    Overlap(Box<overlap::Arguments>),
}

pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Overlap(arguments) => overlap::run(arguments),
    }
}
