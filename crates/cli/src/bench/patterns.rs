//! `aqueduct bench patterns`: access patterns of parallel programs, verified and timed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::device::units::ByteSize;
use aqueduct_patterns::timing::{TimeCap, median};
use aqueduct_patterns::{
    BenchCase, CaseFamily, CaseRunner, FileInterface, FileState, PATTERNS, PatternSpec, expected_sum,
    size_with_unit,
};

use super::output::{
    BenchResult, BenchTable, OutputArguments, Plot, PlotPoint, PlotScale, PlotSeries, PlotStyle, TableValue,
    system_facts,
};
use super::target::{TargetArguments, agree};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PatternArguments {
    /// Sizes per rank: powers of two from 4 KiB on
    #[arg(long, value_delimiter = ',', default_value = "64KiB,1MiB,16MiB")]
    sizes: Vec<ByteSize>,
    /// Only these patterns [default: all]
    #[arg(long, value_delimiter = ',', value_name = "PATTERN")]
    only: Vec<String>,
    /// Rounds; in each all cases, in each case all interfaces in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    output: OutputArguments,
}

pub(super) fn run(arguments: &PatternArguments) -> Result<()> {
    let cases = cases(arguments)?;
    arguments.target.run(|world| job(world, arguments, &cases))
}

fn cases(arguments: &PatternArguments) -> Result<Vec<BenchCase>> {
    let mut sizes: Vec<u64> = arguments.sizes.iter().map(|size| size.0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in &sizes {
        ensure!(
            size.is_power_of_two() && *size >= 4096,
            "--sizes are powers of two from 4KiB on, not {}",
            ByteSize(*size)
        );
    }
    let known = || PATTERNS.iter().filter(|pattern| pattern.states.contains(&FileState::Cached));
    let named: Vec<&'static PatternSpec> = if arguments.only.is_empty() {
        known().collect()
    } else {
        let find = |name: &String| {
            known().find(|pattern| pattern.name == name).with_context(|| {
                let names = known().map(|pattern| pattern.name).collect::<Vec<_>>().join(", ");
                format!("there is no pattern {name}; there are {names}")
            })
        };
        arguments.only.iter().map(find).collect::<Result<_>>()?
    };
    let cases: Vec<BenchCase> = named
        .into_iter()
        .flat_map(|pattern| pattern.cases(&sizes))
        .filter(|case| case.family.state == FileState::Cached)
        .collect();
    ensure!(!cases.is_empty(), "no pattern has these sizes");
    Ok(cases)
}

/// The seconds of a case through an interface, or why there are none.
#[derive(Clone, Debug)]
enum CaseTimes {
    Seconds(Vec<f64>),
    /// It was not done: it would take too long.
    Omitted,
    Failed(String),
}

type Results = BTreeMap<(BenchCase, usize), CaseTimes>;

fn job(world: &Comm, arguments: &PatternArguments, cases: &[BenchCase]) -> Result<()> {
    let interfaces = arguments.target.interfaces(world)?;
    let base = PathBuf::from(&arguments.target.file);
    let path = base.with_extension("cached");
    let largest = cases.iter().map(|case| case.bytes).max().unwrap_or(0);
    arguments.target.create(world, &path, largest)?;
    let runner = |interface: &FileInterface| {
        let runner = CaseRunner::new(world, interface.clone(), &base, largest)?;
        anyhow::Ok(runner.hints(&arguments.target.hints))
    };
    let mut runners = interfaces.iter().map(runner).collect::<Result<Vec<_>>>()?;
    let mut results = Results::new();
    let verified = verify(world, &mut runners, cases, &mut results);
    let outcome = verified.and_then(|verified| {
        for round in 0..arguments.rounds {
            time(world, &mut runners, cases, round, &mut results)?;
        }
        Ok(verified)
    });
    TargetArguments::delete(world, &path)?;
    let verified = outcome?;
    if world.rank() != 0 {
        return Ok(());
    }
    let names: Vec<&str> = interfaces.iter().map(FileInterface::name).collect();
    let mut result = describe(cases, &names, &results, world.size() as u64, &path);
    result.facts = system_facts(Some(world), &arguments.target.file, &arguments.target.hints);
    result.facts.extend(interfaces.iter().filter_map(library_fact));
    result.notes.insert(
        0,
        format!("{verified} cases verified; the median of all samples of {} rounds", arguments.rounds),
    );
    result.publish(&arguments.output)
}

fn library_fact(interface: &FileInterface) -> Option<(String, String)> {
    let FileInterface::MpiIo(functions) = interface else { return None };
    Some((format!("{} through", interface.name()), functions.library().to_owned()))
}

/// Executes each case once through each interface and compares the file with what it must contain; the number of cases.
fn verify(
    world: &Comm,
    runners: &mut [CaseRunner<'_>],
    cases: &[BenchCase],
    results: &mut Results,
) -> Result<u64> {
    let ranks = world.size() as u64;
    let mut verified = 0;
    // Opening writes no bytes.
    for case in cases.iter().filter(|case| case.family.pattern != "open") {
        let expected = if world.rank() == 0 { expected_sum(case, ranks) } else { 0 };
        for (at, runner) in runners.iter_mut().enumerate() {
            let checked = runner.verify(case).and_then(|sum| {
                ensure!(
                    world.rank() != 0 || sum == expected,
                    "the file does not contain the data that was written"
                );
                Ok(())
            });
            match agree(world, checked) {
                Ok(()) => verified += 1,
                // An error of the engine is an error of the benchmark.
                Err(error) if at == 0 => return Err(error).with_context(|| case.to_string()),
                Err(error) => _ = results.insert((*case, at), CaseTimes::Failed(format!("{error:#}"))),
            }
        }
    }
    Ok(verified)
}

/// One round: all cases, in each all interfaces, in another order in each round.
fn time(
    world: &Comm,
    runners: &mut [CaseRunner<'_>],
    cases: &[BenchCase],
    round: u64,
    results: &mut Results,
) -> Result<()> {
    let count = runners.len();
    let mut caps: Vec<TimeCap<CaseFamily>> = (0..count).map(|_| TimeCap::new()).collect();
    for case in cases {
        for turn in 0..count {
            let at = (turn + round as usize) % count;
            let known = results.get(&(*case, at));
            if matches!(known, Some(CaseTimes::Failed(_) | CaseTimes::Omitted)) {
                continue;
            }
            if caps[at].forbids(&case.family, case.bytes) {
                results.insert((*case, at), CaseTimes::Omitted);
                continue;
            }
            match agree(world, runners[at].time(case)) {
                Ok((samples, _)) => {
                    let best = samples.iter().copied().fold(f64::INFINITY, f64::min);
                    caps[at].record(case.family, case.bytes, best);
                    match results.entry((*case, at)).or_insert_with(|| CaseTimes::Seconds(Vec::new())) {
                        CaseTimes::Seconds(all) => all.extend(samples),
                        CaseTimes::Omitted | CaseTimes::Failed(_) => {}
                    }
                }
                Err(error) if at == 0 => return Err(error).with_context(|| case.to_string()),
                Err(error) => _ = results.insert((*case, at), CaseTimes::Failed(format!("{error:#}"))),
            }
        }
    }
    Ok(())
}

/// The tables, notes and plots.
fn describe(cases: &[BenchCase], names: &[&str], results: &Results, ranks: u64, path: &Path) -> BenchResult {
    let mut columns =
        vec!["pattern".to_owned(), "calls".to_owned(), "direction".to_owned(), "bytes/rank".to_owned()];
    for name in names {
        columns.extend([format!("{name} µs"), format!("{name} MB/s")]);
    }
    columns.extend(names[1..].iter().map(|name| format!("{}/{name}", names[0])));
    let mut figures = BenchTable { name: String::new(), columns, rows: Vec::new() };
    let mut notes = vec![format!(
        "µs: one operation, of the slowest rank; MB/s: of all ranks together, MB = 10⁶ bytes; {} is overwritten through the page cache, without sync",
        path.display()
    )];
    if names.len() > 1 {
        notes.push(format!("{}/NAME: how many times as fast {} is", names[0], names[0]));
    }
    for case in cases {
        let family = case.family.to_string();
        let words: Vec<&str> = family.split(':').collect();
        let mut row: Vec<TableValue> =
            vec![words[0].into(), words[1].into(), words[2].into(), TableValue::Count(case.bytes)];
        let medians: Vec<Option<f64>> = (0..names.len())
            .map(|at| match results.get(&(*case, at)) {
                Some(CaseTimes::Seconds(samples)) => median(samples),
                _ => None,
            })
            .collect();
        for seconds in &medians {
            let rate =
                seconds.filter(|_| case.family.pattern != "open").map(|seconds| rate(case, ranks, seconds));
            row.extend([TableValue::from(seconds.map(|seconds| seconds * 1e6)), rate.into()]);
        }
        row.extend(
            medians[1..]
                .iter()
                .map(|other| TableValue::from(other.zip(medians[0]).map(|(other, ours)| other / ours))),
        );
        figures.add(row);
    }
    for ((case, at), times) in results {
        match times {
            CaseTimes::Failed(why) => notes.push(format!("n/a: {}, {case}: {why}", names[*at])),
            CaseTimes::Omitted => {
                notes.push(format!("omitted: {}, {case}: it takes more than a second", names[*at]));
            }
            CaseTimes::Seconds(_) => {}
        }
    }
    let plots = plots(cases, names, results, ranks);
    BenchResult {
        title: format!("Access patterns on {ranks} ranks"),
        figures,
        notes,
        plots,
        ..BenchResult::default()
    }
}

fn rate(case: &BenchCase, ranks: u64, seconds: f64) -> f64 {
    (case.bytes * ranks) as f64 / seconds / 1e6
}

/// A plot for each direction: the rates of the largest size of each pattern as bars.
fn plots(cases: &[BenchCase], names: &[&str], results: &Results, ranks: u64) -> Vec<Plot> {
    let of_direction = |is_read: bool| {
        let mut largest: BTreeMap<(usize, String), BenchCase> = BTreeMap::new();
        for case in cases.iter().filter(|case| case.is_read() == is_read && case.family.pattern != "open") {
            let order = PATTERNS.iter().position(|pattern| pattern.name == case.family.pattern).unwrap_or(0);
            let calls = if case.is_collective() { "coll." } else { "indep." };
            let entry = largest.entry((order, format!("{} {calls}", case.family.pattern))).or_insert(*case);
            if case.bytes > entry.bytes {
                *entry = *case;
            }
        }
        let size = largest.values().map(|case| case.bytes).max()?;
        let series = names.iter().enumerate().map(|(at, name)| {
            let points = largest.values().enumerate().filter_map(|(x, case)| {
                let Some(CaseTimes::Seconds(samples)) = results.get(&(*case, at)) else { return None };
                Some(point(x as f64, samples, |seconds| rate(case, ranks, seconds)))
            });
            PlotSeries { label: (*name).to_owned(), points: points.collect() }
        });
        let direction = if is_read { "read" } else { "write" };
        Some(Plot {
            name: direction.to_owned(),
            title: format!("{direction}, {ranks} ranks, up to {} per rank", size_with_unit(size)),
            x_label: "pattern".to_owned(),
            y_label: "MB/s of all ranks".to_owned(),
            series: series.collect(),
            scale: PlotScale::Names(largest.into_keys().map(|(_, name)| name).collect()),
            style: PlotStyle::Bars,
            limits: Vec::new(),
        })
    };
    [false, true].into_iter().filter_map(of_direction).collect()
}

/// The median of samples in seconds as a rate, with the lowest and the highest.
pub(super) fn point(x: f64, samples: &[f64], rate: impl Fn(f64) -> f64) -> PlotPoint {
    let most = samples.iter().copied().fold(0.0, f64::max);
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    PlotPoint { x, low: rate(most), middle: rate(median(samples).unwrap_or(most)), high: rate(least) }
}
