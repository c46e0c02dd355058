//! Advice about a run. What another way of accessing a file would cost is computed by planning its accesses again.

use std::collections::BTreeMap;

use aqueduct::file::replan::{PlanOutcome, RecordedAccess, replan};
use aqueduct::file::trace::{CallPhase, FileExtent, TraceFolder, TracedOperation};
use aqueduct::file::{Info, Strategy};

use super::call_groups::{CallGroups, FileCalls, RankCall};
use super::run_summary::RunSummary;
use super::{bytes, percent, seconds};

/// Collective calls of a file that are planned again; the others are assumed to be like them.
const PLANNED_CALLS: usize = 32;
/// Independent calls of a rank that are merged to one access.
const MERGED_CALLS: usize = 4096;
/// Findings below this share of the run are not reported.
const SMALLEST_SHARE: f64 = 0.02;

/// A finding, with the number that it rests on and what to do.
#[derive(Clone, Debug)]
pub(crate) struct Advice {
    /// A word for programs: `late-rank`.
    pub(crate) code: &'static str,
    pub(crate) title: String,
    pub(crate) text: String,
    /// Seconds of the run that it is about, of all ranks.
    pub(crate) seconds: f64,
}

pub(super) fn advice(trace: &TraceFolder, groups: &CallGroups<'_>, summary: &RunSummary) -> Vec<Advice> {
    let mut found = Vec::new();
    for (name, calls) in &groups.files {
        found.extend(late_rank(name, calls, groups, summary));
        found.extend(independent(name, calls, groups, summary));
        found.extend(aggregators(name, calls, groups));
        found.extend(frequent_sync(name, calls, summary));
        found.extend(read_modify_write(name, calls));
    }
    found.extend(opening(summary));
    found.extend(full_buffer(trace, summary));
    found.extend(one_node(trace));
    found.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    if found.is_empty() {
        let share = percent(summary.share());
        found.push(Advice {
            code: "none",
            title: "Nothing to improve was found".to_owned(),
            text: format!(
                "I/O took {share} of the run; no late rank, no frequent sync, and no plan that is cheaper"
            ),
            seconds: 0.0,
        });
    }
    found
}

/// All seconds of all ranks.
fn rank_seconds(summary: &RunSummary) -> f64 {
    summary.seconds() * summary.ranks as f64
}

/// A rank that comes to collective calls after the others, so that they wait.
fn late_rank(
    name: &str,
    calls: &FileCalls<'_>,
    groups: &CallGroups<'_>,
    summary: &RunSummary,
) -> Option<Advice> {
    let mut late: BTreeMap<usize, (u64, u64, u64)> = BTreeMap::new();
    let mut count = 0u64;
    for members in calls.collective_calls().filter(|members| members.len() > 1) {
        count += 1;
        let mut starts: Vec<(u64, usize)> =
            members.iter().map(|member| (member.call.start, groups.rank(member).rank)).collect();
        starts.sort_unstable();
        let (last, rank) = starts[starts.len() - 1];
        let before = starts[starts.len() - 2].0;
        let waited: u64 = members
            .iter()
            .filter(|member| groups.rank(member).rank != rank)
            .map(|member| {
                member.call.phases[CallPhase::Wait as usize].min(last.saturating_sub(member.call.start))
            })
            .fold(0, u64::saturating_add);
        let entry = late.entry(rank).or_default();
        *entry = (entry.0 + 1, entry.1.saturating_add(last - before), entry.2.saturating_add(waited));
    }
    let (rank, (times, lateness, waited)) = late.into_iter().max_by_key(|(_, (_, lateness, _))| *lateness)?;
    let waited = waited as f64 / 1e9;
    let of_io: f64 = summary.waiting.iter().sum::<f64>().max(1e-9);
    let is_regular = times * 2 > count || times > 3;
    if !is_regular || waited < SMALLEST_SHARE * rank_seconds(summary) || waited < 0.2 * of_io {
        return None;
    }
    let mean = seconds(lateness as f64 / 1e9 / times as f64);
    Some(Advice {
        code: "late-rank",
        title: format!("Rank {rank} is late"),
        text: format!(
            "In {times} of {count} collective calls to {name} rank {rank} comes last, on average {mean} after the rank \
             before it. The other ranks wait {} for it, {} of all time in I/O. Faster I/O does not help: balance \
             the work of the ranks, or write with a stream, which does not wait.",
            seconds(waited),
            percent((waited / of_io).min(1.0)),
        ),
        seconds: waited,
    })
}

/// What one rank did to a file in independent calls, as one access.
fn merged<'t>(calls: &[RankCall<'t>], groups: &CallGroups<'t>, write: bool) -> Vec<RecordedAccess> {
    let wanted = if write { TracedOperation::Write } else { TracedOperation::Read };
    let mut ranks: BTreeMap<usize, Vec<FileExtent>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.call.operation() == Some(wanted)) {
        let extents = ranks.entry(call.at).or_default();
        if extents.len() < MERGED_CALLS {
            extents.extend_from_slice(call.owned);
        }
    }
    let access = |(at, mut extents): (usize, Vec<FileExtent>)| {
        extents.sort_by_key(|extent| (extent.offset, extent.len));
        extents.dedup();
        let rank = &groups.trace.ranks[at];
        RecordedAccess { rank: rank.rank, node: rank.node, extents }
    };
    ranks.into_iter().map(access).collect()
}

/// Independent accesses that would be few large ones in a collective call.
fn independent(
    name: &str,
    calls: &FileCalls<'_>,
    groups: &CallGroups<'_>,
    summary: &RunSummary,
) -> Option<Advice> {
    let write = calls.independent.iter().any(|call| call.call.operation() == Some(TracedOperation::Write));
    let verb = if write { "write" } else { "read" };
    let accesses = merged(&calls.independent, groups, write);
    let time: f64 = calls.independent.iter().map(|call| call.call.duration() as f64 / 1e9).sum();
    let (count, device): (u64, u64) = calls
        .independent
        .iter()
        .fold((0, 0), |sum, call| (sum.0 + 1, sum.1 + u64::from(call.call.device_calls)));
    let moved: u64 = calls.independent.iter().map(|call| call.call.bytes).sum();
    let is_small = count > 0 && moved / count < 1 << 20;
    if accesses.len() < 2 || count < 64 || !is_small || time < SMALLEST_SHARE * rank_seconds(summary) {
        return None;
    }
    let hints = Info::parse(&format!("romio_cb_{verb} enable"));
    let capabilities = calls.facts.and_then(|facts| facts.fact("capabilities")).unwrap_or_default();
    let plan =
        replan(write, &accesses, capabilities, &hints).filter(|plan| plan.strategy == Strategy::TwoPhase)?;
    let planned: u64 = accesses.iter().flat_map(|access| &access.extents).map(FileExtent::bytes).sum();
    let shown = if planned < moved { moved as f64 / planned.max(1) as f64 } else { 1.0 };
    let fewer = plan.device_calls.max(1) as f64 * shown;
    if device as f64 <= 4.0 * fewer {
        return None;
    }
    Some(Advice {
        code: "independent",
        title: format!("Independent calls {verb} small pieces"),
        text: format!(
            "{} ranks {verb} {name} in {count} independent calls of {} on average, with {device} accesses of the \
             device. As collective calls (one for all of them, through a view) they are {:.0} accesses of {} by {} \
             aggregators, and {} go to another rank. The calls took {} on all ranks together.",
            accesses.len(),
            bytes(moved as f64 / count.max(1) as f64),
            fewer,
            bytes(moved as f64 / fewer),
            plan.aggregators,
            bytes(plan.exchanged as f64 * shown),
            seconds(time),
        ),
        seconds: time,
    })
}

/// The sums of planning some collective calls of a file again with a hint.
fn replanned(
    chosen: &[&Vec<RankCall<'_>>],
    groups: &CallGroups<'_>,
    capabilities: &str,
    hints: &Info,
) -> Option<[u64; 4]> {
    let mut sums = [0u64; 4];
    for members in chosen {
        let write = members[0].call.operation() == Some(TracedOperation::Write);
        let accesses: Vec<RecordedAccess> = members
            .iter()
            .map(|member| {
                let rank = groups.rank(member);
                RecordedAccess { rank: rank.rank, node: rank.node, extents: member.owned.to_vec() }
            })
            .collect();
        let PlanOutcome { strategy, aggregators, exchanged, between_nodes, device_calls, .. } =
            replan(write, &accesses, capabilities, hints)?;
        if strategy != Strategy::TwoPhase {
            return None;
        }
        sums = [
            sums[0] + exchanged,
            sums[1] + between_nodes,
            sums[2] + device_calls,
            sums[3].max(aggregators as u64),
        ];
    }
    Some(sums)
}

/// Another number of aggregators that exchanges fewer bytes.
fn aggregators(name: &str, calls: &FileCalls<'_>, groups: &CallGroups<'_>) -> Option<Advice> {
    // A trace has a limit of extents, after which calls have none.
    let has_extents = |member: &RankCall<'_>| member.call.bytes == 0 || !member.owned.is_empty();
    let two_phase = |members: &&Vec<RankCall<'_>>| {
        members.len() > 1
            && members[0].call.strategy() == Some(Strategy::TwoPhase)
            && members.iter().all(has_extents)
    };
    let all: Vec<&Vec<RankCall<'_>>> = calls.collective.values().filter(two_phase).collect();
    let chosen: Vec<&Vec<RankCall<'_>>> =
        all.iter().copied().step_by(all.len().div_ceil(PLANNED_CALLS).max(1)).collect();
    let members = chosen.first()?;
    let facts = calls.facts?;
    let capabilities = facts.fact("capabilities").unwrap_or_default();
    let base = Info::parse(&facts.fact("hints").unwrap_or_default().replace(';', "\n").replace('=', " "));
    let now: u64 = all.iter().flat_map(|members| members.iter()).map(|member| member.call.exchanged).sum();
    let now_chosen: u64 =
        chosen.iter().flat_map(|members| members.iter()).map(|member| member.call.exchanged).sum();
    let time: f64 = all
        .iter()
        .flat_map(|members| members.iter())
        .map(|member| {
            (member.call.duration()
                - member.call.phases[CallPhase::Wait as usize].min(member.call.duration())) as f64
                / 1e9
        })
        .sum();
    let ranks = members.len();
    let candidates =
        std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|count| *count < ranks);
    let best = candidates
        .chain([ranks])
        .filter_map(|count| {
            let mut hints = base.clone();
            hints.set("cb_nodes", count.to_string());
            hints.set("romio_cb_write", "enable");
            hints.set("romio_cb_read", "enable");
            Some((count, replanned(&chosen, groups, capabilities, &hints)?))
        })
        .min_by_key(|(_, sums)| sums[0])?;
    let (count, [exchanged, ..]) = best;
    let current = members[0].call.aggregators as usize;
    if count == current || (exchanged as f64) > 0.75 * now_chosen as f64 || now < 1 << 20 {
        return None;
    }
    let scale = now as f64 / now_chosen.max(1) as f64;
    Some(Advice {
        code: "aggregators",
        title: format!("cb_nodes={count} exchanges less"),
        text: format!(
            "The {} two-phase calls to {name} have {current} aggregator{}. With cb_nodes={count} the exchange falls from \
             {} to {}: more bytes stay on the rank that has them.",
            all.len(),
            if current == 1 { "" } else { "s" },
            bytes(now as f64),
            bytes(exchanged as f64 * scale),
        ),
        seconds: time * (1.0 - exchanged as f64 / now_chosen.max(1) as f64) * 0.5,
    })
}

/// Syncs that take much of the run.
fn frequent_sync(name: &str, calls: &FileCalls<'_>, summary: &RunSummary) -> Option<Advice> {
    // From when the last rank has come: what ranks wait for a late one is another finding.
    let nanoseconds = |members: &Vec<RankCall<'_>>| {
        let last = members.iter().map(|member| member.call.start).max().unwrap_or(0);
        members.iter().map(|member| member.call.end.saturating_sub(last)).fold(0, u64::saturating_add)
    };
    let time = calls.syncs.values().map(nanoseconds).fold(0, u64::saturating_add) as f64 / 1e9;
    let (per_rank, count) = (calls.syncs.len(), calls.syncs.values().map(Vec::len).sum::<usize>());
    let all = summary.waiting.iter().sum::<f64>().max(1e-9);
    if per_rank < 4 || time < SMALLEST_SHARE * rank_seconds(summary) || time < 0.2 * all {
        return None;
    }
    let accesses = calls.independent.iter().chain(calls.collective.values().flatten());
    let written: u64 = accesses
        .filter(|call| call.call.operation() == Some(TracedOperation::Write))
        .map(|call| call.call.bytes)
        .sum();
    Some(Advice {
        code: "sync",
        title: format!("{name} is synced {per_rank} times"),
        text: format!(
            "Each sync is for {}, and takes {} on average; together they are {} of all time in I/O. Sync once \
             at the end, or write with a stream: its steps become durable in the background, and a crash loses \
             only those that were not.",
            bytes(written as f64 / per_rank as f64),
            seconds(time / count as f64),
            percent((time / all).min(1.0)),
        ),
        seconds: time,
    })
}

/// Writes that read what lies between their runs.
fn read_modify_write(name: &str, calls: &FileCalls<'_>) -> Option<Advice> {
    let sieved = |call: &&RankCall<'_>| {
        call.call.strategy() == Some(Strategy::Sieve) && call.call.operation() == Some(TracedOperation::Write)
    };
    let found: Vec<&RankCall<'_>> = calls.independent.iter().filter(sieved).collect();
    let (bytes_written, device): (u64, u64) =
        found.iter().fold((0, 0), |sum, call| (sum.0 + call.call.bytes, sum.1 + call.call.device_bytes));
    if found.is_empty() || device < 2 * bytes_written {
        return None;
    }
    Some(Advice {
        code: "read-modify-write",
        title: "Writes read, change and write back".to_owned(),
        text: format!(
            "{} writes to {name} of {} moved {} on the device (data sieving). Write collectively, or drop the \
             hint romio_ds_write=enable.",
            found.len(),
            bytes(bytes_written as f64),
            bytes(device as f64),
        ),
        seconds: found.iter().map(|call| call.call.duration() as f64 / 1e9).sum(),
    })
}

/// Opening and closing that takes most of the time in I/O.
fn opening(summary: &RunSummary) -> Option<Advice> {
    let of =
        |operation: TracedOperation| summary.operations.get(operation.name()).copied().unwrap_or_default();
    let (open, close) = (of(TracedOperation::Open), of(TracedOperation::Close));
    let time = (open.nanoseconds + close.nanoseconds) as f64 / 1e9;
    let all = summary.waiting.iter().sum::<f64>().max(1e-9);
    let times = open.calls / summary.ranks.max(1) as u64;
    if times < 8 || time < 0.3 * all || time < SMALLEST_SHARE * rank_seconds(summary) {
        return None;
    }
    Some(Advice {
        code: "opening",
        title: "Files are opened and closed often".to_owned(),
        text: format!(
            "Each rank opens a file {times} times; opening and closing takes {} of all time in I/O. Keep files \
             open, or put several steps into one file.",
            percent((time / all).min(1.0)),
        ),
        seconds: time,
    })
}

/// A write buffer whose limit was reached.
fn full_buffer(trace: &TraceFolder, summary: &RunSummary) -> Option<Advice> {
    let calls = trace.ranks.iter().flat_map(|rank| &rank.calls).filter(|call| call.memory[1] > 0);
    let (mut full, mut count, mut cap, mut time) = (0u64, 0u64, 0, 0.0);
    for call in calls {
        count += 1;
        if call.memory[0] as f64 >= 0.95 * call.memory[1] as f64 {
            full += 1;
            cap = call.memory[1];
            time += call.duration() as f64 / 1e9;
        }
    }
    if full * 10 < count || full < 4 || time < SMALLEST_SHARE * rank_seconds(summary) {
        return None;
    }
    Some(Advice {
        code: "buffer",
        title: "Write buffers are full".to_owned(),
        text: format!(
            "In {full} of {count} buffered writes the limit of {} was reached, so that they waited for the device, \
             {} in all. A larger buffer helps if the program pauses its output, else the device is the limit.",
            bytes(cap as f64),
            seconds(time),
        ),
        seconds: time,
    })
}

/// All accesses of the device on one node of several.
fn one_node(trace: &TraceFolder) -> Option<Advice> {
    let mut nodes: BTreeMap<usize, u64> = BTreeMap::new();
    for rank in &trace.ranks {
        *nodes.entry(rank.node).or_default() += rank.calls.iter().map(|call| call.device_bytes).sum::<u64>();
    }
    let all: u64 = nodes.values().sum();
    let (node, most) = nodes.iter().max_by_key(|(_, bytes)| **bytes)?;
    if nodes.len() < 2 || all < 1 << 20 || (*most as f64) < 0.95 * all as f64 {
        return None;
    }
    Some(Advice {
        code: "one-node",
        title: "One node does all I/O".to_owned(),
        text: format!(
            "Node {node} of {} accesses {} of {} on the device. Set cb_nodes to a multiple of the number of nodes, \
             so that all their links are used.",
            nodes.len(),
            bytes(*most as f64),
            bytes(all as f64),
        ),
        seconds: 0.0,
    })
}
