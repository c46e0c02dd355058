//! `aqueduct bench overhead`: the whole library, and the recorder of traces, against plain system calls.
//!
//! The pattern is that of R. Thakur, W. Gropp, E. Lusk, "An Abstract-Device Interface for Implementing Portable Parallel-I/O Interfaces",
//! Frontiers 1996, <https://doi.org/10.1109/FMPC.1996.558080>: ten accesses of 1 MB by each process, to a file of its own and to a
//! shared file.

mod recorder_cost;

use std::fs::File as PlainFile;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct_patterns::timing::{cpu_seconds_of_thread, median};
use aqueduct_patterns::{Coordination, FileInterface, FilePosition, PatternFile, PatternOpenOptions};

use super::output::{
    BenchResult, BenchTable, OutputArguments, Plot, PlotScale, PlotSeries, PlotStyle, system_facts,
};
use super::patterns::point;
use super::target::{TargetArguments, agree};

/// Bytes of an access, and accesses of a rank.
const ACCESS: usize = 1_000_000;
const ACCESSES: u64 = 10;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OverheadArguments {
    /// Rounds; in each all candidates in alternating order
    #[arg(long, default_value_t = 51, value_parser = clap::value_parser!(u64).range(2..=100_000))]
    rounds: u64,
    /// Measure what a trace costs instead: the same program with and without `AQUEDUCT_TRACE`, in turn
    #[arg(long, conflicts_with = "through")]
    recorder: bool,
    /// One run of the program that --recorder starts
    #[arg(long, hide = true)]
    recorder_job: bool,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// Elapsed seconds of the slowest rank and processor seconds of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct OverheadTime {
    elapsed: f64,
    processor: f64,
}

/// An access pattern: a file per rank or one file, written or read.
type OverheadCase = (bool, bool);

const CASES: [OverheadCase; 4] = [(false, false), (false, true), (true, false), (true, true)];

pub(super) fn run(arguments: &OverheadArguments) -> Result<()> {
    if arguments.recorder {
        return recorder_cost::run(arguments);
    }
    if arguments.recorder_job {
        return arguments.target.run(|world| recorder_cost::job(world, &arguments.target));
    }
    arguments.target.run(|world| job(world, arguments))
}

/// A candidate: plain system calls, or an interface.
enum OverheadCandidate {
    Plain(PlainFile),
    Library(Box<dyn PatternFile>),
}

fn job(world: &Comm, arguments: &OverheadArguments) -> Result<()> {
    let target = &arguments.target;
    let interfaces = target.interfaces(world)?;
    ensure!(
        aqueduct::file::path(&target.file).is_some(),
        "{} is not a plain file, which system calls could access",
        target.file
    );
    let names: Vec<&str> =
        std::iter::once("system calls").chain(interfaces.iter().map(FileInterface::name)).collect();
    let bytes = ACCESS as u64 * ACCESSES;
    let shared = PathBuf::from(format!("{}.shared", target.file));
    let own = PathBuf::from(format!("{}.own-{}", target.file, world.rank()));
    target.create(world, &shared, bytes)?;
    target.create(&world.comm_self(), &own, bytes)?;
    let mut times: Vec<Vec<Vec<OverheadTime>>> = vec![vec![Vec::new(); names.len()]; CASES.len()];
    let measured = (|| {
        for (case, (is_shared, is_read)) in CASES.into_iter().enumerate() {
            let comm = if is_shared { world.clone() } else { world.comm_self() };
            let path = if is_shared { &shared } else { &own };
            let first = if is_shared { bytes * world.rank() as u64 } else { 0 };
            let mut candidates = vec![OverheadCandidate::Plain(
                PlainFile::options()
                    .read(true)
                    .write(true)
                    .open(path)
                    .with_context(|| path.display().to_string())?,
            )];
            for interface in &interfaces {
                let options =
                    PatternOpenOptions { hints: target.hints.clone(), ..PatternOpenOptions::default() };
                candidates.push(OverheadCandidate::Library(interface.open(&comm, path, &options)?));
            }
            // The first round warms up.
            for round in 0..=arguments.rounds {
                for turn in 0..candidates.len() {
                    let at = (turn + round as usize) % candidates.len();
                    let time = measure(world, &mut candidates[at], first, is_read)?;
                    if round > 0 {
                        times[case][at].push(time);
                    }
                }
            }
            for candidate in candidates {
                if let OverheadCandidate::Library(file) = candidate {
                    file.close()?;
                }
            }
        }
        anyhow::Ok(())
    })();
    let measured = agree(world, measured);
    TargetArguments::delete(world, &shared)?;
    TargetArguments::delete(&world.comm_self(), &own)?;
    measured?;
    if world.rank() != 0 {
        return Ok(());
    }
    let mut result = describe(&names, &times, world.size());
    result.facts = system_facts(Some(world), &target.file, &target.hints);
    result.publish(&arguments.output)
}

/// Ten accesses of each rank between two barriers.
fn measure(
    world: &Comm,
    candidate: &mut OverheadCandidate,
    first: u64,
    is_read: bool,
) -> Result<OverheadTime> {
    let mut memory = vec![world.rank() as u8; ACCESS];
    world.barrier()?;
    let (start, processor) = (Instant::now(), cpu_seconds_of_thread());
    for number in 0..ACCESSES {
        let at = first + number * ACCESS as u64;
        match (&mut *candidate, is_read) {
            (OverheadCandidate::Plain(file), false) => file.write_all_at(&memory, at)?,
            (OverheadCandidate::Plain(file), true) => file.read_exact_at(&mut memory, at)?,
            (OverheadCandidate::Library(file), false) => {
                file.write(FilePosition::Offset(at), Coordination::Independent, &memory)?;
            }
            (OverheadCandidate::Library(file), true) => {
                file.read(FilePosition::Offset(at), Coordination::Independent, &mut memory)?;
            }
        }
    }
    let (elapsed, processor) = (start.elapsed().as_secs_f64(), cpu_seconds_of_thread() - processor);
    Ok(OverheadTime {
        elapsed: world.allreduce_one(Op::Max, elapsed)?,
        processor: world.allreduce_one(Op::Sum, processor)?,
    })
}

/// The median of the ratios of all rounds, less one, in per cent.
fn overhead(ours: &[OverheadTime], plain: &[OverheadTime], part: fn(&OverheadTime) -> f64) -> Option<f64> {
    let ratios: Vec<f64> = ours.iter().zip(plain).map(|(ours, plain)| part(ours) / part(plain)).collect();
    median(&ratios).map(|ratio| (ratio - 1.0) * 100.0)
}

fn describe(names: &[&str], times: &[Vec<Vec<OverheadTime>>], ranks: usize) -> BenchResult {
    let columns = ["file", "direction", "through", "MB/s", "elapsed overhead %", "processor overhead %"];
    let mut figures = BenchTable::new("", &columns);
    let bytes = (ACCESS as u64 * ACCESSES * ranks as u64) as f64;
    let mut series: Vec<PlotSeries> =
        names.iter().map(|name| PlotSeries { label: (*name).to_owned(), points: Vec::new() }).collect();
    for (case, (is_shared, is_read)) in CASES.into_iter().enumerate() {
        for (at, name) in names.iter().enumerate() {
            let (own, plain) = (&times[case][at], &times[case][0]);
            let elapsed: Vec<f64> = own.iter().map(|time| time.elapsed).collect();
            let compared = |part: fn(&OverheadTime) -> f64| overhead(own, plain, part).filter(|_| at > 0);
            figures.add(vec![
                if is_shared { "shared" } else { "own" }.into(),
                if is_read { "read" } else { "write" }.into(),
                (*name).into(),
                median(&elapsed).map(|seconds| bytes / seconds / 1e6).into(),
                compared(|time| time.elapsed).into(),
                compared(|time| time.processor).into(),
            ]);
            if !elapsed.is_empty() {
                series[at].points.push(point(case as f64, &elapsed, |seconds| bytes / seconds / 1e6));
            }
        }
    }
    let names = CASES.map(|(is_shared, is_read)| {
        format!(
            "{} file, {}",
            if is_shared { "shared" } else { "own" },
            if is_read { "read" } else { "write" }
        )
    });
    let plot = Plot {
        name: "rates".to_owned(),
        title: format!("10 accesses of 1 MB, {ranks} ranks"),
        x_label: String::new(),
        y_label: "MB/s of all ranks".to_owned(),
        scale: PlotScale::Names(names.to_vec()),
        style: PlotStyle::Bars,
        series,
        limits: Vec::new(),
    };
    BenchResult {
        title: format!("Overhead against system calls, {ranks} ranks"),
        figures,
        notes: vec![
            "10 accesses of 1 MB by each rank between two barriers; MB/s by the median of all rounds, MB = 10⁶ bytes".to_owned(),
            "overhead: the median of the ratios to the system calls of the same round, less 1; existing files in the page cache"
                .to_owned(),
        ],
        plots: vec![plot],
        ..BenchResult::default()
    }
}
