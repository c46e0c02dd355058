//! `wave`: speed against k-Wave for Python and against its own transforms; output in each mode against blocking output, as in the study by Kondula.

mod outputs;
mod speed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::table::FigureTable;
use crate::tools::{root, scratch_folder};

/// Runs the parts that are named, or all: `speed`, `sizes`, `slice`, `boxes`, `points`, `drain`, `buffers`, `group`, `checkpoint`; `--quick` uses a
/// smaller grid and one round, `--large` a grid of 256³.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let wants = |part: &str| words.iter().all(|word| word.starts_with('-')) || words.contains(&part);
    let scratch = scratch_folder()?;
    let quick = words.contains(&"--quick");
    let side = match (quick, words.contains(&"--large")) {
        (true, _) => 64,
        (false, false) => 128,
        (false, true) => 256,
    };
    let bench = WaveBench { folder: scratch.path(), rounds: if quick { 1 } else { 3 }, side };
    let mut table = FigureTable::default();
    if wants("speed") {
        bench.speed(&mut table, quick)?;
    }
    let parts: [(&str, WavePart); 8] = [
        ("sizes", |bench, table| bench.sizes(table)),
        ("slice", |bench, table| bench.slice(table)),
        ("boxes", |bench, table| bench.boxes(table)),
        ("points", |bench, table| bench.points(table)),
        ("drain", |bench, table| bench.drain(table)),
        ("buffers", |bench, table| bench.buffers(table)),
        ("group", |bench, table| bench.group(table)),
        ("checkpoint", |bench, table| bench.checkpoint(table)),
    ];
    for (_, part) in parts.into_iter().filter(|(name, _)| wants(name)) {
        part(&bench, &mut table)?;
    }
    table.finish();
    Ok(())
}

/// A part of the benchmark.
type WavePart = fn(&WaveBench<'_>, &mut FigureTable) -> Result<()>;

struct WaveBench<'a> {
    folder: &'a Path,
    rounds: usize,
    /// Points of the grid per direction.
    side: usize,
}

/// What a run reports.
#[derive(Clone, Copy, Debug)]
struct WaveRun {
    /// Steps, and the end of the output.
    seconds: f64,
    stepping: f64,
    /// In calls of the output, and in checkpoints.
    output: f64,
    checkpoints: f64,
    steps: f64,
}

impl WaveRun {
    fn step(self) -> f64 {
        self.stepping / self.steps
    }

    /// Steps without output and checkpoints.
    fn computing(self) -> f64 {
        self.stepping - self.output - self.checkpoints
    }
}

impl WaveBench<'_> {
    /// Runs `wave` on this number of ranks.
    fn wave(&self, ranks: usize, words: &[&str]) -> Result<WaveRun> {
        let report = self.folder.join("report.json");
        let mut command = Command::new(root().join("target/release/wave"));
        command.args(["--verbose", "0", "-n", &ranks.to_string(), "--report"]).arg(&report).args(words);
        // Files that are compared state the same date and times.
        command.env("AQUEDUCT_MPI", "none").env("SOURCE_DATE_EPOCH", "1");
        let output = command.output().context("starting wave")?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(&report)?;
        let number = |key: &str| {
            let found = text.split_once(&format!("\"{key}\":")).map(|(_, rest)| rest.trim_start());
            let end = |rest: &str| rest.find([',', '\n', '}']).map(|end| rest[..end].to_owned());
            found.and_then(end).and_then(|value| value.parse::<f64>().ok())
        };
        let number = |key: &str| number(key).with_context(|| format!("the report has no {key}: {text}"));
        let (stepping, storing) = (number("stepping")?, number("storing")?);
        Ok(WaveRun {
            seconds: stepping + storing,
            stepping,
            output: number("output")?,
            checkpoints: number("checkpoints")?,
            steps: number("steps_made")?,
        })
    }

    /// The words of a simulation of the bench's grid.
    fn ball<'w>(grid: &'w str, steps: &'w str, sensor: &'w str) -> Vec<&'w str> {
        vec!["--scenario", "ball", "--grid", grid, "--steps", steps, "--sensor", sensor]
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
