//! Benchmarks: `aqueduct bench …`.

mod b_eff_io;
mod mardyn;
mod output;
mod overhead;
mod overlap;
mod patterns;
mod scaling;
mod sweep;
mod target;

use anyhow::Result;

#[derive(clap::Subcommand)]
pub(crate) enum BenchCommand {
    /// Access patterns of parallel programs, verified and timed; with --through mpi against the MPI-IO of this machine's MPI library
    ///
    /// Contiguous, round-robin, tiles, blocks, nested structures, small accesses, the shared file pointer, atomic mode, opening, objects:
    /// each independent and collective, written and read. The file of each case is compared with what it must contain. With --through mpi
    /// the functions `MPI_File_*` of the MPI library of the job are called by this program, in turn with the engine; no compiler is needed.
    #[command(after_help = PATTERN_EXAMPLES)]
    Patterns(Box<patterns::PatternArguments>),
    /// What the library costs: rates of one rank and of all ranks over sizes from 1 byte on, as bytes, as objects, and by MPI-IO
    ///
    /// Four tests: single write and read, where one rank has a file of its own, and collective write and read, where elements of all ranks
    /// take turns in one file. Each is timed twice: the access alone, and open, view, access and close.
    #[command(after_help = SWEEP_EXAMPLES)]
    Sweep(Box<sweep::SweepArguments>),
    /// The effective I/O bandwidth by the rules of `b_eff_io`: 43 patterns in a time budget, and one figure
    ///
    /// R. Rabenseifner, A. E. Koniges: Effective File-I/O Bandwidth Benchmark, Euro-Par 2000. A result is valid for comparison if the
    /// scheduled time is 30 minutes or more, and all data was read as it was written.
    #[command(name = "b_eff_io", after_help = EFFECTIVE_EXAMPLES)]
    EffectiveBandwidth(Box<b_eff_io::EffectiveArguments>),
    /// The overhead of the whole library, and of the recorder of traces, against plain system calls
    ///
    /// Each rank writes and reads ten blocks of 1 MB in a file of its own, and in its part of a shared file: by pwrite and pread, through the
    /// engine, and with --through through MPI-IO or the preload library. Elapsed time and processor time are compared.
    #[command(after_help = OVERHEAD_EXAMPLES)]
    Overhead(Box<overhead::OverheadArguments>),
    /// Phase spaces of `MarDyn` in its four formats: time to write and read, and size, over numbers of molecules
    #[command(after_help = MARDYN_EXAMPLES)]
    Mardyn(Box<mardyn::MardynArguments>),
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

const PATTERN_EXAMPLES: &str = "Examples:
  aqueduct bench patterns -n 4
  mpirun -n 4 aqueduct bench patterns --through mpi --html patterns.html
  aqueduct bench patterns --only tiles,blocks --sizes 1MiB --file uring:/scratch/x";
const SWEEP_EXAMPLES: &str = "Examples:
  aqueduct bench sweep -n 4 --to 64MiB --svg sweep
  mpirun -n 16 aqueduct bench sweep --through mpi --file /scratch/x --html sweep.html";
const EFFECTIVE_EXAMPLES: &str = "Examples:
  aqueduct bench b_eff_io -n 4 --quick
  mpirun -n 64 aqueduct bench b_eff_io --time 30m --memory 4GiB --file /scratch/x --csv b_eff_io.csv";
const OVERHEAD_EXAMPLES: &str = "Examples:
  aqueduct bench overhead -n 2
  aqueduct bench overhead -n 2 --recorder
  aqueduct exec -- mpirun -n 2 aqueduct bench overhead --through preload";
const MARDYN_EXAMPLES: &str = "Examples:
  aqueduct bench mardyn -n 4 --molecules 10000,100000,1000000 --svg mardyn";

pub(crate) fn run(bench: &BenchCommand) -> Result<()> {
    match bench {
        BenchCommand::Patterns(arguments) => patterns::run(arguments),
        BenchCommand::Sweep(arguments) => sweep::run(arguments),
        BenchCommand::EffectiveBandwidth(arguments) => b_eff_io::run(arguments),
        BenchCommand::Overhead(arguments) => overhead::run(arguments),
        BenchCommand::Mardyn(arguments) => mardyn::run(arguments),
        BenchCommand::Overlap(arguments) => overlap::run(arguments),
        BenchCommand::Scaling(arguments) => scaling::run(arguments),
    }
}
