//! Benchmarks: `aqueduct bench …`.

use anyhow::Result;

use crate::{overlap, scaling};

#[derive(clap::Subcommand)]
pub(crate) enum BenchCommand {
    /// Compare the cost of the output modes for a time-stepping program that stores parts of a grid; every value is verified
    ///
    /// The modes are blocking, thread, leaders, servers and auto. In every iteration each rank computes its block of a grid, runs the
    /// loads, and commits the block. The value at (x, y, z) in step t is x + y·a + z·a² + t·a³, so every stored value can be verified
    /// exactly on any number of ranks. Ranks are threads of this process, or the processes of an MPI job: `mpirun -n 4 aqueduct bench
    /// overlap`.
    Overlap(Box<overlap::OverlapArguments>),
    /// Run a program on more and more ranks in each of its ways of I/O: table, plots, serial part after Amdahl
    ///
    /// The program is started as given, with `--times FILE` and, if ranks are threads, `-n RANKS`; it appends its times to FILE as a line
    /// of JSON: program, ranks, output, compute, io, talk, total (seconds of the slowest rank) and bytes. Example: aqueduct bench scaling
    /// --ranks 1,2,4 -- sph --output '{gather,together}' --prefix out-{way} --start-over
    Scaling(Box<scaling::ScalingArguments>),
}

pub(crate) fn run(bench: &BenchCommand) -> Result<()> {
    match bench {
        BenchCommand::Overlap(arguments) => overlap::run(arguments),
        BenchCommand::Scaling(arguments) => scaling::run(arguments),
    }
}
