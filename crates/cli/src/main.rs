//! The command line: `aqueduct`.

mod array_file;
mod bench;
mod demo;
mod exec;
mod file_commands;
mod finding;
mod memfs;
mod parallel;
mod particle_run;
mod remote;
mod report;
mod shell;
mod standard_output;
mod terminal;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Parallel I/O for simulation codes
///
/// Without a command, a particle simulation runs on all cores in the folder aqueduct-run: it streams its data, is killed, restarts on another
/// number of ranks, is verified, and leaves a page about its I/O.
#[derive(Parser)]
#[command(name = "aqueduct", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<CliCommand>,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Run the demonstration: all ranks write one shared file, read it back shifted by one rank, and verify every byte
    ///
    /// All ranks write collectively through a view in which element i belongs to rank i mod ranks. Then they read collectively with
    /// views shifted by one rank, so that each rank gets the numbers of its neighbour. Ranks are threads of this process, or the
    /// processes of an MPI job: `mpirun -n 4 aqueduct demo`.
    Demo(demo::DemoArguments),
    /// Run an unchanged MPI program whose MPI-IO calls go to aqueduct: aqueduct exec -- mpirun -n 4 program
    ///
    /// The exit status is that of the program (128 + the signal number if a signal ended it). A line on the standard error stream says
    /// whether the library took effect. With --require, it is an error (exit status 2) if the library took no effect or if that is not
    /// known.
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(exec::ExecArguments),
    /// Print the structure of a file: arrays, types, shapes, attributes, completeness
    ///
    /// Exit status: 0 on success, 2 if the file cannot be read.
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(file_commands::inspect::InspectArguments),
    /// Print the values of a file: as text, a row of the first dimension per line, as CSV, JSON, or in the format of numpy
    ///
    /// Values that are the attribute `_FillValue` are printed as _ (text), nothing (CSV), or null (JSON).
    ///
    /// Exit status: 0 on success, 2 if the file cannot be read.
    #[command(after_help = DUMP_EXAMPLES)]
    Dump(file_commands::dump::DumpArguments),
    /// Check files for damage: checksums, completeness marks, and whether all data can be read
    ///
    /// Prints for each file `whole`, `damaged`, or `cannot tell`. A file that is unsupported or cannot be read is not damaged.
    ///
    /// Exit status: 0 if all files are whole, 1 if one is damaged, otherwise 2.
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(file_commands::verify::VerifyArguments),
    /// Compare two files element by element and print error norms; fails if a difference exceeds the tolerance
    ///
    /// Types, names of dimensions and attributes are compared too. Two numbers a and b differ if |a − b| > ATOL + THRESHOLD · min(|a|, |b|).
    /// NaN equals NaN, and differs from every number.
    ///
    /// The norms are computed for each step (an index of the first dimension of arrays with several dimensions): the relative error in
    /// the Frobenius norm and in the infinity norm (the greatest sum of absolute values of a row), relative to the file for which it is
    /// greater.
    ///
    /// Exit status: 0 without differences, 1 with differences, 2 if a file cannot be read.
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(file_commands::compare::CompareArguments),
    /// Convert a file to another format
    ///
    /// Arrays, types, names of dimensions and attributes are kept. What the format cannot store is listed on the standard error stream.
    /// Existing files are not overwritten.
    ///
    /// Exit status: 0 on success, 2 on failure.
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert(file_commands::convert::ConvertArguments),
    /// Copy the current objects of an object file, in order, to a new file, on all cores or under mpirun
    ///
    /// Objects of variable size that were overwritten by longer ones leave unused bytes in the data, and are found out of order. The new file
    /// has neither. The file is not changed; an existing target is refused.
    ///
    /// Exit status: 0 on success, 2 on failure.
    #[command(after_help = COMPACT_EXAMPLES)]
    Compact(file_commands::copy::compact::CompactArguments),
    /// List or remove files in the memory of this node that MPI programs have left (`memfs:`)
    #[command(subcommand)]
    Memfs(memfs::MemfsCommand),
    /// Serve memory of this machine to other machines: files of the device `tunnel:`
    ///
    /// Prints one line when it is ready and one when it has ended. SIGTERM and SIGINT end it orderly: no more files are opened, those of
    /// clients are waited for (--grace), and what was only in memory is listed. A second signal ends the wait.
    ///
    /// Exit status: 0 if nothing was dropped, 1 if something was, 2 on failure.
    Serve(remote::ServeMemoryArguments),
    /// Print the state of servers of remote memory: memory, files, sessions, transferred bytes
    Servers(remote::ServersArguments),
    /// List the files of servers of remote memory: length and name
    List(remote::ListArguments),
    /// Delete files of any device
    Remove(remote::RemoveArguments),
    /// Copy a file from any device to any device, on all cores or under mpirun, and compare the copy
    ///
    /// Exit status: 0 on success, 1 if the copy differs, 2 on failure.
    #[command(after_help = COPY_EXAMPLES)]
    Copy(file_commands::copy::CopyArguments),
    /// Write references to the chunks of a file, with which readers of Zarr read it in place (kerchunk)
    ///
    /// The JSON has the metadata of a Zarr store, and for each chunk the file, the offset and the length. Python reads it with
    /// `fsspec`, zarr and xarray. Values are not copied, except small ones that are stored in metadata.
    ///
    /// Exit status: 0 on success, 2 on failure.
    #[command(after_help = REFS_EXAMPLES)]
    Refs(file_commands::refs::RefsArguments),
    /// Follow a file that a program writes: steps, rates, minimum and maximum of the last step
    ///
    /// On a terminal a table is refreshed; otherwise a line is printed for each array that has new steps. The command ends when the writer has
    /// closed the file, if the format records that, or after --for.
    ///
    /// Exit status: 0 at the end, 2 if the file cannot be read.
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(file_commands::watch::WatchArguments),
    /// Make a page about the I/O of a run: how much time it cost, why, and what to change
    ///
    /// Run a program with the environment variable `AQUEDUCT_TRACE=FOLDER`, or `aqueduct exec --report`, then `aqueduct report FOLDER`. The page is
    /// one file that loads nothing: a timeline of the ranks, maps of the files, bandwidth, estimates against measurements, and advice that is
    /// computed by planning the accesses again. With two folders both runs are shown side by side.
    #[command(after_help = REPORT_EXAMPLES)]
    Report(report::ReportArguments),
    /// Print completions for a shell: aqueduct completions bash > ~/.local/share/bash-completion/completions/aqueduct
    Completions(shell::CompletionArguments),
    /// Write man pages to a folder: aqueduct man ~/.local/share/man/man1
    Man(shell::ManualArguments),
    /// One run of the simulation that runs without a command
    #[command(hide = true)]
    ParticleRun(particle_run::ParticleRunArguments),
    /// Run a benchmark
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

const INSPECT_EXAMPLES: &str = "Examples:
  aqueduct inspect run.h5
  aqueduct inspect run.h5 --tree --stats
  aqueduct inspect run.nc checkpoints/ --json";
const DUMP_EXAMPLES: &str = "Examples:
  aqueduct dump run.nc --array t --rows 3
  aqueduct dump run.nc --array t --at '0:3,:,5' --csv
  aqueduct dump run.nc --array t --npy -o t.npy
  aqueduct dump particles --from 7 --rows 1";
const VERIFY_EXAMPLES: &str = "Examples:
  aqueduct verify run.stream checkpoints/
  aqueduct verify --quick run.h5
  mpirun -n 16 aqueduct verify run.h5";
const COMPARE_EXAMPLES: &str = "Examples:
  aqueduct compare a.h5 b.nc
  aqueduct compare a.nc b.nc --rtol 1e-9 --atol 1e-12 --data-only
  aqueduct compare a.nc b.nc --tolerance 'speed*=1e-6,1e-9' --exclude debug --json";
const CONVERT_EXAMPLES: &str = "Examples:
  aqueduct convert run.nc run.h5
  aqueduct convert run.stream run.nc --array pressure
  aqueduct convert run.stream pressure.npy --array pressure";
const COMPACT_EXAMPLES: &str = "Examples:
  aqueduct compact particles particles-compacted";
const EXEC_EXAMPLES: &str = "Examples:
  aqueduct exec -- mpirun -n 4 ./program
  aqueduct exec --report run1 -- mpirun -n 4 ./program";
const COPY_EXAMPLES: &str = "Examples:
  aqueduct copy run.h5 /archive/run.h5
  aqueduct copy tunnel:node1:7700/run7 run7.nc
  mpirun -n 4 aqueduct copy run.bin uring:/scratch/run.bin --overwrite";
const REFS_EXAMPLES: &str = "Examples:
  aqueduct refs run.h5 -o run.json
  aqueduct refs run.nc --url s3://bucket/run.nc > run.json";
const WATCH_EXAMPLES: &str = "Examples:
  aqueduct watch run.stream
  aqueduct watch run.nc --array pressure --every 0.2 --for 60 --json";
const REPORT_EXAMPLES: &str = "Examples:
  AQUEDUCT_TRACE=run1 ./program && aqueduct report run1
  aqueduct report before after -o both.html
  aqueduct report run1 --perfetto calls.json --csv calls.csv --json";

/// The exit status of a command that failed, as of `cmp` and `diff`: 1 means that files differ or that a file is damaged.
const FAILURE_STATUS: u8 = 2;

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    let outcome = match arguments.command {
        None if particle_run::is_launched() => {
            Err(anyhow::anyhow!("give a command; under mpirun, `aqueduct demo` runs the demonstration"))
        }
        None => particle_run::run().map(|()| ExitCode::SUCCESS),
        Some(CliCommand::ParticleRun(options)) => {
            particle_run::simulate(&options).map(|()| ExitCode::SUCCESS)
        }
        Some(CliCommand::Demo(options)) => demo::run(&options).map(|()| ExitCode::SUCCESS),
        Some(CliCommand::Exec(options)) => exec::run(&options),
        Some(CliCommand::Inspect(options)) => file_commands::inspect::run(&options),
        Some(CliCommand::Dump(options)) => file_commands::dump::run(&options),
        Some(CliCommand::Verify(options)) => file_commands::verify::run(&options),
        Some(CliCommand::Compare(options)) => file_commands::compare::run(&options),
        Some(CliCommand::Convert(options)) => file_commands::convert::run(&options),
        Some(CliCommand::Compact(options)) => {
            file_commands::copy::compact::run(&options).map(|()| ExitCode::SUCCESS)
        }
        Some(CliCommand::Memfs(command)) => memfs::run(&command).map(|()| ExitCode::SUCCESS),
        Some(CliCommand::Serve(options)) => remote::serve(&options),
        Some(CliCommand::Servers(options)) => remote::servers(&options).map(|()| ExitCode::SUCCESS),
        Some(CliCommand::List(options)) => remote::list(&options).map(|()| ExitCode::SUCCESS),
        Some(CliCommand::Remove(options)) => remote::remove(&options).map(|()| ExitCode::SUCCESS),
        Some(CliCommand::Copy(options)) => file_commands::copy::run(&options),
        Some(CliCommand::Refs(options)) => file_commands::refs::run(&options),
        Some(CliCommand::Watch(options)) => file_commands::watch::run(&options),
        Some(CliCommand::Completions(options)) => {
            shell::print_completions(&options).map(|()| ExitCode::SUCCESS)
        }
        Some(CliCommand::Man(options)) => shell::write_manual(&options).map(|()| ExitCode::SUCCESS),
        Some(CliCommand::Report(options)) => report::run(&options),
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
