//! The engine against the MPI-IO of MPI libraries: the same access patterns in the same run, the candidates in turn.

mod baseline;
mod candidate;
mod evaluation;
mod job;
mod lifetime;
mod memory;
mod options;
mod overlap;
mod report;
mod results;
mod strategies;
mod target;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::cases::{BenchCase, PatternSpec};
use crate::tools::folder;
use candidate::Candidate;
use evaluation::ComparisonRow;
use job::CaseOutcome;
use lifetime::Lifetimes;
use options::Options;
use results::ComparisonResults;

/// The largest verified size of ours and of peers. Larger cases have the same layout.
const LARGEST_VERIFIED: [u64; 2] = [16 << 20, 1 << 20];

pub(crate) fn run(words: &[&str]) -> Result<()> {
    if words.contains(&"--help") {
        println!("{}", options::USAGE);
        return Ok(());
    }
    let options = Options::parse(words)?;
    let folder = folder("peers")?;
    let file = make_files(&folder, &options)?;
    println!("\n{}", system_description(&folder));
    if let Some(program) = &options.baseline {
        return baseline::compare(&options, program, &file);
    }
    let candidates = candidate::all(&folder, options.preload)?;
    let start = Instant::now();
    if options.wants("lifetime") {
        compare_lifetimes(&candidates, &options, &file)?;
    }
    if options.wants("strategies") {
        strategies::compare(&options, &folder, &file)?;
    }
    if options.wants("repeated") {
        compare_repeated(&candidates, &options, &file, start)?;
    }
    if options.wants("memory") {
        println!("{}", memory::measure(&candidates, &options.ranks, &file));
    }
    if options.wants("overlap") {
        println!("{}", overlap::measure(&candidates, &file));
    }
    println!("total time: {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The first table: files that are created, written once and read once.
fn compare_lifetimes(candidates: &[Candidate], options: &Options, file: &Path) -> Result<()> {
    let mut lifetimes = Lifetimes::default();
    let csv = options.csv.with_extension("lifetime.csv");
    for _ in 0..options.rounds {
        lifetimes.measure(candidates, options, file, |_| true);
        fs::write(&csv, lifetimes.csv()).with_context(|| format!("writing {}", csv.display()))?;
    }
    println!("{}all parts: {}\n", lifetimes.table(candidates), csv.display());
    Ok(())
}

/// The second table: repeated accesses to a file that exists.
fn compare_repeated(candidates: &[Candidate], options: &Options, file: &Path, start: Instant) -> Result<()> {
    let mut results = ComparisonResults::default();
    let patterns: Vec<&PatternSpec> = options.patterns().collect();
    verify(candidates, options, &patterns, file, &mut results);
    for round in 0..options.rounds {
        for &ranks in &options.ranks {
            for pattern in &patterns {
                time(candidates, ranks, &pattern.cases(&options.sizes), file, &mut results);
            }
        }
        write_csv(options, candidates, &results)?;
        println!(
            "round {} of {} done after {:.0} s",
            round + 1,
            options.rounds,
            start.elapsed().as_secs_f64()
        );
    }
    report(options, candidates, &results);
    Ok(())
}

/// Creates the files that all candidates overwrite, without holes; their name without extension.
fn make_files(folder: &Path, options: &Options) -> Result<PathBuf> {
    let ranks = options.ranks.iter().copied().max().unwrap_or(1) as u64;
    let bytes = ranks * options.sizes.iter().copied().max().unwrap_or(0).max(32 << 20);
    let file = folder.join("bench");
    for ending in ["cached", "direct"] {
        let path = file.with_extension(ending);
        let context = || format!("creating {}", path.display());
        let mut file = File::create(&path).with_context(context)?;
        let block = vec![0x5a; 1 << 20];
        for _ in 0..bytes >> 20 {
            file.write_all(&block).with_context(context)?;
        }
        file.sync_all().with_context(context)?;
    }
    Ok(file)
}

/// Cores, load, kernel, file system and versions of the MPI libraries.
fn system_description(folder: &Path) -> String {
    let output = |program: &str, words: &[&str]| {
        let output =
            Command::new(program).args(words).output().map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&output).trim().to_owned()
    };
    let system = output("df", &["--output=fstype", &folder.to_string_lossy()]);
    let system = system.lines().last().unwrap_or("an unknown file system").to_owned();
    let first = |program: &str| output(program, &["--version"]).lines().next().unwrap_or("none").to_owned();
    let mpich = output("mpirun.mpich", &["--version"]);
    let mpich = mpich
        .lines()
        .find_map(|line| line.trim().strip_prefix("Version:"))
        .unwrap_or("none")
        .trim()
        .to_owned();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{cores} cores, load {}, Linux {}, files on {system}; {}; MPICH {mpich}",
        load.split(' ').next().unwrap_or("unknown"),
        output("uname", &["-r"]),
        first("mpirun.openmpi")
    )
}

/// Every candidate writes and reads every pattern once; a file with a wrong checksum is a failure.
fn verify(
    candidates: &[Candidate],
    options: &Options,
    patterns: &[&'static PatternSpec],
    file: &Path,
    results: &mut ComparisonResults,
) {
    // Opening writes no bytes.
    let patterns: Vec<_> = patterns.iter().filter(|pattern| pattern.name != "open").collect();
    let (mut verified, mut refused) = (0, 0);
    let rounds = options
        .ranks
        .iter()
        .flat_map(|ranks| patterns.iter().map(|pattern| (*ranks, pattern.cases(&options.sizes))));
    for (ranks, cases) in rounds {
        let mut right: BTreeMap<BenchCase, String> = BTreeMap::new();
        for candidate in candidates {
            let largest = LARGEST_VERIFIED[usize::from(!candidate.ours)];
            let cases: Vec<BenchCase> = cases.iter().copied().filter(|case| case.bytes <= largest).collect();
            for (case, outcome) in job::run(candidate, ranks, "verify", file, &cases) {
                let sum = || format!("{:016x}", aqueduct_patterns::expected_sum(&case, ranks as u64));
                let why = match outcome {
                    CaseOutcome::Sum(sum_of_file)
                        if *right.entry(case).or_insert_with(sum) == sum_of_file =>
                    {
                        verified += 1;
                        continue;
                    }
                    CaseOutcome::Sum(_) => "the file does not contain the data it wrote".to_owned(),
                    CaseOutcome::Failed(why) => why,
                    _ => continue,
                };
                println!("n/a: {}, {ranks} ranks, {case}: {why}", candidate.name);
                results.add(candidate.name, ranks, case, CaseOutcome::Failed(why));
                refused += 1;
            }
        }
    }
    println!("{verified} cases verified, {refused} not available");
}

/// One round of a pattern, all candidates in turn.
fn time(
    candidates: &[Candidate],
    ranks: usize,
    cases: &[BenchCase],
    file: &Path,
    results: &mut ComparisonResults,
) {
    for candidate in candidates {
        let open: Vec<BenchCase> =
            cases.iter().copied().filter(|case| results.is_open(candidate.name, ranks, case)).collect();
        for (case, outcome) in job::run(candidate, ranks, "time", file, &open) {
            results.add(candidate.name, ranks, case, outcome);
        }
    }
}

/// The rows of the table, from the results so far.
fn rows(options: &Options, candidates: &[Candidate], results: &ComparisonResults) -> Vec<ComparisonRow> {
    let names = |ours: bool| -> Vec<&'static str> {
        candidates.iter().filter(|candidate| candidate.ours == ours).map(|candidate| candidate.name).collect()
    };
    let (ours, peers) = (names(true), names(false));
    let cases = options.patterns().flat_map(|pattern| pattern.cases(&options.sizes));
    let places = cases.flat_map(|case| options.ranks.iter().map(move |&ranks| (ranks, case)));
    places.map(|(ranks, case)| ComparisonRow::new(results, ranks, case, &ours, &peers)).collect()
}

/// Writes the results after every round, so that an interrupted run leaves some.
fn write_csv(options: &Options, candidates: &[Candidate], results: &ComparisonResults) -> Result<()> {
    let text = report::csv(&rows(options, candidates, results), results);
    fs::write(&options.csv, text).with_context(|| format!("writing {}", options.csv.display()))
}

fn report(options: &Options, candidates: &[Candidate], results: &ComparisonResults) {
    let rows = rows(options, candidates, results);
    if rows.is_empty() || options.rounds == 0 {
        return;
    }
    println!("\n{}", report::table(&rows));
    for (name, ranks, case, why) in results.failures() {
        println!("n/a: {name}, {ranks} ranks, {case}: {why}");
    }
    println!("\n{}", report::summary(&rows));
    println!("all figures: {}", options.csv.display());
}
