//! The page: one HTML file with its style, its program and its data, which loads nothing.

use aqueduct::file::trace::{CallPhase, CallRecord, FileExtent};
use serde_json::{Value, json};

use super::file_map::FileMap;
use super::run_summary::{Progress, RunSummary};
use super::timeline::{Timeline, TimelineCall};
use super::{RunReport, bytes, percent, seconds};

const STYLE: &str = include_str!("page.css");
const PROGRAM: &str = include_str!("page.js");

pub(super) fn page(runs: &[RunReport]) -> String {
    let data: Vec<Value> = runs.iter().map(run).collect();
    // "</" would end the element of the data.
    let data = Value::from(data).to_string().replace("</", "<\\/");
    let title = escape(&runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(" and "));
    let body = runs.iter().enumerate().map(|(at, run)| section(at, run)).collect::<String>();
    let class = if runs.len() > 1 { "two" } else { "one" };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>I/O of {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main class=\"{class}\">\n{body}</main>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{PROGRAM}</script>\n</body>\n</html>\n"
    )
}

/// The parts that are text: they are there without the program of the page.
fn section(at: usize, run: &RunReport) -> String {
    let summary = &run.summary;
    let advice = run
        .advice
        .iter()
        .map(|advice| {
            let (title, text) = (escape(&advice.title), escape(&advice.text));
            format!("<li data-code=\"{}\"><h3>{title}</h3><p>{text}</p></li>\n", advice.code)
        })
        .collect::<Vec<_>>()
        .concat();
    let mut facts = vec![
        ("Program", escape(&summary.program)),
        ("Ranks", format!("{} on {} node(s), {}", summary.ranks, summary.nodes, escape(&summary.transport))),
        ("Run", seconds(summary.seconds())),
        ("Host", escape(&summary.host)),
    ];
    if summary.not_recorded > 0 {
        facts.push(("Not recorded", format!("{} further calls", summary.not_recorded)));
    }
    let facts = facts
        .iter()
        .map(|(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>"))
        .collect::<Vec<_>>()
        .concat();
    let (share, headline) = (percent(summary.share()), escape(&summary.headline()));
    format!(
        "<section class=\"run\" data-run=\"{at}\">\n<header><p class=\"name\">{}</p>\n\
         <h1><span class=\"share\">{share}</span> of the run is I/O</h1>\n<p class=\"headline\">{headline}.</p>\n\
         <dl>{facts}</dl></header>\n<h2>What to change</h2>\n<ol class=\"advice\">\n{advice}</ol>\n\
         <h2>Where the time goes</h2>\n{}\n<div class=\"chart\" data-chart=\"phases\"></div>\n{}\
         <h2>Timeline</h2>\n<div class=\"chart\" data-chart=\"timeline\"></div>\n\
         <h2>Bandwidth</h2>\n<div class=\"chart\" data-chart=\"bandwidth\"></div>\n\
         <h2>Files</h2>\n{}\n<div class=\"chart\" data-chart=\"map\"></div>\n\
         <h2>Sizes of accesses</h2>\n<div class=\"chart\" data-chart=\"sizes\"></div>\n\
         <h2>Strategies: estimate and measurement</h2>\n{}\n<div class=\"chart\" data-chart=\"estimates\"></div>\n\
         <h2 class=\"progress\">Streams and write buffers</h2>\n<div class=\"chart\" data-chart=\"progress\"></div>\n</section>\n",
        escape(&run.name),
        operations_table(summary),
        commits(summary),
        files_table(summary),
        strategies_table(summary),
    )
}

fn table(class: &str, heads: &[&str], rows: &[Vec<String>]) -> String {
    let row = |row: &Vec<String>| format!("<tr><td>{}</td></tr>\n", row.join("</td><td>"));
    let rows = rows.iter().map(row).collect::<Vec<_>>().concat();
    let heads = heads.join("</th><th>");
    format!(
        "<div class=\"wide\"><table class=\"{class}\"><thead><tr><th>{heads}</th></tr></thead>\
         <tbody>{rows}</tbody></table></div>"
    )
}

fn operations_table(summary: &RunSummary) -> String {
    let rows: Vec<Vec<String>> = summary
        .operations
        .iter()
        .map(|(name, totals)| {
            let time = totals.nanoseconds as f64 / 1e9;
            let moved = if totals.bytes > 0 { bytes(totals.bytes as f64) } else { "–".to_owned() };
            vec![
                (*name).to_owned(),
                totals.calls.to_string(),
                moved,
                seconds(time),
                seconds(time / totals.calls as f64),
            ]
        })
        .collect();
    table("operations", &["operation", "calls", "data", "time of all ranks", "mean"], &rows)
}

/// A sentence about the time in commits of streams, which has no phases.
fn commits(summary: &RunSummary) -> String {
    if summary.commits <= 0.0 {
        return String::new();
    }
    format!(
        "<p>Further {} of all ranks are commits of stream steps: copies into buffers, and waiting for room in them.</p>\n",
        seconds(summary.commits)
    )
}

fn files_table(summary: &RunSummary) -> String {
    let row = |(name, calls, read, written): &(String, u64, u64, u64)| {
        vec![escape(name), calls.to_string(), bytes(*read as f64), bytes(*written as f64)]
    };
    let rows: Vec<Vec<String>> = summary.files.iter().take(20).map(row).collect();
    table("files", &["file", "accesses", "read", "written"], &rows)
}

fn strategies_table(summary: &RunSummary) -> String {
    let rows: Vec<Vec<String>> = summary
        .strategies
        .iter()
        .map(|(name, totals)| {
            let ratio = if totals.estimated > 0.0 {
                format!("{:.2}", totals.measured_of_estimated / totals.estimated)
            } else {
                "–".to_owned()
            };
            vec![
                (*name).to_owned(),
                totals.calls.to_string(),
                bytes(totals.bytes as f64),
                seconds(totals.measured),
                totals.estimated_calls.to_string(),
                ratio,
            ]
        })
        .collect();
    let heads =
        ["strategy", "calls", "data", "time without waiting", "with an estimate", "measured / estimated"];
    table("strategies", &heads, &rows)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The summary and the advice, for programs.
pub(super) fn summary(run: &RunReport) -> Value {
    let advice: Vec<Value> = run
        .advice
        .iter()
        .map(|advice| json!({"code": advice.code, "title": advice.title, "text": advice.text, "seconds": advice.seconds}))
        .collect();
    let phases: serde_json::Map<String, Value> = CallPhase::ALL
        .iter()
        .map(|phase| (phase.name().to_owned(), json!(run.summary.phases[*phase as usize])))
        .collect();
    json!({
        "name": run.name,
        "program": run.summary.program,
        "ranks": run.summary.ranks,
        "nodes": run.summary.nodes,
        "began": run.summary.began,
        "seconds": run.summary.seconds(),
        "io_share": run.summary.share(),
        "waiting_seconds": run.summary.waiting,
        "phase_seconds": phases,
        "calls": run.summary.calls,
        "not_recorded": run.summary.not_recorded,
        "advice": advice,
    })
}

fn run(run: &RunReport) -> Value {
    let summary = &run.summary;
    let step = summary.seconds() / super::run_summary::TIME_STEPS as f64;
    json!({
        "name": run.name,
        "seconds": summary.seconds(),
        "phases": CallPhase::ALL.map(CallPhase::name),
        "phaseSeconds": summary.phases,
        "waiting": summary.waiting,
        "strategies": CallRecord::STRATEGIES.map(aqueduct::file::Strategy::name),
        "points": summary.points,
        "bandwidth": {"step": step, "read": rounded(&summary.bandwidth[0]), "written": rounded(&summary.bandwidth[1]),
                      "device": rounded(&summary.bandwidth[2])},
        "sizes": {"read": summary.read_sizes, "written": summary.write_sizes, "device": summary.device_sizes},
        "progress": summary.progress.iter().map(progress).collect::<Vec<_>>(),
        "timeline": timeline(&run.timeline),
        "maps": run.maps.iter().map(map).collect::<Vec<_>>(),
    })
}

fn rounded(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.round() as u64).collect()
}

fn progress(progress: &Progress) -> Value {
    let Progress { name, rank, is_stream, points } = progress;
    json!({"name": name, "rank": rank, "unit": if *is_stream { "steps" } else { "bytes" }, "points": points})
}

fn timeline(timeline: &Timeline) -> Value {
    let micro = |time: f64| (time * 1e6).round() / 1e6;
    let mut files: Vec<&str> = timeline.calls.iter().map(|call| call.file.as_str()).collect();
    files.sort_unstable();
    files.dedup();
    let calls: Vec<Value> = timeline
        .calls
        .iter()
        .map(|call| {
            let TimelineCall { row, start, end, name, bytes, file, phases, rank } = call;
            let file = files.binary_search(&file.as_str()).unwrap_or(0);
            json!([row, micro(*start), micro(*end), name, bytes, file, phases, rank])
        })
        .collect();
    json!({"rows": timeline.rows, "files": files, "calls": calls, "shares": timeline.shares})
}

fn map(map: &FileMap) -> Value {
    let extents = |all: &[(usize, FileExtent)]| -> Vec<Value> {
        all.iter()
            .map(|(rank, e)| json!([rank, e.offset, e.len, e.stride, e.count, e.row_stride, e.rows]))
            .collect()
    };
    json!({"name": map.name, "end": map.end, "omitted": map.omitted, "written": map.is_written,
           "owners": extents(&map.owners), "writers": extents(&map.writers)})
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use aqueduct::file::trace::{RankTrace, TraceFolder, TracedOperation};

    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// A call of a program as bytes of a trace: operation, start and end in milliseconds, waited milliseconds, bytes, sequence.
    fn call(
        (operation, start, end, waited, bytes, sequence): (TracedOperation, u64, u64, u64, u64, u32),
    ) -> Vec<u8> {
        let mut record = vec![0u8; CallRecord::SIZE];
        let mut set = |place: usize, bytes: &[u8]| record[place..][..bytes.len()].copy_from_slice(bytes);
        let mut number = |place: usize, value: u64| set(place, &value.to_le_bytes());
        number(std::mem::offset_of!(CallRecord, start), start * MILLISECOND);
        number(std::mem::offset_of!(CallRecord, end), end * MILLISECOND);
        let phases = std::mem::offset_of!(CallRecord, phases);
        number(phases + 8 * CallPhase::Wait as usize, waited * MILLISECOND);
        number(phases + 8 * CallPhase::Device as usize, (end - start - waited) * MILLISECOND);
        number(std::mem::offset_of!(CallRecord, bytes), bytes);
        number(std::mem::offset_of!(CallRecord, device_bytes), bytes);
        set(std::mem::offset_of!(CallRecord, sequence), &sequence.to_le_bytes());
        set(std::mem::offset_of!(CallRecord, device_calls), &1u32.to_le_bytes());
        // Operation, strategy (direct) and flags (collective) follow the numbers of extents.
        let after = std::mem::offset_of!(CallRecord, device_extents) + 2;
        set(after, &[operation as u8, 1, u8::from(sequence > 0)]);
        record
    }

    /// Ten collective steps; rank 1 comes 40 ms after rank 0.
    fn trace() -> TraceFolder {
        let rank = |rank: u64| {
            let calls = (0..10u64).flat_map(|step| {
                let (start, waited) = if rank == 0 { (100 * step, 40) } else { (100 * step + 40, 0) };
                call((TracedOperation::Write, start, 100 * step + 50, waited, 1 << 20, step as u32 + 1))
            });
            let facts = format!(
                "aqueduct-trace\t2\nrank\t{rank}\t2\t0\nprogram\tsimulate\tinput.cfg\nhost\tnode1\t{}\n\
                 transport\tthreads\nstarted\t0\t0\t0\nfile\t0\tout.bin\tmode=write\n",
                100 + rank
            );
            RankTrace::decode(facts.as_bytes(), &calls.collect::<Vec<u8>>(), &[]).unwrap()
        };
        TraceFolder { ranks: vec![rank(0), rank(1)] }
    }

    #[test]
    fn the_text_of_a_page_is_as_before() {
        let run = super::super::describe("run1", &trace());
        insta::assert_snapshot!(section(0, &run));
        insta::assert_snapshot!(super::super::summary_text(&[run], Path::new("report.html")));
    }
}
