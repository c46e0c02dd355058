//! What a trace costs: a program that is run with and without it, in turn.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct::file::trace::TRACE_VARIABLE;
use aqueduct_patterns::timing::{cpu_seconds_of_thread, median};
use aqueduct_patterns::{Coordination, FileInterface, FilePosition, PatternOpenOptions, ViewTree};

use super::{OverheadArguments, OverheadTime};
use crate::bench::output::{BenchResult, BenchTable, TableValue, system_facts};
use crate::bench::target::TargetArguments;

/// A part of the program: its name, bytes of an access, accesses, and whether they are collective through a view.
const PARTS: [(&str, usize, u64, bool); 7] = [
    ("independent, 1 MB", 1_000_000, 64, false),
    ("independent, 64 KiB", 64 << 10, 512, false),
    ("independent, 16 KiB", 16 << 10, 2048, false),
    ("independent, 4 KiB", 4 << 10, 4096, false),
    ("independent, 64 B", 64, 16384, false),
    ("collective, round-robin, 1 MiB", 1 << 20, 32, true),
    ("collective, round-robin, 64 KiB", 64 << 10, 256, true),
];

/// The job: each part is timed and printed as a line: elapsed and processor seconds.
pub(super) fn job(world: &Comm, target: &TargetArguments) -> Result<()> {
    let path = PathBuf::from(format!("{}.recorder", target.file));
    target.create(world, &path, 1 << 20)?;
    let mut lines = String::new();
    for (_, bytes, accesses, is_collective) in PARTS {
        let options = PatternOpenOptions { hints: target.hints.clone(), ..PatternOpenOptions::default() };
        let mut file = FileInterface::Engine.open(world, &path, &options)?;
        let (rank, ranks) = (world.rank() as u64, world.size() as u64);
        let (coordination, first) = if is_collective {
            file.set_view(&ViewTree::round_robin(64, rank, ranks))?;
            (Coordination::Collective, 0)
        } else {
            (Coordination::Independent, rank * (1 << 20))
        };
        let memory = vec![1u8; bytes];
        // The first accesses find out which strategy is the fastest.
        for _ in 0..4 {
            file.write(FilePosition::Offset(first), coordination, &memory)?;
        }
        world.barrier()?;
        let (start, processor) = (Instant::now(), cpu_seconds_of_thread());
        for _ in 0..accesses {
            file.write(FilePosition::Offset(first), coordination, &memory)?;
        }
        let (elapsed, processor) = (start.elapsed().as_secs_f64(), cpu_seconds_of_thread() - processor);
        let elapsed = world.allreduce_one(Op::Max, elapsed)?;
        let processor = world.allreduce_one(Op::Sum, processor)?;
        let _ = writeln!(lines, "{elapsed:e} {processor:e}");
        file.close()?;
    }
    TargetArguments::delete(world, &path)?;
    if world.rank() == 0 {
        crate::standard_output::print(&lines)?;
    }
    Ok(())
}

/// Runs the job with and without a trace, in alternating order.
pub(super) fn run(arguments: &OverheadArguments) -> Result<()> {
    let trace = std::env::temp_dir().join(format!("aqueduct-recorder-{}", std::process::id()));
    let mut times: [Vec<Vec<OverheadTime>>; 2] = [Vec::new(), Vec::new()];
    let measured = (|| {
        for round in 0..arguments.rounds {
            for turn in 0..2 {
                let is_traced = (turn + round).is_multiple_of(2);
                let found = start(arguments, is_traced.then_some(trace.as_path()))?;
                times[usize::from(is_traced)].push(found);
            }
        }
        anyhow::Ok(())
    })();
    let _ = std::fs::remove_dir_all(&trace);
    measured?;
    let columns = [
        "calls",
        "number",
        "µs each",
        "elapsed overhead %",
        "processor overhead %",
        "ns of processor per call",
    ];
    let mut figures = BenchTable::new("", &columns);
    for (at, (name, _, accesses, _)) in PARTS.into_iter().enumerate() {
        let pairs = || times[1].iter().zip(&times[0]).map(|(with, without)| (with[at], without[at]));
        let percent = |part: fn(OverheadTime) -> f64| {
            let ratios: Vec<f64> = pairs().map(|(with, without)| part(with) / part(without)).collect();
            median(&ratios).map(|ratio| (ratio - 1.0) * 100.0)
        };
        let each: Vec<f64> = times[0].iter().map(|parts| parts[at].elapsed / accesses as f64 * 1e6).collect();
        let ranks = arguments.target.ranks.unwrap_or(1).max(1) as f64;
        let calls = accesses as f64 * ranks;
        let more: Vec<f64> =
            pairs().map(|(with, without)| (with.processor - without.processor) / calls * 1e9).collect();
        figures.add(vec![
            name.into(),
            TableValue::Count(accesses),
            median(&each).into(),
            percent(|time| time.elapsed).into(),
            percent(|time| time.processor).into(),
            median(&more).into(),
        ]);
    }
    let result = BenchResult {
        title: "Cost of a trace".to_owned(),
        facts: system_facts(None, &arguments.target.file, &arguments.target.hints),
        figures,
        notes: vec![
            "the same program with and without AQUEDUCT_TRACE, in turn; medians of the ratios of all rounds, less 1".to_owned(),
            "writes to an existing file in the page cache: the fastest accesses there are, so that the share is the largest".to_owned(),
        ],
        ..BenchResult::default()
    };
    result.publish(&arguments.output)
}

/// One run of the job; the times of its parts.
fn start(arguments: &OverheadArguments, trace: Option<&Path>) -> Result<Vec<OverheadTime>> {
    let target = &arguments.target;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "overhead", "--recorder-job", "--overwrite", "--file", &target.file]);
    command.env_remove(TRACE_VARIABLE).env("AQUEDUCT_MPI", "none");
    command.args(["-n".to_owned(), target.ranks.unwrap_or(1).to_string()]);
    command
        .args(target.hints.iter().flat_map(|(key, value)| ["--hint".to_owned(), format!("{key}={value}")]));
    if let Some(trace) = trace {
        command.env(TRACE_VARIABLE, trace);
    }
    let output = command.output().context("starting a run")?;
    ensure!(output.status.success(), "a run failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let parse = |line: &str| {
        let (elapsed, processor) = line.split_once(' ')?;
        Some(OverheadTime { elapsed: elapsed.parse().ok()?, processor: processor.parse().ok()? })
    };
    let times: Option<Vec<OverheadTime>> = text.lines().map(parse).collect();
    times.filter(|times| times.len() == PARTS.len()).with_context(|| format!("a run printed {text:?}"))
}
