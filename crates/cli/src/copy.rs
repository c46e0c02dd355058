//! `aqueduct copy`: copies a file from any device to any device on all ranks, and compares what the target then holds.

pub(crate) mod compact;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::file::{File, Kind, Mode, OpenOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{report, standard_output};

/// Bytes that a rank reads and writes at a time.
const BLOCK: u64 = 8 << 20;

#[derive(clap::Args)]
pub(crate) struct CopyArguments {
    /// The file, optionally with device and layers: tunnel:HOST:PORT/a, memfs:a, throttle=200MB/s:a
    from: OsString,
    /// The name of the copy, on any device, or a folder
    to: OsString,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
    /// Do not read the copy again to compare it
    #[arg(long)]
    no_verify: bool,
    /// Number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
}

pub(crate) fn run(arguments: &CopyArguments) -> Result<ExitCode> {
    let target = target_name(arguments);
    ensure!(arguments.from != target, "a file cannot be copied to itself");
    let launch = Launch::from_env()?;
    let launch = arguments.ranks.map_or(launch.clone(), |ranks| launch.ranks(ranks));
    let copied = launch.run(|world| copy(world, arguments, &target).map_err(|error| format!("{error:#}")))?;
    // Under mpirun each process has its own rank only, and all have the same outcome.
    let is_same = copied.into_iter().all(|is_same| is_same);
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// A folder as the target gets a file of the same name.
fn target_name(arguments: &CopyArguments) -> OsString {
    let from = arguments.from.to_string_lossy();
    let last = from.rsplit(['/', ':']).next().unwrap_or_default();
    let to = Path::new(&arguments.to);
    if to.is_dir() { to.join(last).into_os_string() } else { arguments.to.clone() }
}

/// Copies to the file of this name; false if the copy differs.
fn copy(world: &Comm, arguments: &CopyArguments, to: &OsStr) -> Result<bool> {
    let start = Instant::now();
    let source = File::open(world, &arguments.from)?;
    let length = source.size()?;
    let mode = Mode::read_write();
    let mode = if arguments.overwrite { mode.create() } else { mode.exclusive() };
    let target = OpenOptions::from(mode).open(world, to).map_err(|error| match error.kind() {
        Kind::FileExists => {
            anyhow!("{} exists; choose another name, or replace it with --overwrite", to.display())
        }
        _ => error.into(),
    })?;
    let differing = match transfer(world, (&source, &target), length, arguments) {
        Ok(differing) => differing,
        Err(error) => {
            drop(target);
            // No half of a file is left under a new name.
            if world.rank() == 0 && !arguments.overwrite {
                let _ = aqueduct::file::delete(to);
            }
            return Err(error);
        }
    };
    source.close()?;
    target.close()?;
    if world.rank() == 0 {
        let (from, to) = (arguments.from.display(), to.display());
        let seconds = start.elapsed().as_secs_f64();
        let text = match (differing, arguments.no_verify) {
            (u64::MAX, true) => "not compared".to_owned(),
            (u64::MAX, false) => "compared, no differences".to_owned(),
            (block, _) => format!("the copy differs, first in the {BLOCK} bytes from {}", block * BLOCK),
        };
        let rate = report::bytes(length as f64 / seconds.max(1e-9));
        standard_output::print(&format!("{from} -> {to}: {length} bytes, {rate}/s, {text}\n"))?;
    }
    Ok(differing == u64::MAX)
}

/// Copies and compares on all ranks; the first block that differs, else `u64::MAX`. An error of one rank is one of all, so that none waits.
fn transfer(
    world: &Comm,
    (source, target): (&File, &File),
    length: u64,
    arguments: &CopyArguments,
) -> Result<u64> {
    target.set_size(length)?;
    let passes = if arguments.no_verify { 1 } else { 2 };
    let bar = progress_bar(world, passes * length.div_ceil(world.size() as u64));
    let sums = agree(world, copy_blocks(world, (source, target), length, !arguments.overwrite, &bar))?;
    target.sync()?;
    let differing = if arguments.no_verify {
        None
    } else {
        agree(world, first_difference(world, target, length, &sums, &bar))?
    };
    bar.finish_and_clear();
    Ok(world.allreduce_one(Op::Min, differing.unwrap_or(u64::MAX))?)
}

/// The outcome of this rank, if no rank has failed.
fn agree<T>(world: &Comm, outcome: Result<T>) -> Result<T> {
    let failed = world.allreduce_one(Op::Max, u64::from(outcome.is_err()))? > 0;
    if failed && outcome.is_ok() {
        // The error of the other rank is the one to be reported.
        world.mark_induced_failure(None);
    }
    let value = outcome?;
    ensure!(!failed, "another rank could not do its part");
    Ok(value)
}

/// The blocks of a rank: every so many.
fn blocks(world: &Comm, length: u64) -> impl Iterator<Item = (u64, usize)> + use<> {
    let size = move |block: u64| (length - block * BLOCK).min(BLOCK) as usize;
    (world.rank() as u64..length.div_ceil(BLOCK)).step_by(world.size()).map(move |block| (block, size(block)))
}

/// Copies this rank's blocks; the checksums of what was read.
fn copy_blocks(
    world: &Comm,
    (source, target): (&File, &File),
    length: u64,
    is_new: bool,
    bar: &ProgressBar,
) -> Result<Vec<u32>> {
    let mut buffer = vec![0u8; BLOCK.min(length) as usize];
    let mut sums = Vec::new();
    for (block, size) in blocks(world, length) {
        let bytes = &mut buffer[..size];
        let count = source.at(block * BLOCK).read(&mut *bytes)?.bytes();
        ensure!(count == size as u64, "{} has become shorter while it was copied", source.name());
        sums.push(crc32c::crc32c(bytes));
        // Holes stay holes in a new file.
        if !is_new || bytes.iter().any(|byte| *byte != 0) {
            target.at(block * BLOCK).write(&*bytes)?;
        }
        bar.inc(size as u64);
    }
    Ok(sums)
}

/// Reads this rank's blocks of the copy; the first one that differs.
fn first_difference(
    world: &Comm,
    target: &File,
    length: u64,
    sums: &[u32],
    bar: &ProgressBar,
) -> Result<Option<u64>> {
    let mut buffer = vec![0u8; BLOCK.min(length) as usize];
    for ((block, size), sum) in blocks(world, length).zip(sums) {
        let bytes = &mut buffer[..size];
        let count = target.at(block * BLOCK).read(&mut *bytes)?.bytes();
        if count != size as u64 || crc32c::crc32c(bytes) != *sum {
            return Ok(Some(block));
        }
        bar.inc(size as u64);
    }
    Ok(None)
}

/// The progress of rank 0, on a terminal.
fn progress_bar(world: &Comm, bytes: u64) -> ProgressBar {
    let is_shown = world.rank() == 0;
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} % {binary_bytes_per_sec} {eta}");
    ProgressBar::with_draw_target(Some(bytes), target)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
