//! `aqueduct bench mardyn`: phase spaces of the program `MarDyn` in its four formats: sizes on disk, times of writing and reading.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use aqueduct::checkpoint::{CellGrid, Molecule};
use aqueduct::comm::{Comm, Op};
use aqueduct::mardyn::{MoleculeComponent, PhaseSpace, PhaseSpaceFiles, PhaseSpaceFormat};
use aqueduct_patterns::timing::median;

use super::output::{
    BenchResult, BenchTable, OutputArguments, Plot, PlotScale, PlotSeries, PlotStyle, TableValue,
    system_facts,
};
use super::patterns::point;
use super::target::{TargetArguments, delete_one};

/// The edge of the box.
const LENGTH: f64 = 100.0;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MardynArguments {
    /// Numbers of molecules
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    molecules: Vec<u64>,
    /// Rounds; in each all numbers, in each number all formats
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// What was measured of a number of molecules and a format.
#[derive(Clone, Debug)]
struct FormatTimes {
    molecules: u64,
    format: PhaseSpaceFormat,
    bytes: u64,
    write: Vec<f64>,
    read: Vec<f64>,
}

pub(super) fn run(arguments: &MardynArguments) -> Result<()> {
    ensure!(
        arguments.target.through.is_empty(),
        "--through has no meaning here: the formats are written by the engine"
    );
    arguments.target.run(|world| job(world, arguments))
}

fn job(world: &Comm, arguments: &MardynArguments) -> Result<()> {
    for name in PhaseSpaceFormat::ALL.into_iter().flat_map(|format| file_names(arguments, format).1) {
        arguments.target.refuse_existing(world, &name)?;
    }
    let mut all: Vec<FormatTimes> = Vec::new();
    for _ in 0..arguments.rounds {
        for &count in &arguments.molecules {
            let mine = molecules(count, world.rank() as u64, world.size() as u64);
            for format in PhaseSpaceFormat::ALL {
                let measured = measure(world, arguments, format, count, &mine);
                let (bytes, write, read) =
                    measured.with_context(|| format!("{count} molecules as {}", format.name()))?;
                match all.iter_mut().find(|times| (times.molecules, times.format) == (count, format)) {
                    Some(times) => {
                        times.write.push(write);
                        times.read.push(read);
                    }
                    None => all.push(FormatTimes {
                        molecules: count,
                        format,
                        bytes,
                        write: vec![write],
                        read: vec![read],
                    }),
                }
            }
        }
    }
    if world.rank() != 0 {
        return Ok(());
    }
    let mut result = describe(&all, world.size(), arguments.rounds);
    result.facts = system_facts(Some(world), &arguments.target.file, &arguments.target.hints);
    result.publish(&arguments.output)
}

/// The molecules of a rank: a slab along x, at places that a linear congruential generator gives.
fn molecules(count: u64, rank: u64, ranks: u64) -> Vec<Molecule> {
    let mut state = 0x9e37_79b9 + rank;
    let mut unit = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let (first, end) = (count * rank / ranks, count * (rank + 1) / ranks);
    let width = LENGTH / ranks as f64;
    (first..end)
        .map(|number| {
            let position = [(rank as f64 + unit() * 0.999_999) * width, unit() * LENGTH, unit() * LENGTH];
            Molecule::new(number, position, [unit() - 0.5, unit() - 0.5, unit() - 0.5])
        })
        .collect()
}

/// The files of a format, and their names.
fn file_names(arguments: &MardynArguments, format: PhaseSpaceFormat) -> (PhaseSpaceFiles, Vec<PathBuf>) {
    let files = format.files(&format!("{}-{}", arguments.target.file, format.name()));
    let all = [&files.header, &files.data];
    let names = all.into_iter().filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    (files, names)
}

/// Writes and reads; the size of the files and the seconds of both.
fn measure(
    world: &Comm,
    arguments: &MardynArguments,
    format: PhaseSpaceFormat,
    count: u64,
    mine: &[Molecule],
) -> Result<(u64, f64, f64)> {
    let space = PhaseSpace::new([LENGTH; 3], vec![MoleculeComponent::single(1.0, 1.0, 1.0)]);
    let grid = CellGrid::new([LENGTH; 3], [world.size() as u64, 1, 1]).context("a box has a volume")?;
    let (files, names) = file_names(arguments, format);
    if world.rank() == 0 {
        names.iter().try_for_each(|name| delete_one(name))?;
    }
    world.barrier()?;
    let start = Instant::now();
    format.write(world, &files, &space, &grid, mine)?;
    let write = world.allreduce_one(Op::Max, start.elapsed().as_secs_f64())?;
    world.barrier()?;
    let start = Instant::now();
    let read = format.open(world, &files)?.read_share()?;
    let read_seconds = world.allreduce_one(Op::Max, start.elapsed().as_secs_f64())?;
    // Each molecule is there once.
    let numbers = |molecules: &[Molecule]| molecules.iter().map(|molecule| molecule.id).sum::<u64>();
    let found = world.allreduce(Op::Sum, &[read.len() as u64, numbers(&read)])?;
    let written = world.allreduce(Op::Sum, &[mine.len() as u64, numbers(mine)])?;
    ensure!(found == written && written[0] == count, "the molecules were not read as they were written");
    let length = |name: &PathBuf| anyhow::Ok(aqueduct::file::File::open(&world.comm_self(), name)?.size()?);
    let bytes = names.iter().map(length).sum::<Result<u64>>()?;
    world.barrier()?;
    if world.rank() == 0 {
        names.iter().try_for_each(|name| delete_one(name))?;
    }
    world.barrier()?;
    Ok((bytes, write, read_seconds))
}

fn describe(all: &[FormatTimes], ranks: usize, rounds: u64) -> BenchResult {
    let columns =
        ["molecules", "format", "bytes", "bytes/molecule", "write s", "write MB/s", "read s", "read MB/s"];
    let mut figures = BenchTable::new("", &columns);
    for times in all {
        let (write, read) = (median(&times.write), median(&times.read));
        let rate = |seconds: Option<f64>| seconds.map(|seconds| times.bytes as f64 / seconds / 1e6);
        figures.add(vec![
            TableValue::Count(times.molecules),
            times.format.name().into(),
            TableValue::Count(times.bytes),
            (times.bytes as f64 / times.molecules as f64).into(),
            write.into(),
            rate(write).into(),
            read.into(),
            rate(read).into(),
        ]);
    }
    let mut counts: Vec<u64> = all.iter().map(|times| times.molecules).collect();
    counts.sort_unstable();
    counts.dedup();
    let plot = |direction: &str, samples: fn(&FormatTimes) -> &Vec<f64>| {
        let series = PhaseSpaceFormat::ALL.map(|format| {
            let points = all.iter().filter(|times| times.format == format).map(|times| {
                let x = counts.iter().position(|count| *count == times.molecules).unwrap_or(0);
                point(x as f64, samples(times), |seconds| seconds)
            });
            PlotSeries { label: format.name().to_owned(), points: points.map(ordered).collect() }
        });
        Plot {
            name: direction.to_owned(),
            title: format!("phase spaces, {direction}, {ranks} ranks"),
            x_label: "molecules".to_owned(),
            y_label: "seconds".to_owned(),
            scale: PlotScale::Names(counts.iter().map(u64::to_string).collect()),
            style: PlotStyle::Bars,
            series: series.into(),
            limits: Vec::new(),
        }
    };
    BenchResult {
        title: format!("Phase spaces of MarDyn, {ranks} ranks"),
        figures,
        notes: vec![format!(
            "times of {rounds} rounds: medians; writing includes the sync, reading is from the page cache; every file was read and compared"
        )],
        plots: vec![plot("write", |times| &times.write), plot("read", |times| &times.read)],
        ..BenchResult::default()
    }
}

/// A point of seconds: the lowest is the least time.
fn ordered(point: super::output::PlotPoint) -> super::output::PlotPoint {
    super::output::PlotPoint { low: point.low.min(point.high), high: point.low.max(point.high), ..point }
}
