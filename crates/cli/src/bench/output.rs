//! What every benchmark prints: a header block about the system, tables, and on request CSV, JSON, plots and a page.

mod bench_table;
mod plot;
mod result_page;
mod system_facts;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

pub(super) use bench_table::{BenchTable, TableValue};
pub(super) use plot::{Plot, PlotPoint, PlotScale, PlotSeries, PlotStyle};
pub(super) use system_facts::system_facts;

use crate::standard_output;

/// Options of all benchmarks.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArguments {
    /// Write all figures as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the header block and all figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the plots: <PREFIX>-<NAME>.svg
    #[arg(long, value_name = "PREFIX")]
    svg: Option<String>,
    /// Write one page with the header block, the tables and the plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The result of a benchmark.
#[derive(Debug, Default)]
pub(super) struct BenchResult {
    pub(super) title: String,
    /// The header block: what the figures depend on.
    pub(super) facts: Vec<(String, String)>,
    /// All figures.
    pub(super) figures: BenchTable,
    /// The tables to be read, if they are not that of all figures.
    pub(super) tables: Vec<BenchTable>,
    /// Sentences below the tables.
    pub(super) notes: Vec<String>,
    pub(super) plots: Vec<Plot>,
    /// Other plots: names and SVG.
    pub(super) drawings: Vec<(String, String)>,
}

impl BenchResult {
    /// Prints the result, and writes the files that were asked for.
    pub(super) fn publish(&self, arguments: &OutputArguments) -> Result<()> {
        standard_output::print(&self.text())?;
        let write = |path: &Option<PathBuf>, contents: &dyn Fn() -> String| -> Result<()> {
            let Some(path) = path else { return Ok(()) };
            std::fs::write(path, contents()).with_context(|| format!("writing {}", path.display()))
        };
        write(&arguments.csv, &|| self.figures.csv())?;
        write(&arguments.json, &|| format!("{:#}\n", self.json()))?;
        write(&arguments.html, &|| result_page::page(self))?;
        let Some(prefix) = &arguments.svg else { return Ok(()) };
        for (name, svg) in self.all_drawings() {
            write(&Some(PathBuf::from(format!("{prefix}-{name}.svg"))), &|| svg.clone())?;
        }
        Ok(())
    }

    /// All plots: names and SVG.
    fn all_drawings(&self) -> Vec<(String, String)> {
        let plots = self.plots.iter().map(|plot| (plot.name.clone(), plot.svg()));
        plots.chain(self.drawings.iter().cloned()).collect()
    }

    /// The tables to be read.
    fn shown_tables(&self) -> &[BenchTable] {
        if self.tables.is_empty() { std::slice::from_ref(&self.figures) } else { &self.tables }
    }

    fn text(&self) -> String {
        let width = self.facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let mut text = format!("{}\n", self.title);
        self.facts.iter().for_each(|(name, value)| _ = writeln!(text, "  {name:width$}  {value}"));
        self.shown_tables().iter().for_each(|table| _ = write!(text, "\n{}", table.text()));
        if !self.notes.is_empty() {
            text.push('\n');
        }
        self.notes.iter().for_each(|note| _ = writeln!(text, "{note}"));
        text
    }

    fn json(&self) -> Value {
        let facts: serde_json::Map<String, Value> =
            self.facts.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({"benchmark": self.title, "system": facts, "figures": self.figures.json(), "notes": self.notes})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_printed_as_before() {
        let mut figures = BenchTable::new("", &["pattern", "bytes/rank", "aqueduct MB/s", "mpi MB/s"]);
        figures.add(vec!["tiles".into(), TableValue::Count(65536), 1234.0.into(), 567.8.into()]);
        figures.add(vec!["blocks".into(), TableValue::Count(1 << 20), 45.67.into(), TableValue::Missing]);
        let points = [(1024.0, 10.0), (2048.0, 19.0), (4096.0, 35.0)];
        let points = points.map(|(x, middle)| PlotPoint { x, low: middle * 0.9, middle, high: middle * 1.1 });
        let plot = Plot {
            name: "write".to_owned(),
            title: "write".to_owned(),
            x_label: "bytes of each rank".to_owned(),
            y_label: "MB/s".to_owned(),
            scale: PlotScale::Bytes,
            style: PlotStyle::Lines,
            series: vec![PlotSeries { label: "aqueduct".to_owned(), points: points.to_vec() }],
            limits: vec![("limit of the device".to_owned(), 80.0)],
        };
        let facts = [("kernel", "Linux 6.1.0"), ("hints", "none")];
        let result = BenchResult {
            title: "Access patterns on 4 ranks".to_owned(),
            facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            figures,
            notes: vec!["2 cases verified".to_owned()],
            plots: vec![plot],
            ..BenchResult::default()
        };
        insta::assert_snapshot!(result.text());
        insta::assert_snapshot!(format!("{:#}", result.json()));
        insta::assert_snapshot!(result_page::page(&result));
    }
}
