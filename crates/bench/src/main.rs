//! The patterns of `cargo xtask bench peers` through our engine: one process, or one rank of an MPI job, that does the cells it is
//! told and prints a line for each. `peer/peer.c` is the same program in C, through `MPI_File_*`; `README.md` says what both do.

mod case;
mod contents;
mod datasets;
mod memory;
mod objects;
mod overlap;
mod pattern;
mod runner;
mod timing;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use aqueduct::comm::{Comm, Launch};
use aqueduct::device::AlignedBuffer;
use aqueduct::file::Counters;

use case::BenchCase;
use runner::CaseRunner;
use timing::TimeCap;

const USAGE: &str = "\
aqueduct-bench time|verify|memory FILE CELL…    cells such as tiles:collective:write:1048576:cached
aqueduct-bench overlap FILE
aqueduct-bench datasets FILE netcdf|hdf5 COUNT DOUBLES ROUNDS    as peer/datasets.c
FILE.cached and FILE.direct have to exist and to be large enough.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = Launch::from_env()
        .and_then(|launch| launch.run(|world| job(world, &words).map_err(|error| format!("{error:#}"))));
    match outcome {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aqueduct-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn job(world: &Comm, words: &[String]) -> Result<()> {
    let [verb, file, cells @ ..] = words else { bail!("{USAGE}") };
    let file = PathBuf::from(file);
    if verb == "overlap" {
        return overlap::run(world, &file);
    }
    if verb == "datasets" {
        return datasets::run(world, &file, cells);
    }
    let cells: Vec<BenchCase> = cells.iter().map(|text| text.parse()).collect::<Result<_>>()?;
    let path = file.with_extension("cached");
    let file_len = std::fs::metadata(&path).with_context(|| format!("looking for {}", path.display()))?.len();
    let largest = cells.iter().map(|cell| cell.bytes).max().unwrap_or(0);
    let mut buffer = AlignedBuffer::new(largest as usize);
    // Touched, so that the memory is there before anything is measured.
    contents::fill(world.rank() as u64, &mut buffer);
    let mut bench = CaseRunner { world, file, file_len, buffer };
    let mut cap = TimeCap::new();
    for cell in &cells {
        if cap.forbids(&cell.family(), cell.bytes) {
            say(world, cell, "capped");
            continue;
        }
        let result = match verb.as_str() {
            "time" => {
                let (samples, counters) = bench.time(cell).with_context(|| cell.to_string())?;
                cap.record(cell.family(), cell.bytes, samples.iter().copied().fold(f64::INFINITY, f64::min));
                let texts: Vec<String> = samples.iter().map(|seconds| format!("{seconds:e}")).collect();
                format!("seconds {}{}", texts.join(","), counters.map(counted).unwrap_or_default())
            }
            "verify" => format!("sum {:016x}", bench.verify(cell).with_context(|| cell.to_string())?),
            "memory" => format!("memory {}", bench.memory(cell).with_context(|| cell.to_string())?),
            _ => bail!("{USAGE}"),
        };
        say(world, cell, &result);
    }
    Ok(())
}

/// What one operation did on this rank.
fn counted(counters: Counters) -> String {
    let Counters { system_calls, copied, messages, allocations, .. } = counters;
    format!(" counted {system_calls},{copied},{messages},{allocations}")
}

fn say(world: &Comm, cell: &BenchCase, result: &str) {
    if world.rank() == 0 {
        println!("cell {cell} {result}");
    }
}
