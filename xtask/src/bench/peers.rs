//! `cargo xtask bench peers`: our engine beside the MPI libraries' own, the same patterns in the same run, taking turns.
//! `crates/bench` has the programs and says what they do.

mod cell;
mod contender;
mod goal;
mod job;
mod memory;
mod options;
mod overlap;
mod results;
mod table;
mod verdict;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::packages;
use crate::shell::{command, root};
use cell::{Cell, Pattern};
use contender::Contender;
use job::Outcome;
use options::Options;
use results::Results;
use verdict::Row;

/// Larger cells are not verified: their layout is that of the smaller ones.
const LARGEST_VERIFIED: u64 = 16 << 20;

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    if let Err(error) = packages::install() {
        eprintln!("{error:#}; what cannot be run without them is n/a");
    }
    let folder = root().join("target/peers");
    fs::create_dir_all(&folder)?;
    let contenders = contender::all(&folder)?;
    let file = make_files(&folder, &options)?;
    println!("\n{}", surroundings(&folder));
    let start = Instant::now();
    let mut results = Results::default();
    let patterns: Vec<&Pattern> = options.patterns().collect();
    verify(&contenders, &options, &patterns, &file, &mut results);
    for round in 0..options.rounds {
        for &ranks in &options.ranks {
            for pattern in &patterns {
                time(&contenders, ranks, &pattern.cells(&options.sizes), &file, &mut results);
            }
        }
        println!(
            "round {} of {} done after {:.0} s",
            round + 1,
            options.rounds,
            start.elapsed().as_secs_f64()
        );
    }
    report(&options, &contenders, &results)?;
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
fn surroundings(folder: &Path) -> String {
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

/// Every contender writes and reads every pattern once; what differs from the majority's file is a failure.
fn verify(
    contenders: &[Contender],
    options: &Options,
    patterns: &[&'static Pattern],
    file: &Path,
    results: &mut Results,
) {
    let sizes: Vec<u64> = options.sizes.iter().copied().filter(|bytes| *bytes <= LARGEST_VERIFIED).collect();
    let (mut verified, mut refused) = (0, 0);
    for &ranks in &options.ranks {
        for pattern in patterns {
            let mut sums: BTreeMap<Cell, Vec<(&'static str, String)>> = BTreeMap::new();
            for contender in contenders {
                for (cell, outcome) in job::run(contender, ranks, "verify", file, &pattern.cells(&sizes)) {
                    match outcome {
                        Outcome::Sum(sum) => sums.entry(cell).or_default().push((contender.name, sum)),
                        Outcome::Failed(_) => results.add(contender.name, ranks, cell, outcome),
                        _ => {}
                    }
                }
            }
            for (cell, sums) in sums {
                let common = most_common(&sums).to_owned();
                for (name, sum) in sums {
                    if sum == common {
                        verified += 1;
                    } else {
                        refused += 1;
                        let why = "its file differs from the others'".to_owned();
                        results.add(name, ranks, cell, Outcome::Failed(why));
                    }
                }
            }
        }
    }
    println!("{verified} cells verified, {refused} files differ");
}

fn most_common<'a>(sums: &'a [(&'static str, String)]) -> &'a str {
    let count = |sum: &str| sums.iter().filter(|(_, other)| other == sum).count();
    sums.iter().map(|(_, sum)| sum.as_str()).max_by_key(|sum| count(sum)).unwrap_or_default()
}

/// One round of a pattern, all contenders in turn.
fn time(contenders: &[Contender], ranks: usize, cells: &[Cell], file: &Path, results: &mut Results) {
    for contender in contenders {
        let open: Vec<Cell> =
            cells.iter().copied().filter(|cell| results.is_open(contender.name, ranks, cell)).collect();
        for (cell, outcome) in job::run(contender, ranks, "time", file, &open) {
            results.add(contender.name, ranks, cell, outcome);
        }
    }
}

fn report(options: &Options, contenders: &[Contender], results: &Results) -> Result<()> {
    let names = |ours: bool| -> Vec<&'static str> {
        contenders.iter().filter(|contender| contender.ours == ours).map(|contender| contender.name).collect()
    };
    let (ours, peers) = (names(true), names(false));
    let mut rows = Vec::new();
    for pattern in options.patterns() {
        for cell in pattern.cells(&options.sizes) {
            rows.extend(options.ranks.iter().map(|&ranks| Row::new(results, ranks, cell, &ours, &peers)));
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    println!("\n{}", table::table(&rows));
    for (name, ranks, cell, why) in results.failures() {
        println!("n/a: {name}, {ranks} ranks, {cell}: {why}");
    }
    println!("\n{}", table::summary(&rows));
    fs::write(&options.csv, table::csv(&rows))
        .with_context(|| format!("writing {}", options.csv.display()))?;
    println!("figures in full: {}", options.csv.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::most_common;

    #[test]
    fn the_majority_is_right() {
        let sums = [("a", "1".to_owned()), ("b", "2".to_owned()), ("c", "2".to_owned())];
        assert_eq!(most_common(&sums), "2");
    }
}
