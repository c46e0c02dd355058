//! `motif` against ripgrep, seqkit, EMBOSS fuzznuc and a dynamic-programming loop; parallel input against rank 0 as the only reader.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::speedup_plot::{SpeedupCurve, write_svg};
use crate::table::{FigureTable, FigureTarget, TextTable};
use crate::timing::{alternate, median, ratios};
use crate::tools::{folder, root, scratch_folder};

const CARG: &str = "CC(A|T){6}GG";
/// The same motif for ripgrep, with ends of lines within it.
const MULTILINE: [&str; 4] =
    ["--multiline", "--count-matches", "--no-filename", r"C\n?C\n?((A|T)\n?){6}G\n?G"];
const PLANTED: &str = "CCATATATGGACGTACGTAC";
const APPROXIMATE: &str = "CCATATATGGACGTACGTAC";
/// Megabytes of the human genome in the study.
const HUMAN_GENOME: f64 = 3121.0;
/// The bandwidth of each client in the study.
const CLIENT_RATE: &str = "11MB/s";

/// Runs the parts that are named, or all: `exact`, `tools`, `approximate`, `input`; `--quick` uses a smaller genome.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let quick = words.contains(&"--quick");
    let wants = |part: &str| words.iter().all(|word| word.starts_with('-')) || words.contains(&part);
    let scratch = scratch_folder()?;
    let bench = MotifBench { folder: scratch.path(), rounds: if quick { 1 } else { 3 } };
    let mut table = FigureTable::default();
    if wants("exact") {
        bench.exact(&mut table, if quick { 64 } else { 512 })?;
    }
    if wants("tools") {
        bench.other_tools(&mut table, if quick { 8 } else { 64 })?;
    }
    if wants("approximate") {
        bench.approximate(&mut table, if quick { 4 } else { 32 })?;
    }
    if wants("input") {
        let ranks: &[usize] = if quick { &[1, 2, 4] } else { &[1, 2, 4, 8, 16, 32] };
        bench.input(&mut table, if quick { 8 } else { 128 }, ranks)?;
    }
    table.finish();
    Ok(())
}

struct MotifBench<'a> {
    folder: &'a Path,
    rounds: usize,
}

impl MotifBench<'_> {
    /// A genome of 24 sequences, with lines of this width (0: one line per sequence).
    fn genome(&self, mebibytes: usize, width: usize) -> Result<String> {
        let path = self.folder.join(format!("genome-{mebibytes}-{width}.fa")).display().to_string();
        let (size, width) = (format!("{mebibytes}MiB"), width.to_string());
        let words = ["generate", &path, "--size", &size, "--width", &width, "--plant", PLANTED];
        output(motif().args(words))?;
        // Into the page cache, and written back before anything is measured.
        std::io::copy(&mut fs::File::open(&path)?, &mut std::io::sink())?;
        rustix::fs::sync();
        Ok(path)
    }

    /// The exact search from the page cache.
    fn exact(&self, table: &mut FigureTable, mebibytes: usize) -> Result<()> {
        let (lines, wrapped) = (self.genome(mebibytes, 0)?, self.genome(mebibytes, 60)?);
        let search =
            |file: &str, ranks: &str| count_seconds(motif().args(["search", CARG, file, "-cqn", ranks]));
        let expected = search(&lines, "1")?.1;
        let same = |(seconds, count): (f64, u64)| {
            ensure!(count == expected, "{count} hits instead of {expected}");
            Ok(seconds)
        };
        let rounds = alternate(self.rounds, || same(search(&lines, "1")?), || same(search(&lines, "2")?))?;
        table.at_least(
            &format!("CArG box, {mebibytes} MiB in one line per sequence, 2 ranks × 1"),
            &ratios(&rounds),
            1.8,
        );
        let one: Vec<f64> = rounds.iter().map(|round| round.0).collect();
        let rounds =
            alternate(self.rounds, || same(search(&wrapped, "1")?), || same(search(&wrapped, "2")?))?;
        table.at_least("  lines of 60, 2 ranks × 1", &ratios(&rounds), 1.8);
        let ripgrep =
            || count_seconds(Command::new("rg").args(["--count-matches", "--no-filename", CARG, &lines]));
        if is_installed("rg") {
            let rounds = alternate(self.rounds, || same(ripgrep()?), || same(search(&lines, "1")?))?;
            table.at_least("  one line per sequence, 1 rank × `rg --count-matches`", &ratios(&rounds), 1.0);
            let multiline = || same(count_seconds(Command::new("rg").args(MULTILINE).arg(&wrapped))?);
            let rounds = alternate(self.rounds, multiline, || same(search(&wrapped, "1")?))?;
            table.at_least("  lines of 60, 1 rank × `rg --multiline --count-matches`", &ratios(&rounds), 1.0);
        }
        let seconds = median(&one).context("no rounds")? * HUMAN_GENOME / (mebibytes as f64 * 1.048_576);
        table.row("  seconds for 3121 MB (human genome), computed, 1 rank", [seconds; 2], FigureTarget::None);
        Ok(())
    }

    /// Tools for sequences, on wrapped lines.
    fn other_tools(&self, table: &mut FigureTable, mebibytes: usize) -> Result<()> {
        let genome = self.genome(mebibytes, 60)?;
        let report = self.folder.join("report").display().to_string();
        let ours = || Ok(count_seconds(motif().args(["search", CARG, &genome, "-cqn", "1"]))?.0);
        let seqkit =
            || seconds(Command::new("seqkit").args(["locate", "-P", "-r", "-j", "1", "-p", CARG, &genome]));
        let fuzznuc = || {
            let mut command = Command::new("fuzznuc");
            command.args(["-sequence", &genome, "-pattern", "CC[AT](6)GG", "-rformat", "gff", "-auto"]);
            seconds(command.args(["-outfile", &report]))
        };
        if is_installed("seqkit") {
            let rounds = alternate(self.rounds, seqkit, ours)?;
            table.at_least(
                &format!("CArG box, {mebibytes} MiB, 1 rank × `seqkit locate`"),
                &ratios(&rounds),
                3.0,
            );
        }
        if is_installed("fuzznuc") {
            let rounds = alternate(self.rounds, fuzznuc, ours)?;
            table.at_least(
                &format!("CArG box, {mebibytes} MiB, 1 rank × EMBOSS fuzznuc"),
                &ratios(&rounds),
                3.0,
            );
        }
        Ok(())
    }

    /// A word of 20 residues with two errors, against the table of Sellers, column by column.
    fn approximate(&self, table: &mut FigureTable, mebibytes: usize) -> Result<()> {
        let genome = self.genome(mebibytes, 0)?;
        let text: Vec<u8> = fs::read_to_string(&genome)?
            .lines()
            .filter(|line| !line.starts_with('>'))
            .flat_map(str::bytes)
            .collect();
        let query = format!("({APPROXIMATE})/edit(2)");
        let ours = || Ok(count_seconds(motif().args(["search", &query, &genome, "-cqn", "1"]))?.0);
        let loops = || {
            let start = Instant::now();
            let ends = ends_within(APPROXIMATE.as_bytes(), &text, 2);
            ensure!(ends >= 240, "{ends} ends of planted words");
            Ok(start.elapsed().as_secs_f64())
        };
        let rounds = alternate(self.rounds, loops, ours)?;
        table.at_least(
            &format!("edit(2), {mebibytes} MiB, 1 rank × a dynamic-programming loop"),
            &ratios(&rounds),
            5.0,
        );
        Ok(())
    }

    /// All ranks read, or rank 0 reads for all, with a limited bandwidth of each reader.
    fn input(&self, table: &mut FigureTable, mebibytes: usize, ranks: &[usize]) -> Result<()> {
        let genome = self.genome(mebibytes, 60)?;
        let name = format!("throttle={CLIENT_RATE} each:{genome}");
        let mut rows =
            TextTable::new(["ranks", "together s", "speed-up", "efficiency", "master s", "speed-up"]);
        let mut curves = [("all ranks read", "together"), ("rank 0 reads", "master")]
            .map(|(name, input)| (input, SpeedupCurve { name, points: Vec::new() }));
        let mut first = [0.0; 2];
        for &count in ranks {
            let mut row = vec![count.to_string()];
            for (at, (input, curve)) in curves.iter_mut().enumerate() {
                let count_text = count.to_string();
                let words =
                    ["search", CARG, &name, "-cq", "--buffer", "512KiB", "--input", input, "-n", &count_text];
                // Rank 0 alone takes as long with any number of ranks.
                let rounds = if at == 0 { self.rounds } else { 1 };
                let runs: Vec<f64> =
                    (0..rounds).map(|_| Ok(count_seconds(motif().args(words))?.0)).collect::<Result<_>>()?;
                let time = median(&runs).context("no rounds")?;
                if curve.points.is_empty() {
                    first[at] = time;
                }
                let speedup = first[at] / time;
                curve.points.push((count as f64, speedup));
                row.extend([format!("{time:.2}"), format!("{speedup:.2}")]);
                if at == 0 {
                    row.push(format!("{:.2}", speedup / count as f64));
                    let efficiency = |time: &f64| first[0] / time / count as f64;
                    let efficiencies: Vec<f64> = runs.iter().map(efficiency).collect();
                    let label =
                        format!("{mebibytes} MiB, {CLIENT_RATE} for each reader, {count} ranks, efficiency");
                    table.at_least(&label, &efficiencies, 0.8);
                }
            }
            rows.add(row);
        }
        println!("{rows}");
        let path = folder("motif")?.join("speedup.svg");
        let title = format!("motif: {mebibytes} MiB, {CLIENT_RATE} per reader");
        write_svg(&path, &title, &curves.map(|(_, curve)| curve))?;
        println!("{}", path.display());
        Ok(())
    }
}

/// The number of places at which a part within the distance ends.
fn ends_within(word: &[u8], text: &[u8], distance: usize) -> usize {
    let mut column: Vec<usize> = (0..=word.len()).collect();
    let mut found = 0;
    for letter in text {
        let mut diagonal = 0;
        for at in 1..=word.len() {
            let replaced = diagonal + usize::from(word[at - 1] != *letter);
            diagonal = column[at];
            column[at] = replaced.min(column[at] + 1).min(column[at - 1] + 1);
        }
        found += usize::from(column[word.len()] <= distance);
    }
    found
}

fn motif() -> Command {
    let mut command = Command::new(root().join("target/release/motif"));
    command.env("AQUEDUCT_MPI", "none");
    command
}

fn is_installed(program: &str) -> bool {
    let found =
        Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("{program} is not installed; its row is omitted");
    }
    found
}

fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("starting {}", command.get_program().display()))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

fn seconds(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    output(command)?;
    Ok(start.elapsed().as_secs_f64())
}

/// The seconds of a command, and the number that it prints.
fn count_seconds(command: &mut Command) -> Result<(f64, u64)> {
    let start = Instant::now();
    let printed = output(command)?;
    let seconds = start.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&printed);
    Ok((seconds, text.trim().parse().with_context(|| format!("{command:?} printed {text}"))?))
}

#[test]
fn ends_of_parts_within_a_distance_are_counted() {
    assert_eq!(ends_within(b"ACGT", b"TTACGTTT", 0), 1);
    assert_eq!(ends_within(b"ACGT", b"AGGT", 1), 1);
    assert_eq!(ends_within(b"ACGT", b"ACG", 1), 1);
    assert_eq!(ends_within(b"ACGT", b"CCCC", 1), 0);
}
