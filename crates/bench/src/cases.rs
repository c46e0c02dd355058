//! The program that `peers` compares: executes cases on the ranks of this job and prints a line for each. `peer/peer.c` is the same
//! program in C, on `MPI_File_*`; `README.md` describes both.

pub(crate) mod overlap;

use std::path::Path;

use anyhow::{Context, Result, bail};
use aqueduct::comm::Comm;
use aqueduct::file::Counters;

pub(crate) use aqueduct_patterns::{
    BenchCase, CaseFamily, Coordination, FileState, OPEN_SIZE, PATTERNS, PatternSpec, size_with_unit,
};
use aqueduct_patterns::{CaseRunner, FileInterface};

use crate::timing::TimeCap;

/// Executes the cases by `time`, `verify`, `memory` or `lifetime`. `file` is the name of the files without extension. Collective.
pub(crate) fn run(world: &Comm, verb: &str, file: &Path, cases: &[String]) -> Result<()> {
    let cases: Vec<BenchCase> = cases.iter().map(|text| text.parse()).collect::<Result<_>>()?;
    let path = file.with_extension("cached");
    let file_len = match std::fs::metadata(&path) {
        // Lifetimes have files of their own.
        Err(_) if verb == "lifetime" => 0,
        found => found.with_context(|| format!("finding {}", path.display()))?.len(),
    };
    let largest = cases.iter().map(|case| case.bytes).max().unwrap_or(0);
    let mut runner =
        CaseRunner::new(world, FileInterface::Engine, file, largest)?.room(file_len / world.size() as u64);
    let mut cap = TimeCap::new();
    for case in &cases {
        if cap.forbids(&case.family, case.bytes) {
            print(world, case, "capped");
            continue;
        }
        let result = match verb {
            "time" => {
                let (samples, counters) = runner.time(case).with_context(|| case.to_string())?;
                cap.record(case.family, case.bytes, samples.iter().copied().fold(f64::INFINITY, f64::min));
                let texts: Vec<String> = samples.iter().map(|seconds| format!("{seconds:e}")).collect();
                format!("seconds {}{}", texts.join(","), counters.map(counted).unwrap_or_default())
            }
            "lifetime" => {
                let repetitions = runner.lifetime(case).with_context(|| case.to_string())?;
                let first = repetitions.first().and_then(|parts| parts.first()).copied();
                cap.record(case.family, case.bytes, first.unwrap_or(0.0));
                let join = |parts: &Vec<f64>| {
                    parts.iter().map(|part| format!("{part:e}")).collect::<Vec<_>>().join(",")
                };
                format!("lifetime {}", repetitions.iter().map(join).collect::<Vec<_>>().join(";"))
            }
            "verify" => format!("sum {:016x}", runner.verify(case).with_context(|| case.to_string())?),
            "memory" => format!("memory {}", runner.memory(case).with_context(|| case.to_string())?),
            _ => bail!("{verb} is none of time, verify, memory, lifetime"),
        };
        print(world, case, &result);
    }
    Ok(())
}

/// The counters of one operation on this rank.
fn counted(counters: Counters) -> String {
    let Counters { system_calls, copied, messages, allocations, .. } = counters;
    format!(" counted {system_calls},{copied},{messages},{allocations}")
}

fn print(world: &Comm, case: &BenchCase, result: &str) {
    if world.rank() == 0 {
        println!("case {case} {result}");
    }
}
