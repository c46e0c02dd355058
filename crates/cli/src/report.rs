//! `aqueduct report`: a page about the I/O of a run, from its trace.

mod advice;
mod call_groups;
mod export;
mod file_map;
mod page;
mod run_summary;
mod timeline;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use aqueduct::file::trace::TraceFolder;

use crate::standard_output;
use run_summary::RunSummary;

#[derive(clap::Args)]
pub(crate) struct ReportArguments {
    /// Folders that `AQUEDUCT_TRACE` named: one run, or two to be compared
    #[arg(required = true, num_args = 1..=2, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The page to be written [default: report.html in the first folder]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the calls of all runs in the JSON format of <https://ui.perfetto.dev> too
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write the calls of all runs as CSV too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print the summary and the advice as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &ReportArguments) -> Result<ExitCode> {
    let mut traces = Vec::new();
    for folder in &arguments.folders {
        let trace = TraceFolder::read(folder)?;
        ensure!(
            trace.ranks.iter().any(|rank| !rank.calls.is_empty()),
            "{} has no recorded calls",
            folder.display()
        );
        traces.push((folder.display().to_string(), trace));
    }
    write(arguments.perfetto.as_deref(), || export::perfetto(&traces))?;
    write(arguments.csv.as_deref(), || export::csv(&traces))?;
    let runs: Vec<RunReport> = traces.iter().map(|(name, trace)| describe(name, trace)).collect();
    let output = arguments.output.clone().unwrap_or_else(|| arguments.folders[0].join("report.html"));
    write(Some(&output), || page::page(&runs))?;
    let text = if arguments.json { summary_json(&runs)? } else { summary_text(&runs, &output) };
    standard_output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Everything that the page shows of a run.
pub(crate) struct RunReport {
    pub(crate) name: String,
    pub(crate) summary: RunSummary,
    pub(crate) advice: Vec<advice::Advice>,
    pub(crate) timeline: timeline::Timeline,
    pub(crate) maps: Vec<file_map::FileMap>,
}

fn describe(name: &str, trace: &TraceFolder) -> RunReport {
    let groups = call_groups::CallGroups::new(trace);
    let summary = RunSummary::new(trace, &groups);
    RunReport {
        name: name.to_owned(),
        advice: advice::advice(trace, &groups, &summary),
        timeline: timeline::Timeline::new(trace, &summary),
        maps: file_map::file_maps(trace),
        summary,
    }
}

/// Writes the page of some traces, and returns what it shows.
pub(crate) fn write_page(folders: &[PathBuf], output: &Path) -> Result<Vec<RunReport>> {
    let describe =
        |folder: &PathBuf| Ok(describe(&folder.display().to_string(), &TraceFolder::read(folder)?));
    let runs = folders.iter().map(describe).collect::<Result<Vec<_>>>()?;
    write(Some(output), || page::page(&runs))?;
    Ok(runs)
}

/// Removes the trace of an earlier run.
pub(crate) fn remove_trace(folder: &Path) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    let is_trace = |path: &PathBuf| {
        let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("rank-") && ["facts", "calls", "extents"].contains(&suffix)
    };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_trace) {
        std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}

fn write(path: Option<&Path>, contents: impl FnOnce() -> String) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, contents()).with_context(|| format!("writing {}", path.display()))
}

fn summary_json(runs: &[RunReport]) -> Result<String> {
    let runs: Vec<serde_json::Value> = runs.iter().map(page::summary).collect();
    Ok(serde_json::to_string_pretty(&runs)? + "\n")
}

fn summary_text(runs: &[RunReport], output: &Path) -> String {
    let mut lines = Vec::new();
    for run in runs {
        lines.push(format!("{}: {}", run.name, run.summary.headline()));
        lines.extend(run.advice.iter().map(|advice| format!("  {}: {}", advice.title, advice.text)));
    }
    lines.push(format!("{}\n", output.display()));
    lines.join("\n")
}

/// A number of bytes in decimal units.
pub(crate) fn bytes(count: f64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let mut value = count;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 99.95);
    format!("{value:.digits$} {}", units[unit])
}

/// A number of seconds.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        value if value >= 0.9995 => format!("{value:.2} s"),
        value if value >= 0.9995e-3 => format!("{:.1} ms", value * 1e3),
        value => format!("{:.0} µs", value * 1e6),
    }
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 9.95 || percent == 0.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units() {
        assert_eq!(
            (bytes(999.0), bytes(1000.0), bytes(1.9e9)),
            ("999 bytes".into(), "1.0 kB".into(), "1.9 GB".into())
        );
        assert_eq!(
            (seconds(2.0), seconds(0.0123), seconds(4e-6)),
            ("2.00 s".into(), "12.3 ms".into(), "4 µs".into())
        );
        assert_eq!(
            (percent(0.5), percent(0.012), percent(0.0)),
            ("50 %".into(), "1.2 %".into(), "0 %".into())
        );
    }
}
