//! Benchmarks: `aqueduct bench …`.

use anyhow::Result;

use crate::overlap;

#[derive(clap::Subcommand)]
pub(crate) enum BenchCommand {
    /// Compare the cost of the output modes for a time-stepping program that stores parts of a grid; every value is verified
    ///
    /// The modes are blocking, thread, leaders, servers and auto. In every iteration each rank computes its block of a grid, runs the
    /// loads, and commits the block. The value at (x, y, z) in step t is x + y·a + z·a² + t·a³, so every stored value can be verified
    /// exactly on any number of ranks. Ranks are threads of this process, or the processes of an MPI job: `mpirun -n 4 aqueduct bench
    /// overlap`.
    Overlap(Box<overlap::OverlapArguments>),
}

pub(crate) fn run(bench: &BenchCommand) -> Result<()> {
    match bench {
        BenchCommand::Overlap(arguments) => overlap::run(arguments),
    }
}
