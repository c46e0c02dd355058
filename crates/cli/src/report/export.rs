//! The calls of a trace in formats of other tools.

use std::fmt::Write as _;

use aqueduct::file::Strategy;
use aqueduct::file::trace::{CallPhase, TraceFolder, TracedOperation};
use serde_json::json;

/// The trace event format of Chrome and Perfetto: a process per run and rank. Each run begins at 0.
/// <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>
pub(super) fn perfetto(runs: &[(String, TraceFolder)]) -> String {
    let mut text = String::from("{\"traceEvents\":[\n");
    let mut first_process = 0;
    for (run, trace) in runs {
        let prefix = if runs.len() > 1 { format!("{run}: ") } else { String::new() };
        perfetto_run(&mut text, trace, &prefix, first_process);
        first_process += trace.ranks.iter().map(|rank| rank.rank + 1).max().unwrap_or(0);
    }
    // A last event without a comma.
    text + "{\"ph\":\"M\",\"name\":\"trace\",\"pid\":0,\"args\":{}}\n]}\n"
}

fn perfetto_run(text: &mut String, trace: &TraceFolder, prefix: &str, first_process: usize) {
    let first = trace.ranks.iter().flat_map(|rank| &rank.calls).map(|call| call.start).min().unwrap_or(0);
    for rank in &trace.ranks {
        let process = first_process + rank.rank;
        let name = json!({"name": format!("{prefix}rank {} on {}", rank.rank, rank.host)});
        let event = json!({"ph": "M", "name": "process_name", "pid": process, "args": name});
        let _ = writeln!(text, "{event},");
        for call in &rank.calls {
            let phases: serde_json::Map<String, serde_json::Value> = CallPhase::ALL
                .iter()
                .map(|phase| (format!("{} ns", phase.name()), json!(call.phases[*phase as usize])))
                .collect();
            let file = rank.files.get(call.file as usize).map_or("", |file| file.name.as_str());
            let event = json!({
                "ph": "X",
                "name": call.operation().map_or("", TracedOperation::name),
                "cat": if call.is_collective() { "collective" } else { "independent" },
                "pid": process,
                "tid": u8::from(call.is_background()),
                "ts": (call.start - first) as f64 / 1e3,
                "dur": call.duration() as f64 / 1e3,
                "args": {
                    "file": file,
                    "bytes": call.bytes,
                    "strategy": call.strategy().map(Strategy::name),
                    "phases": phases,
                },
            });
            let _ = writeln!(text, "{event},");
        }
    }
}

const COLUMNS: &str = "run,rank,node,file,operation,collective,sequence,background,failed,start_ns,duration_ns,engine_ns,wait_ns,\
                       pack_ns,exchange_ns,device_ns,bytes,runs,first_byte,end_byte,exchanged_bytes,device_calls,device_bytes,\
                       strategy,aggregators,rounds,direct_estimate_ns,list_estimate_ns,sieve_estimate_ns,map_estimate_ns,\
                       two_phase_estimate_ns,accepted,visible,durable,memory,memory_limit";

pub(super) fn csv(runs: &[(String, TraceFolder)]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for (run, trace) in runs {
        csv_run(&mut text, &quoted(run), trace);
    }
    text
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn csv_run(text: &mut String, run: &str, trace: &TraceFolder) {
    for rank in &trace.ranks {
        for call in &rank.calls {
            let file = rank.files.get(call.file as usize).map_or("", |file| file.name.as_str());
            let flags = [call.is_background(), call.has_failed()].map(u8::from);
            let _ = write!(
                text,
                "{run},{},{},{},{},{},{},{},{},{},{}",
                rank.rank,
                rank.node,
                quoted(file),
                call.operation().map_or("", TracedOperation::name),
                u8::from(call.is_collective()),
                call.sequence,
                flags[0],
                flags[1],
                call.start,
                call.duration()
            );
            let [first, end] = call.span;
            let numbers = [
                call.bytes,
                call.runs,
                first,
                end,
                call.exchanged,
                call.device_calls.into(),
                call.device_bytes,
            ];
            call.phases.iter().chain(&numbers).for_each(|number| _ = write!(text, ",{number}"));
            let _ = write!(
                text,
                ",{},{},{}",
                call.strategy().map_or("", Strategy::name),
                call.aggregators,
                call.rounds
            );
            call.estimates.iter().for_each(|estimate| _ = write!(text, ",{estimate:.0}"));
            let [memory, limit] = call.memory;
            let _ = writeln!(text, ",{},{},{},{memory},{limit}", call.accepted, call.visible, call.durable);
        }
    }
}
