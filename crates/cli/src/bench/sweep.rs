//! `aqueduct bench sweep`: what the library costs, over sizes from one byte on. The four tests are those of S. Pinkenburg, "TPO-IO: eine
//! objektorientierte Bibliothek für parallele Ein-/Ausgabe", Tübingen 2006, section 7.4.

mod device_limit;
mod findings;
mod sweep_file;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::device::units::{ByteRate, ByteSize};
use aqueduct_patterns::FileInterface;
use aqueduct_patterns::timing::{median, samples};

use super::output::{
    BenchResult, BenchTable, OutputArguments, Plot, PlotScale, PlotSeries, PlotStyle, TableValue,
    system_facts,
};
use super::patterns::point;
use super::target::{TargetArguments, agree, delete_one};
use sweep_file::{SweepContender, SweepFile};

/// More operations than are done between two barriers.
const ENOUGH: u64 = 1 << 40;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SweepArguments {
    /// The smallest size per rank; each further one is twice as large
    #[arg(long, default_value = "1B", value_name = "SIZE")]
    from: ByteSize,
    /// The largest size per rank
    #[arg(long, default_value = "64MiB", value_name = "SIZE")]
    to: ByteSize,
    /// Only these tests [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    tests: Vec<SweepTest>,
    /// Rounds; in each all sizes, in each size all contenders in turn
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Omit sizes for which an access is expected to take more seconds
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    longest: f64,
    /// The rate of the plots: of all ranks together, or of each process
    #[arg(long, value_enum, default_value = "aggregate")]
    rate: RateKind,
    /// The limit of the device that is drawn in: a rate such as 11MB/s [default: measured by plain writes and reads]
    #[arg(long, value_name = "RATE")]
    limit: Option<ByteRate>,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum SweepTest {
    SingleWrite,
    SingleRead,
    CollectiveWrite,
    CollectiveRead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RateKind {
    Aggregate,
    Process,
}

impl SweepTest {
    const ALL: [Self; 4] = [Self::SingleWrite, Self::SingleRead, Self::CollectiveWrite, Self::CollectiveRead];

    fn name(self) -> &'static str {
        ["single write", "single read", "collective write", "collective read"][self as usize]
    }

    fn is_collective(self) -> bool {
        matches!(self, Self::CollectiveWrite | Self::CollectiveRead)
    }

    fn is_read(self) -> bool {
        matches!(self, Self::SingleRead | Self::CollectiveRead)
    }

    /// Bytes of an element: a character, or an integer.
    fn element(self) -> u64 {
        if self.is_collective() { 4 } else { 1 }
    }
}

/// The times of a test, a size and a contender in seconds.
#[derive(Clone, Debug)]
struct SweepTimes {
    test: SweepTest,
    bytes: u64,
    contender: usize,
    /// The access alone.
    access: Vec<f64>,
    /// Open, view, access and close.
    whole: Vec<f64>,
}

pub(super) fn run(arguments: &SweepArguments) -> Result<()> {
    ensure!(
        arguments.from.0 > 0 && arguments.from <= arguments.to && arguments.to.0 < 1 << 31,
        "--from is 1B or more, and --to is not less and below 2GiB"
    );
    arguments.target.run(|world| job(world, arguments))
}

fn job(world: &Comm, arguments: &SweepArguments) -> Result<()> {
    let interfaces = arguments.target.interfaces(world)?;
    let mut contenders = vec![SweepContender::Interface(FileInterface::Engine), SweepContender::Objects];
    contenders.extend(interfaces[1..].iter().cloned().map(SweepContender::Interface));
    let tests: Vec<SweepTest> =
        if arguments.tests.is_empty() { SweepTest::ALL.into() } else { arguments.tests.clone() };
    let limits = match arguments.limit {
        Some(rate) => [[rate.0 as f64; 2]; 2],
        None => device_limit::measure(world, &arguments.target)?,
    };
    for contender in 0..contenders.len() {
        arguments.target.refuse_existing(world, &file_of(arguments, contender))?;
    }
    let mut all: Vec<SweepTimes> = Vec::new();
    for _ in 0..arguments.rounds {
        for test in &tests {
            sweep(world, arguments, &contenders, *test, &mut all)?;
        }
    }
    if world.rank() != 0 {
        return Ok(());
    }
    let names: Vec<&str> = contenders.iter().map(SweepContender::name).collect();
    let mut result = describe(&tests, &names, &all, world.size() as u64, arguments, &limits);
    result.facts = system_facts(Some(world), &arguments.target.file, &arguments.target.hints);
    result.publish(&arguments.output)
}

/// The file of a contender.
fn file_of(arguments: &SweepArguments, contender: usize) -> PathBuf {
    PathBuf::from(format!("{}.sweep-{contender}", arguments.target.file))
}

/// All sizes of a test.
fn sweep(
    world: &Comm,
    arguments: &SweepArguments,
    contenders: &[SweepContender],
    test: SweepTest,
    all: &mut Vec<SweepTimes>,
) -> Result<()> {
    let mut last = vec![0.0f64; contenders.len()];
    let sizes = std::iter::successors(Some(arguments.from.0), |size| Some(size * 2));
    let sizes = sizes.take_while(|size| *size <= arguments.to.0).filter(|size| *size >= test.element());
    for bytes in sizes {
        for (contender, kind) in contenders.iter().enumerate() {
            if last[contender] * 2.0 > arguments.longest {
                continue;
            }
            let path = file_of(arguments, contender);
            let mut file = SweepFile::new(world, kind, test, path.clone(), bytes, &arguments.target.hints);
            let measured = measure(world, &mut file);
            let deleted = if world.rank() == 0 {
                let meta = PathBuf::from(format!("{}.meta", path.display()));
                delete_one(&path).and_then(|()| delete_one(&meta))
            } else {
                Ok(())
            };
            agree(world, deleted)?;
            let [access, whole] =
                measured.with_context(|| format!("{} of {bytes} bytes, {}", test.name(), kind.name()))?;
            last[contender] = access.iter().chain(&whole).copied().fold(0.0, f64::max);
            let found = all
                .iter_mut()
                .find(|times| (times.test, times.bytes, times.contender) == (test, bytes, contender));
            match found {
                Some(times) => {
                    times.access.extend(access);
                    times.whole.extend(whole);
                }
                None => all.push(SweepTimes { test, bytes, contender, access, whole }),
            }
        }
    }
    Ok(())
}

/// Verifies the file, then measures the access alone and the whole.
fn measure(world: &Comm, file: &mut SweepFile<'_>) -> Result<[Vec<f64>; 2]> {
    agree(world, file.verify())?;
    agree(world, file.open(false))?;
    let access = samples(world, ENOUGH, &|| Ok(()), &mut || file.access());
    agree(world, file.close())?;
    let access = agree(world, access)?;
    let whole = samples(world, ENOUGH, &|| Ok(()), &mut || {
        file.open(false)?;
        file.access()?;
        file.close()
    });
    Ok([access, agree(world, whole)?])
}

/// Bytes that all ranks transfer.
fn total(test: SweepTest, bytes: u64, ranks: u64) -> f64 {
    (bytes / test.element() * test.element() * if test.is_collective() { ranks } else { 1 }) as f64
}

fn describe(
    tests: &[SweepTest],
    names: &[&str],
    all: &[SweepTimes],
    ranks: u64,
    arguments: &SweepArguments,
    limits: &[[f64; 2]; 2],
) -> BenchResult {
    let columns = [
        "test",
        "bytes/rank",
        "interface",
        "access µs",
        "access MB/s",
        "per process MB/s",
        "whole µs",
        "whole MB/s",
    ];
    let mut figures = BenchTable::new("", &columns);
    for times in all {
        let rate = |seconds: Option<f64>| {
            seconds.map(|seconds| total(times.test, times.bytes, ranks) / seconds / 1e6)
        };
        let processes = if times.test.is_collective() { ranks as f64 } else { 1.0 };
        let (access, whole) = (median(&times.access), median(&times.whole));
        figures.add(vec![
            times.test.name().into(),
            TableValue::Count(times.bytes),
            names[times.contender].into(),
            access.map(|seconds| seconds * 1e6).into(),
            rate(access).into(),
            rate(access).map(|rate| rate / processes).into(),
            whole.map(|seconds| seconds * 1e6).into(),
            rate(whole).into(),
        ]);
    }
    let mut notes = vec![
        "access: the access alone; whole: open, view, access and close; every size was verified; median of all samples".to_owned(),
        "MB/s: of all ranks together, MB = 10⁶ bytes; existing files in the page cache, without sync".to_owned(),
    ];
    let tables = tests.iter().map(|test| table(*test, names, all, ranks)).collect();
    for test in tests {
        notes.extend(findings::findings(*test, names, all));
    }
    let plots = tests.iter().map(|test| plot(*test, names, all, ranks, arguments.rate, limits)).collect();
    BenchResult {
        title: format!("Sweep over sizes, {ranks} ranks"),
        figures,
        tables,
        notes,
        plots,
        ..BenchResult::default()
    }
}

/// A line for each size of a test, with the rates of all contenders side by side.
fn table(test: SweepTest, names: &[&str], all: &[SweepTimes], ranks: u64) -> BenchTable {
    let mut columns = vec!["bytes/rank".to_owned()];
    columns.extend(names.iter().map(|name| format!("{name} MB/s")));
    columns.extend(names.iter().map(|name| format!("{name} whole")));
    let mut sizes: Vec<u64> =
        all.iter().filter(|times| times.test == test).map(|times| times.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut table = BenchTable { name: test.name().to_owned(), columns, rows: Vec::new() };
    for bytes in sizes {
        let find = |contender: usize| {
            all.iter().find(|times| (times.test, times.bytes, times.contender) == (test, bytes, contender))
        };
        let rate = |samples: &[f64]| median(samples).map(|seconds| total(test, bytes, ranks) / seconds / 1e6);
        let access =
            (0..names.len()).map(|at| TableValue::from(find(at).and_then(|times| rate(&times.access))));
        let whole =
            (0..names.len()).map(|at| TableValue::from(find(at).and_then(|times| rate(&times.whole))));
        table.add(std::iter::once(TableValue::Count(bytes)).chain(access).chain(whole).collect());
    }
    table
}

fn plot(
    test: SweepTest,
    names: &[&str],
    all: &[SweepTimes],
    ranks: u64,
    kind: RateKind,
    limits: &[[f64; 2]; 2],
) -> Plot {
    let per_process = kind == RateKind::Process && test.is_collective();
    let divisor = if per_process { 1e6 * ranks as f64 } else { 1e6 };
    let series = names.iter().enumerate().map(|(contender, name)| {
        let times = all.iter().filter(|times| times.test == test && times.contender == contender);
        let points = times.map(|times| {
            point(times.bytes as f64, &times.access, |seconds| {
                total(test, times.bytes, ranks) / seconds / divisor
            })
        });
        PlotSeries { label: (*name).to_owned(), points: points.collect() }
    });
    let limit = limits[usize::from(test.is_collective())][usize::from(test.is_read())] / divisor;
    Plot {
        name: test.name().replace(' ', "-"),
        title: format!("{}, {ranks} ranks", test.name()),
        x_label: "bytes of each rank".to_owned(),
        y_label: if per_process { "MB/s of each process" } else { "MB/s" }.to_owned(),
        scale: PlotScale::Bytes,
        style: PlotStyle::Lines,
        series: series.collect(),
        limits: vec![("limit of the device".to_owned(), limit)],
    }
}
