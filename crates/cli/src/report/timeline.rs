//! The timeline of the ranks: every call if there are few, else the share of each phase in steps of time.

use aqueduct::file::trace::{CallRecord, TraceFolder, TracedOperation};

use super::run_summary::RunSummary;

/// Calls that are shown one by one.
const MOST_CALLS: usize = 20_000;
/// Steps of time, if there are more.
const STEPS: usize = 1200;
/// Rows of the timeline: with more ranks several share a row.
const MOST_ROWS: usize = 128;

pub(crate) struct Timeline {
    /// Ranks in each row.
    pub(crate) rows: Vec<String>,
    /// All calls, if they are few.
    pub(crate) calls: Vec<TimelineCall>,
    /// Per row and step of time: the share of each phase, from 0 to 255; empty if all calls are shown.
    pub(crate) shares: Vec<Vec<[u8; 5]>>,
}

/// A call on the timeline; times in seconds.
pub(crate) struct TimelineCall {
    pub(crate) row: usize,
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    pub(crate) file: String,
    /// Nanoseconds of each phase.
    pub(crate) phases: [u64; 5],
    pub(crate) rank: usize,
}

impl Timeline {
    pub(super) fn new(trace: &TraceFolder, summary: &RunSummary) -> Self {
        let per_row = trace.ranks.len().div_ceil(MOST_ROWS);
        let rows: Vec<String> = trace
            .ranks
            .chunks(per_row)
            .map(|ranks| match ranks {
                [one] => format!("{}", one.rank),
                several => format!("{}–{}", several[0].rank, several[several.len() - 1].rank),
            })
            .collect();
        let total: usize = trace.ranks.iter().map(|rank| rank.calls.len()).sum();
        if total > MOST_CALLS || per_row > 1 {
            let shares = shares(trace, summary, per_row);
            return Self { rows, calls: Vec::new(), shares };
        }
        let seconds = |time: u64| time.saturating_sub(summary.start) as f64 / 1e9;
        let mut calls = Vec::with_capacity(total);
        for (row, rank) in trace.ranks.iter().enumerate() {
            for call in &rank.calls {
                let name = call.operation().map_or("", TracedOperation::name);
                let file = rank.files.get(call.file as usize).map_or(String::new(), |file| file.name.clone());
                let (start, end) = (seconds(call.start), seconds(call.end));
                let (bytes, phases) = (call.bytes, call.phases);
                calls.push(TimelineCall { row, start, end, name, bytes, file, phases, rank: rank.rank });
            }
        }
        Self { rows, calls, shares: Vec::new() }
    }
}

/// The share of each phase in each step of time, by row.
fn shares(trace: &TraceFolder, summary: &RunSummary, per_row: usize) -> Vec<Vec<[u8; 5]>> {
    let step = ((summary.end - summary.start) as f64 / STEPS as f64).max(1.0);
    let of_row = |ranks: &[aqueduct::file::trace::RankTrace]| {
        let mut sums = vec![[0.0; 5]; STEPS];
        for call in ranks.iter().flat_map(|rank| &rank.calls) {
            add_call(&mut sums, call, summary.start, step);
        }
        let full = step * ranks.len() as f64;
        let share = |nanoseconds: f64| (nanoseconds / full * 255.0).ceil().min(255.0) as u8;
        sums.into_iter().map(|phases| phases.map(share)).collect()
    };
    trace.ranks.chunks(per_row).map(of_row).collect()
}

fn add_call(sums: &mut [[f64; 5]], call: &CallRecord, origin: u64, step: f64) {
    let at = |time: u64| time.saturating_sub(origin) as f64 / step;
    let (from, to) = (at(call.start), at(call.end));
    let length = (to - from).max(1e-9);
    for index in from as usize..(to.ceil() as usize).max(from as usize + 1).min(sums.len()) {
        let inside = (to.min(index as f64 + 1.0) - from.max(index as f64)).max(0.0) / length;
        for (sum, nanoseconds) in sums[index].iter_mut().zip(call.phases) {
            *sum += nanoseconds as f64 * inside;
        }
    }
}
