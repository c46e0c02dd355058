//! The numbers of a run.

use std::collections::BTreeMap;

use aqueduct::file::Strategy;
use aqueduct::file::trace::{CallPhase, CallRecord, RankTrace, TraceFolder, TracedOperation};

use super::call_groups::CallGroups;
use super::{bytes, percent, seconds};

/// Time steps of the plots of bandwidth, progress and memory.
pub(super) const TIME_STEPS: usize = 300;
/// Points of the plot of estimates.
const MOST_POINTS: usize = 2000;

/// Streams and buffered files whose progress is shown.
const MOST_PROGRESS_PLOTS: usize = 4;

/// What the ranks did with one operation.
#[derive(Clone, Copy, Default)]
pub(crate) struct OperationTotals {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    pub(crate) nanoseconds: u64,
}

/// How a strategy did.
#[derive(Clone, Copy, Default)]
pub(crate) struct StrategyTotals {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    pub(crate) measured: f64,
    /// Calls with an estimate, their measured time and their estimate.
    pub(crate) estimated_calls: u64,
    pub(crate) measured_of_estimated: f64,
    pub(crate) estimated: f64,
}

/// Sizes of accesses: how many were at least 2^k bytes and less than 2^(k+1).
pub(crate) type SizeHistogram = BTreeMap<u32, u64>;

#[derive(Default)]
pub(crate) struct RunSummary {
    pub(crate) program: String,
    pub(crate) host: String,
    pub(crate) transport: String,
    pub(crate) ranks: usize,
    pub(crate) nodes: usize,
    /// Nanoseconds since 1970.
    pub(crate) began: u64,
    /// On the clock of the calls.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Seconds in which the program waited for I/O, by rank.
    pub(crate) waiting: Vec<f64>,
    /// Seconds of all ranks in each phase of calls to files.
    pub(crate) phases: [f64; 5],
    /// Seconds of all ranks in commits of stream steps, without the calls to files in them.
    pub(crate) commits: f64,
    pub(crate) operations: BTreeMap<&'static str, OperationTotals>,
    pub(crate) strategies: BTreeMap<&'static str, StrategyTotals>,
    pub(crate) read_sizes: SizeHistogram,
    pub(crate) write_sizes: SizeHistogram,
    pub(crate) device_sizes: SizeHistogram,
    /// Bytes per time step: read and written by the program, accessed on the device.
    pub(crate) bandwidth: [Vec<f64>; 3],
    /// Estimated and measured seconds, and the index of the strategy.
    pub(crate) points: Vec<(f32, f32, u8)>,
    pub(crate) files: Vec<(String, u64, u64, u64)>,
    pub(crate) not_recorded: u64,
    pub(crate) calls: u64,
    /// Progress of streams and buffers of a rank: name, unit, points of time, accepted, visible, durable, memory, limit.
    pub(crate) progress: Vec<Progress>,
}

/// Accepted, visible and durable data over time.
pub(crate) struct Progress {
    pub(crate) name: String,
    pub(crate) rank: usize,
    pub(crate) is_stream: bool,
    pub(crate) points: Vec<(f64, [u64; 3], [u64; 2])>,
}

impl Progress {
    /// The largest amount that was accepted and not durable at a time.
    fn largest_lag(&self) -> u64 {
        let lags = self.points.iter().map(|(_, [accepted, _, durable], _)| accepted.saturating_sub(*durable));
        lags.max().unwrap_or(0)
    }
}

impl RunSummary {
    pub(super) fn new(trace: &TraceFolder, groups: &CallGroups<'_>) -> Self {
        let first = &trace.ranks[0];
        let all = || trace.ranks.iter().flat_map(|rank| &rank.calls);
        let began =
            |rank: &RankTrace| if rank.process_started > 0 { rank.process_started } else { rank.began_at };
        let start = trace.ranks.iter().map(began).chain(all().map(|call| call.start)).min().unwrap_or(0);
        let end = all().map(|call| call.end).max().unwrap_or(start).max(start + 1);
        let mut nodes: Vec<usize> = trace.ranks.iter().map(|rank| rank.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut summary = Self {
            program: first.program.join(" "),
            host: first.host.clone(),
            transport: first.transport.clone(),
            ranks: trace.ranks.len(),
            nodes: nodes.len(),
            began: first.began.saturating_sub(first.began_at.saturating_sub(start)),
            start,
            end,
            waiting: trace.ranks.iter().map(|rank| union(rank) as f64 / 1e9).collect(),
            bandwidth: std::array::from_fn(|_| vec![0.0; TIME_STEPS]),
            not_recorded: trace.ranks.iter().map(|rank| rank.not_recorded).sum(),
            ..Self::default()
        };
        all().for_each(|call| summary.take(call));
        let without_commits: u64 = trace.ranks.iter().map(union_without_commits).sum();
        summary.commits = (summary.waiting.iter().sum::<f64>() - without_commits as f64 / 1e9).max(0.0);
        summary.points = points(trace);
        summary.files = files(groups);
        summary.progress = progress(trace, start);
        summary
    }

    /// Seconds from the start of the first process to the end of the last call.
    pub(crate) fn seconds(&self) -> f64 {
        (self.end - self.start) as f64 / 1e9
    }

    /// The share of the run in which the program waited for I/O: the mean of all ranks.
    pub(crate) fn share(&self) -> f64 {
        let mean = self.waiting.iter().sum::<f64>() / self.waiting.len().max(1) as f64;
        (mean / self.seconds()).min(1.0)
    }

    pub(crate) fn bytes_of(&self, operation: TracedOperation) -> u64 {
        self.operations.get(operation.name()).map_or(0, |totals| totals.bytes)
    }

    pub(crate) fn headline(&self) -> String {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        format!(
            "I/O took {} of the run of {} on {} rank{}: {} written, {} read in {} calls",
            percent(self.share()),
            seconds(self.seconds()),
            self.ranks,
            plural(self.ranks),
            bytes(self.bytes_of(TracedOperation::Write) as f64),
            bytes(self.bytes_of(TracedOperation::Read) as f64),
            self.calls
        )
    }

    fn take(&mut self, call: &CallRecord) {
        let Some(operation) = call.operation() else { return };
        self.calls += 1;
        let totals = self.operations.entry(operation.name()).or_default();
        totals.calls += 1;
        totals.bytes += call.bytes;
        totals.nanoseconds = totals.nanoseconds.saturating_add(call.duration());
        if operation != TracedOperation::StreamStep && !call.is_background() {
            for (sum, nanoseconds) in self.phases.iter_mut().zip(call.phases) {
                *sum += nanoseconds as f64 / 1e9;
            }
        }
        let log = |size: u64| size.max(1).ilog2();
        match operation {
            TracedOperation::Read => *self.read_sizes.entry(log(call.bytes)).or_default() += 1,
            TracedOperation::Write => *self.write_sizes.entry(log(call.bytes)).or_default() += 1,
            _ => {}
        }
        if call.device_calls > 0 {
            let each = call.device_bytes / u64::from(call.device_calls);
            *self.device_sizes.entry(log(each)).or_default() += u64::from(call.device_calls);
        }
        let which = match operation {
            TracedOperation::Read => Some(0),
            TracedOperation::Write => Some(1),
            _ => None,
        };
        if let Some(which) = which {
            self.spread(which, call, call.bytes);
        }
        self.spread(2, call, call.device_bytes);
        self.take_strategy(call);
    }

    fn take_strategy(&mut self, call: &CallRecord) {
        let Some(strategy) = call.strategy() else { return };
        let (estimated, measured, _) = times(call, strategy);
        let totals = self.strategies.entry(strategy.name()).or_default();
        totals.calls += 1;
        totals.bytes += call.bytes;
        totals.measured += measured;
        if estimated > 0.0 {
            totals.estimated_calls += 1;
            totals.measured_of_estimated += measured;
            totals.estimated += estimated;
        }
    }

    /// Adds bytes to the time steps of a call.
    fn spread(&mut self, which: usize, call: &CallRecord, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let step = (self.end - self.start) as f64 / TIME_STEPS as f64;
        let at = |time: u64| time.saturating_sub(self.start) as f64 / step;
        let (from, to) = (at(call.start), at(call.end).max(at(call.start) + 1e-9));
        let last = (to.ceil() as usize).min(TIME_STEPS);
        for index in (from as usize).min(TIME_STEPS - 1)..last.max(from as usize + 1).min(TIME_STEPS) {
            let inside = (to.min(index as f64 + 1.0) - from.max(index as f64)).max(0.0);
            self.bandwidth[which][index] += bytes as f64 * inside / (to - from);
        }
    }
}

/// The estimated and the measured seconds of an access, without the wait for other ranks to arrive, and the index of the strategy.
fn times(call: &CallRecord, strategy: Strategy) -> (f64, f64, u8) {
    let waited = call.phases[CallPhase::Wait as usize].min(call.duration());
    let at = CallRecord::STRATEGIES.iter().position(|known| *known == strategy).unwrap_or(0);
    (f64::from(call.estimates[at]) / 1e9, (call.duration() - waited) as f64 / 1e9, at as u8)
}

/// The points of the plot of estimates: of each rank as many, evenly spaced over its calls.
fn points(trace: &TraceFolder) -> Vec<(f32, f32, u8)> {
    let of_rank = (MOST_POINTS / trace.ranks.len().max(1)).max(1);
    let mut all = Vec::new();
    for rank in &trace.ranks {
        let estimated: Vec<(f64, f64, u8)> = rank
            .calls
            .iter()
            .filter_map(|call| Some(times(call, call.strategy()?)))
            .filter(|(estimated, ..)| *estimated > 0.0)
            .collect();
        let every = estimated.len().div_ceil(of_rank).max(1);
        all.extend(
            estimated.iter().step_by(every).map(|(estimate, time, at)| (*estimate as f32, *time as f32, *at)),
        );
    }
    all
}

/// Nanoseconds in which at least one call of the program, not of a background thread, was in progress.
pub(super) fn union(rank: &RankTrace) -> u64 {
    union_of(rank, |_| true)
}

/// The same without commits of stream steps.
fn union_without_commits(rank: &RankTrace) -> u64 {
    union_of(rank, |call| call.operation() != Some(TracedOperation::StreamStep))
}

fn union_of(rank: &RankTrace, is_wanted: impl Fn(&CallRecord) -> bool) -> u64 {
    let mut intervals: Vec<(u64, u64)> = rank
        .calls
        .iter()
        .filter(|call| !call.is_background() && !is_background_work(call) && is_wanted(call))
        .map(|call| (call.start, call.end))
        .collect();
    intervals.sort_unstable();
    let (mut total, mut until) = (0, 0);
    for (start, end) in intervals {
        total = end.saturating_sub(start.max(until)).saturating_add(total);
        until = until.max(end);
    }
    total
}

fn is_background_work(call: &CallRecord) -> bool {
    matches!(call.operation(), Some(TracedOperation::BackgroundRead | TracedOperation::BackgroundWrite))
}

/// Name, calls, bytes read and bytes written of each file, most bytes first.
fn files(groups: &CallGroups<'_>) -> Vec<(String, u64, u64, u64)> {
    let mut files: Vec<(String, u64, u64, u64)> = groups
        .files
        .iter()
        .map(|(name, calls)| {
            let accesses = calls.independent.iter().chain(calls.collective.values().flatten());
            let (mut count, mut sums) = (0, [0; 2]);
            for access in accesses {
                count += 1;
                sums[usize::from(access.call.operation() == Some(TracedOperation::Write))] +=
                    access.call.bytes;
            }
            ((*name).to_owned(), count, sums[0], sums[1])
        })
        .collect();
    files.sort_by_key(|(_, _, read, written)| std::cmp::Reverse(read + written));
    files
}

/// The progress of streams and buffered files: of each, that of the rank whose data was the most behind.
fn progress(trace: &TraceFolder, start: u64) -> Vec<Progress> {
    let mut found: BTreeMap<(usize, u32), Progress> = BTreeMap::new();
    for rank in &trace.ranks {
        for call in rank.calls.iter().filter(|call| call.accepted > 0) {
            let Some(file) = rank.files.get(call.file as usize) else { continue };
            let progress = found.entry((rank.rank, call.file)).or_insert_with(|| Progress {
                name: file.name.clone(),
                rank: rank.rank,
                is_stream: file.fact("kind") == Some("stream"),
                points: Vec::new(),
            });
            let time = call.end.saturating_sub(start) as f64 / 1e9;
            progress.points.push((time, [call.accepted, call.visible, call.durable], call.memory));
        }
    }
    let mut all: Vec<Progress> = found.into_values().filter(|progress| progress.points.len() > 1).collect();
    all.sort_by(|one, other| {
        one.name
            .cmp(&other.name)
            .then(other.largest_lag().cmp(&one.largest_lag()))
            .then(one.rank.cmp(&other.rank))
    });
    all.dedup_by(|next, kept| next.name == kept.name);
    all.sort_by_key(|progress| std::cmp::Reverse(progress.points.len()));
    all.truncate(MOST_PROGRESS_PLOTS);
    for progress in &mut all {
        let every = progress.points.len().div_ceil(TIME_STEPS);
        let last = progress.points.last().copied();
        progress.points = progress.points.iter().copied().step_by(every.max(1)).chain(last).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rank with reads by data sieving whose estimates are 1, 2, … ns.
    fn rank(number: usize, calls: u32) -> RankTrace {
        let mut records = Vec::new();
        for at in 0..calls {
            let mut record = vec![0u8; CallRecord::SIZE];
            let mut set = |place: usize, bytes: &[u8]| record[place..][..bytes.len()].copy_from_slice(bytes);
            set(std::mem::offset_of!(CallRecord, start), &u64::from(at * 10).to_le_bytes());
            set(std::mem::offset_of!(CallRecord, end), &u64::from(at * 10 + 5).to_le_bytes());
            set(std::mem::offset_of!(CallRecord, estimates) + 2 * 4, &((at + 1) as f32).to_le_bytes());
            // The operation and the strategy, which follow the numbers of extents.
            let after = std::mem::offset_of!(CallRecord, device_extents) + 2;
            set(after, &[TracedOperation::Read as u8, 3]);
            records.extend_from_slice(&record);
        }
        let facts = format!("aqueduct-trace\t2\nrank\t{number}\t4\t0\nfile\t0\tname\n");
        RankTrace::decode(facts.as_bytes(), &records, &[]).unwrap()
    }

    #[test]
    fn the_plot_of_estimates_has_points_of_all_ranks_and_times() {
        let trace = TraceFolder { ranks: vec![rank(0, 90_000), rank(1, 9000), rank(2, 10), rank(3, 1000)] };
        let points = points(&trace);
        assert!(points.len() <= MOST_POINTS && points.len() > MOST_POINTS / 2, "{}", points.len());
        let over = |least: f32| points.iter().filter(|(estimate, ..)| *estimate * 1e9 > least).count();
        assert!(over(80_000.0) > 40, "the end of rank 0");
        // All ten of rank 2, and the others start too.
        assert!(points.iter().filter(|(estimate, ..)| *estimate * 1e9 < 10.5).count() >= 10);
    }
}
