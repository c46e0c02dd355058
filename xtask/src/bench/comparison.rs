//! `cargo xtask bench peers`: our engine beside the MPI libraries' own, the same patterns in the same run, taking turns.
//! `crates/bench` has the programs and says what they do.

mod candidate;
mod case;
mod evaluation;
mod expected_sum;
mod job;
mod memory;
mod options;
mod overlap;
mod results;
mod table;
mod target;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::packages;
use crate::shell::{command, root};
use candidate::Candidate;
use case::{ComparisonCase, PatternSpec};
use evaluation::ComparisonRow;
use job::CaseOutcome;
use options::Options;
use results::ComparisonResults;

/// Larger cells are not verified, of ours and of peers: their layout is that of the smaller ones.
const LARGEST_VERIFIED: [u64; 2] = [16 << 20, 1 << 20];

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    if let Err(error) = packages::install() {
        eprintln!("{error:#}; what cannot be run without them is n/a");
    }
    let folder = root().join("target/peers");
    fs::create_dir_all(&folder)?;
    let contenders = candidate::all(&folder, options.preload)?;
    let file = make_files(&folder, &options)?;
    println!("\n{}", system_description(&folder));
    let start = Instant::now();
    let mut results = ComparisonResults::default();
    let patterns: Vec<&PatternSpec> = options.patterns().collect();
    verify(&contenders, &options, &patterns, &file, &mut results);
    for round in 0..options.rounds {
        for &ranks in &options.ranks {
            for pattern in &patterns {
                time(&contenders, ranks, &pattern.cases(&options.sizes), &file, &mut results);
            }
        }
        write_csv(&options, &contenders, &results)?;
        println!(
            "round {} of {} done after {:.0} s",
            round + 1,
            options.rounds,
            start.elapsed().as_secs_f64()
        );
    }
    report(&options, &contenders, &results);
    if options.wants("memory") {
        println!("{}", memory::measure(&contenders, &options.ranks, &file));
    }
    if options.wants("overlap") {
        println!("{}", overlap::measure(&contenders, &file));
    }
    println!("all in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The files that all contenders overwrite, without holes; their common name without ending.
fn make_files(folder: &Path, options: &Options) -> Result<PathBuf> {
    let ranks = options.ranks.iter().copied().max().unwrap_or(1) as u64;
    let bytes = ranks * options.sizes.iter().copied().max().unwrap_or(0).max(32 << 20);
    let file = folder.join("bench");
    for ending in ["cached", "direct"] {
        let path = file.with_extension(ending);
        let context = || format!("making {}", path.display());
        let mut file = File::create(&path).with_context(context)?;
        let block = vec![0x5a; 1 << 20];
        for _ in 0..bytes >> 20 {
            file.write_all(&block).with_context(context)?;
        }
        file.sync_all().with_context(context)?;
    }
    Ok(file)
}

/// What the figures depend on.
fn system_description(folder: &Path) -> String {
    let output = |program: &str, words: &[&str]| {
        let output = command(program, words).output().map(|output| output.stdout).unwrap_or_default();
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

/// Every contender writes and reads every pattern once; a file that is not as it has to be is a failure.
fn verify(
    contenders: &[Candidate],
    options: &Options,
    patterns: &[&'static PatternSpec],
    file: &Path,
    results: &mut ComparisonResults,
) {
    // Opening leaves no bytes.
    let patterns: Vec<_> = patterns.iter().filter(|pattern| pattern.name != "open").collect();
    let (mut verified, mut refused) = (0, 0);
    let rounds = options
        .ranks
        .iter()
        .flat_map(|ranks| patterns.iter().map(|pattern| (*ranks, pattern.cases(&options.sizes))));
    for (ranks, cells) in rounds {
        let mut right: BTreeMap<ComparisonCase, String> = BTreeMap::new();
        for contender in contenders {
            let largest = LARGEST_VERIFIED[usize::from(!contender.ours)];
            let cells: Vec<ComparisonCase> =
                cells.iter().copied().filter(|cell| cell.bytes <= largest).collect();
            for (cell, outcome) in job::run(contender, ranks, "verify", file, &cells) {
                let sum = || format!("{:016x}", expected_sum::sum(&cell, ranks as u64));
                let why = match outcome {
                    CaseOutcome::Sum(sum_of_file)
                        if *right.entry(cell).or_insert_with(sum) == sum_of_file =>
                    {
                        verified += 1;
                        continue;
                    }
                    CaseOutcome::Sum(_) => "what it wrote is not in the file".to_owned(),
                    CaseOutcome::Failed(why) => why,
                    _ => continue,
                };
                println!("n/a: {}, {ranks} ranks, {cell}: {why}", contender.name);
                results.add(contender.name, ranks, cell, CaseOutcome::Failed(why));
                refused += 1;
            }
        }
    }
    println!("{verified} cells verified, {refused} not available");
}

/// One round of a pattern, all contenders in turn.
fn time(
    contenders: &[Candidate],
    ranks: usize,
    cells: &[ComparisonCase],
    file: &Path,
    results: &mut ComparisonResults,
) {
    for contender in contenders {
        let open: Vec<ComparisonCase> =
            cells.iter().copied().filter(|cell| results.is_open(contender.name, ranks, cell)).collect();
        for (cell, outcome) in job::run(contender, ranks, "time", file, &open) {
            results.add(contender.name, ranks, cell, outcome);
        }
    }
}

/// The figures so far, side by side.
fn rows(options: &Options, contenders: &[Candidate], results: &ComparisonResults) -> Vec<ComparisonRow> {
    let names = |ours: bool| -> Vec<&'static str> {
        contenders.iter().filter(|contender| contender.ours == ours).map(|contender| contender.name).collect()
    };
    let (ours, peers) = (names(true), names(false));
    let cells = options.patterns().flat_map(|pattern| pattern.cases(&options.sizes));
    let places = cells.flat_map(|cell| options.ranks.iter().map(move |&ranks| (ranks, cell)));
    places.map(|(ranks, cell)| ComparisonRow::new(results, ranks, cell, &ours, &peers)).collect()
}

/// Written after every round, so that a run that is interrupted leaves something.
fn write_csv(options: &Options, contenders: &[Candidate], results: &ComparisonResults) -> Result<()> {
    let text = table::csv(&rows(options, contenders, results), results);
    fs::write(&options.csv, text).with_context(|| format!("writing {}", options.csv.display()))
}

fn report(options: &Options, contenders: &[Candidate], results: &ComparisonResults) {
    let rows = rows(options, contenders, results);
    if rows.is_empty() || options.rounds == 0 {
        return;
    }
    println!("\n{}", table::table(&rows));
    for (name, ranks, cell, why) in results.failures() {
        println!("n/a: {name}, {ranks} ranks, {cell}: {why}");
    }
    println!("\n{}", table::summary(&rows));
    println!("figures in full: {}", options.csv.display());
}
