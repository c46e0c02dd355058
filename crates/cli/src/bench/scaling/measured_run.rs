//! Measured runs: the times that programs write, and their table.

use anyhow::{Context, Result};

use super::amdahl;
use crate::bench::output::{BenchTable, TableValue};

/// The times of a run in seconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MeasuredRun {
    pub(super) way: String,
    pub(super) ranks: u64,
    pub(super) compute: f64,
    /// Writing and reading, and the messages for that.
    pub(super) io: f64,
    pub(super) total: f64,
    pub(super) bytes: u64,
}

impl MeasuredRun {
    /// Reads a line of JSON. A program names its ways itself if it has only one.
    pub(super) fn parse(line: &str, way: &str) -> Result<Self> {
        let line: serde_json::Value = serde_json::from_str(line).context("not a line of JSON")?;
        let number = |key: &str| line[key].as_f64().with_context(|| format!("no number {key:?}"));
        let named = line["output"].as_str().unwrap_or("run");
        Ok(Self {
            way: if way.is_empty() { named } else { way }.to_owned(),
            ranks: number("ranks")? as u64,
            compute: number("compute")?,
            io: number("io")? + number("talk")?,
            total: number("total")?,
            bytes: number("bytes")? as u64,
        })
    }
}

/// The runs of all ways and numbers of ranks.
#[derive(Debug, Default)]
pub(super) struct Measurements {
    runs: Vec<MeasuredRun>,
}

impl Measurements {
    pub(super) fn add(&mut self, run: MeasuredRun) {
        self.runs.push(run);
    }

    /// The fastest run of each number of ranks of a way; an empty way is any.
    pub(super) fn best(&self, way: &str) -> Vec<&MeasuredRun> {
        let mut best: Vec<&MeasuredRun> = Vec::new();
        for run in self.runs.iter().filter(|run| way.is_empty() || run.way == way) {
            match best.iter_mut().find(|known| known.ranks == run.ranks) {
                Some(known) if run.total < known.total => *known = run,
                Some(_) => {}
                None => best.push(run),
            }
        }
        best.sort_by_key(|run| run.ranks);
        best
    }

    /// Speed-ups of a way against its run on the fewest ranks, which counts as that number.
    pub(super) fn speedups(&self, way: &str) -> Vec<(u64, f64)> {
        let best = self.best(way);
        let Some(first) = best.first() else { return Vec::new() };
        let reference = first.total * first.ranks as f64;
        best.iter().map(|run| (run.ranks, reference / run.total)).collect()
    }

    /// The table of the fastest runs.
    pub(super) fn table(&self, ways: &[String]) -> BenchTable {
        let columns = ["way", "ranks", "total s", "compute s", "I/O s", "speed-up", "efficiency %", "MB/s"];
        let mut table = BenchTable::new("fastest runs", &columns);
        for way in ways {
            let speedups = self.speedups(way);
            for (run, (ranks, speedup)) in self.best(way).iter().zip(&speedups) {
                table.add(vec![
                    run.way.as_str().into(),
                    TableValue::Count(*ranks),
                    run.total.into(),
                    run.compute.into(),
                    run.io.into(),
                    (*speedup).into(),
                    (100.0 * speedup / *ranks as f64).into(),
                    (run.bytes as f64 / run.io.max(1e-9) / 1e6).into(),
                ]);
            }
        }
        table
    }

    /// A sentence about the serial part of each way.
    pub(super) fn serial_parts(&self, ways: &[String]) -> Vec<String> {
        let sentence = |way: &String| {
            let alpha = amdahl::serial_part(&self.speedups(way))?;
            let name = self.best(way).first().map_or("", |run| run.way.as_str());
            Some(format!("{name}: serial part after Amdahl: {alpha:.3}"))
        };
        ways.iter().filter_map(sentence).collect()
    }

    /// All runs.
    pub(super) fn figures(&self) -> BenchTable {
        let mut table = BenchTable::new("", &["way", "ranks", "total", "compute", "io", "bytes"]);
        for run in &self.runs {
            table.add(vec![
                run.way.as_str().into(),
                TableValue::Count(run.ranks),
                run.total.into(),
                run.compute.into(),
                run.io.into(),
                TableValue::Count(run.bytes),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ranks: u64, total: f64) -> String {
        format!(
            r#"{{"program":"sph","ranks":{ranks},"output":"own","compute":0.5,"io":0.25,"talk":0.25,"total":{total},"bytes":1000000}}"#
        )
    }

    #[test]
    fn the_fastest_runs_give_the_speedup() {
        let mut measurements = Measurements::default();
        for (ranks, total) in [(1, 9.0), (1, 8.0), (4, 4.0), (2, 4.0), (4, 2.5)] {
            measurements.add(MeasuredRun::parse(&line(ranks, total), "").unwrap());
        }
        assert_eq!(measurements.speedups("own"), [(1, 1.0), (2, 2.0), (4, 3.2)]);
        let ways = ["own".to_owned()];
        let table = measurements.table(&ways);
        assert_eq!((table.rows.len(), &table.rows[2][6]), (3, &TableValue::Figure(80.0)), "{table:?}");
        assert_eq!((measurements.figures().rows.len(), measurements.serial_parts(&ways).len()), (5, 1));
    }

    #[test]
    fn lines_without_times_are_errors() {
        for bad in ["", "{}", "[1]", r#"{"ranks":2,"compute":1}"#] {
            assert!(MeasuredRun::parse(bad, "x").is_err(), "{bad}");
        }
    }
}
