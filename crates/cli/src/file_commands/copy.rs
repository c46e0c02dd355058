//! `aqueduct copy`: copies a file from any device to any device on all ranks, and compares what the target then holds.

pub(crate) mod compact;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct::file::{File, Kind, Mode, OpenOptions};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::array_file::{FileKind, detect, with_suffix};
use crate::parallel::{RankCount, agree};
use crate::terminal::progress_bar;
use crate::{report, standard_output};

/// Bytes that a rank reads and writes at a time.
const BLOCK: u64 = 8 << 20;
/// The metadata files beside the data of stream files and object files, and their first bytes.
const COMPANIONS: [(&str, &[u8; 8]); 2] = [(".steps", b"AQUESTEP"), (".meta", b"AQUEMETA")];

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
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    ranks: RankCount,
}

/// The result for one file.
struct FileCopy {
    from: OsString,
    to: OsString,
    length: u64,
    seconds: f64,
    /// The first block that differs, else `u64::MAX`.
    differing: u64,
}

pub(crate) fn run(arguments: &CopyArguments) -> Result<ExitCode> {
    let target = target_name(arguments);
    ensure!(arguments.from != target, "a file cannot be copied to itself");
    let is_same = arguments.ranks.run(&[&arguments.from], |world| copy_all(world, arguments, &target))?;
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A folder as the target gets a file of the same name.
fn target_name(arguments: &CopyArguments) -> OsString {
    let from = arguments.from.to_string_lossy();
    let last = from.rsplit(['/', ':']).next().unwrap_or_default();
    let to = Path::new(&arguments.to);
    if to.is_dir() { to.join(last).into_os_string() } else { arguments.to.clone() }
}

/// Copies a file, and its metadata file if it has one; false if a copy differs. Collective.
fn copy_all(world: &Comm, arguments: &CopyArguments, target: &OsStr) -> Result<bool> {
    let companion = match detect(world, &arguments.from, true) {
        Ok(FileKind::Stream(data)) if arguments.from == *data => Some(COMPANIONS[0].0),
        Ok(FileKind::Objects(data)) if arguments.from == data => Some(COMPANIONS[1].0),
        // Any bytes can be copied.
        _ => None,
    };
    if arguments.overwrite {
        agree(world, remove_companions(world, target))?;
    }
    let mut copies = vec![copy(world, arguments, &arguments.from, target)?];
    // The metadata follow the data that they describe.
    if let Some(end) = companion {
        copies.push(copy(world, arguments, &with_suffix(&arguments.from, end), &with_suffix(target, end))?);
    }
    let printed = if world.rank() == 0 { print(&copies, arguments) } else { Ok(()) };
    agree(world, printed)?;
    Ok(copies.iter().all(|copy| copy.differing == u64::MAX))
}

/// Deletes the metadata files of a file that is replaced: they would describe data that no longer exists.
fn remove_companions(world: &Comm, target: &OsStr) -> Result<()> {
    if world.rank() != 0 {
        return Ok(());
    }
    for (end, magic) in COMPANIONS {
        let name = with_suffix(target, end);
        let mut head = [0; 8];
        let is_ours = File::open(&world.comm_self(), &name)
            .and_then(|file| file.at(0).read(&mut head))
            .is_ok_and(|read| read.bytes() == 8 && head == *magic);
        if is_ours {
            aqueduct::file::delete(&name)?;
        }
    }
    Ok(())
}

fn print(copies: &[FileCopy], arguments: &CopyArguments) -> Result<()> {
    let text = |copy: &FileCopy| match (copy.differing, arguments.no_verify) {
        (u64::MAX, true) => "not compared".to_owned(),
        (u64::MAX, false) => "compared, no differences".to_owned(),
        (block, _) => format!("the copy differs, first in the {BLOCK} bytes from {}", block * BLOCK),
    };
    if arguments.json {
        let each = copies.iter().map(|copy| {
            let differs_from = (copy.differing != u64::MAX).then(|| copy.differing * BLOCK);
            json!({
                "from": copy.from.to_string_lossy(), "to": copy.to.to_string_lossy(), "bytes": copy.length,
                "seconds": copy.seconds, "compared": !arguments.no_verify, "differs_in_block_from": differs_from,
            })
        });
        let all = json!({"files": each.collect::<Vec<Value>>()});
        return Ok(standard_output::print(&format!("{all:#}\n"))?);
    }
    for copy in copies {
        let rate = report::bytes(copy.length as f64 / copy.seconds.max(1e-9));
        let (from, to, length) = (copy.from.display(), copy.to.display(), copy.length);
        standard_output::print(&format!("{from} -> {to}: {length} bytes, {rate}/s, {}\n", text(copy)))?;
    }
    Ok(())
}

/// Copies one file; an error is the same on all ranks. Collective.
fn copy(world: &Comm, arguments: &CopyArguments, from: &OsStr, to: &OsStr) -> Result<FileCopy> {
    let start = Instant::now();
    let source = agree(world, File::open(world, from).map_err(anyhow::Error::from))?;
    let length = agree(world, source.size().map_err(anyhow::Error::from))?;
    let mode = Mode::read_write();
    let mode = if arguments.overwrite { mode.create() } else { mode.exclusive() };
    let target = OpenOptions::from(mode).open(world, to).map_err(|error| match error.kind() {
        Kind::FileExists => {
            anyhow!("{} exists; choose another name, or replace it with --overwrite", to.display())
        }
        _ => error.into(),
    });
    let target = agree(world, target)?;
    let outcome = transfer(world, (&source, &target), length, arguments);
    let closed = source.close().and(target.close()).map_err(anyhow::Error::from);
    let outcome = outcome.and_then(|differing| agree(world, closed).map(|()| differing));
    let differing = outcome.inspect_err(|_| {
        // No part of a file is left under a new name.
        if world.rank() == 0 && !arguments.overwrite {
            let _ = aqueduct::file::delete(to);
        }
    })?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(FileCopy { from: from.to_owned(), to: to.to_owned(), length, seconds, differing })
}

/// Copies and compares on all ranks; the first block that differs, else `u64::MAX`. An error of one rank is one of all, so that none waits.
fn transfer(
    world: &Comm,
    (source, target): (&File, &File),
    length: u64,
    arguments: &CopyArguments,
) -> Result<u64> {
    agree(world, target.set_size(length).map_err(anyhow::Error::from))?;
    let passes = if arguments.no_verify { 1 } else { 2 };
    let bar = progress_bar(world, passes * length.div_ceil(world.size() as u64));
    let sums = agree(world, copy_blocks(world, (source, target), length, !arguments.overwrite, &bar))?;
    agree(world, target.sync().map_err(anyhow::Error::from))?;
    let differing = if arguments.no_verify {
        None
    } else {
        agree(world, first_difference(world, target, length, &sums, &bar))?
    };
    bar.finish_and_clear();
    Ok(world.allreduce_one(Op::Min, differing.unwrap_or(u64::MAX))?)
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
