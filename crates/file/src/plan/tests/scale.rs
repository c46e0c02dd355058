//! The cost of collective writes of thousands of ranks: computed by the functions that the engine plans with, compared with a run of sixteen
//! ranks, and written to `docs/scale.md`, which this test checks (`AQUEDUCT_WRITE_DOCS=1` writes it).

mod pattern;
mod peers;
mod simulation;

use std::fmt::Write as _;
use std::path::Path;

use crate::layout::{Basic, Layout};
use crate::{Error, Hints, OpenOptions, View};
use aqueduct_comm::{Launch, Traffic};
use pattern::{BYTES, Kind};
use simulation::{Cost, Machine, Outcome, together};

const RANKS: [usize; 6] = [16, 64, 256, 1024, 4096, 16_384];
const PER_NODE: usize = 64;

fn most(outcome: &Outcome, of: impl Fn(&Cost) -> u64) -> u64 {
    outcome.costs.iter().map(of).max().unwrap_or(0)
}

fn sum(outcome: &Outcome, of: impl Fn(&Cost) -> u64) -> u64 {
    outcome.costs.iter().map(of).sum()
}

fn sent(cost: &Cost) -> u64 {
    cost.data[0] + cost.talk[0]
}

fn computed() -> Vec<(Kind, usize, Outcome)> {
    let cases = Kind::ALL.into_iter().flat_map(|kind| RANKS.map(|ranks| (kind, ranks)));
    let of = |(kind, ranks)| {
        let machine = Machine { ranks, per_node: PER_NODE, hints: together() };
        (kind, ranks, machine.write(kind))
    };
    cases.map(of).collect()
}

#[test]
fn cost_per_rank_stays_and_the_document_says_so() {
    let computed = computed();
    for (kind, ranks, outcome) in &computed {
        check_limits(*kind, *ranks, outcome);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scale.md");
    let text = std::fs::read_to_string(&path).expect("docs/scale.md");
    let (begin, end) = ("<!-- computed: begin -->\n", "<!-- computed: end -->");
    let (before, rest) = text.split_once(begin).expect("where the table begins");
    let (table, after) = rest.split_once(end).expect("where the table ends");
    let expected = tables(&computed);
    if std::env::var_os("AQUEDUCT_WRITE_DOCS").is_some() {
        let text = format!("{before}{begin}{expected}{end}{after}");
        std::fs::write(&path, text).expect("docs/scale.md can be written");
    } else {
        assert_eq!(table, expected, "docs/scale.md is out of date: AQUEDUCT_WRITE_DOCS=1 writes it anew");
    }
}

/// What must not grow, and what may.
fn check_limits(kind: Kind, ranks: usize, outcome: &Outcome) {
    let context = format!("{} of {ranks} ranks", kind.name());
    let (nodes, log) = (ranks.div_ceil(PER_NODE) as u64, u64::from(ranks.ilog2()));
    let windows = (ranks as u64 * BYTES).div_ceil(4 << 20).max(2 * nodes);
    // Every rank sends its data once, and little else.
    assert!(sum(outcome, |cost| cost.data[1]) <= ranks as u64 * BYTES, "{context}");
    assert!(sum(outcome, |cost| cost.planning[1]) / (ranks as u64) < 1024 * log, "{context}");
    // The buffers of a node do not depend on the number of nodes.
    assert!(outcome.buffers <= 40 << 20, "{context}");
    // Few ranks write, each window in one call.
    assert_eq!(sum(outcome, |cost| cost.calls), windows, "{context}");
    assert!(most(outcome, |cost| cost.calls) <= 2, "{context}");
    // Leaders take part in trees: two messages per level and barrier.
    let barriers = outcome.steps + 2;
    assert!(most(outcome, |cost| cost.talk[0]) <= barriers * (log + 1), "{context}");
    assert_eq!(sum(outcome, |cost| cost.talk[0]), barriers * 2 * (nodes - 1), "{context}");
    assert!(most(outcome, |cost| cost.planning[0]) <= outcome.rounds * (2 * log + 1), "{context}");
    let messages = most(outcome, |cost| cost.data[0]);
    let memory = most(outcome, |cost| cost.memory as u64);
    assert!(outcome.longest <= 64 << 10, "{context}: {} bytes announced", outcome.longest);
    assert!(messages <= log, "{context}: {messages} messages");
    assert!(memory <= 128 << 10, "{context}: {memory} bytes");
    if kind == Kind::RoundRobin(4) {
        // Every window has bytes of every rank: no node can have fewer messages than windows.
        assert_eq!(sum(outcome, |cost| cost.data[0]), (nodes - 1) * windows, "{context}");
    } else {
        assert!(memory <= 16 << 10, "{context}: {memory} bytes");
    }
}

fn kib(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        1..1024 => format!("{bytes} B"),
        1024..10_485_760 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn tables(computed: &[(Kind, usize, Outcome)]) -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let _ = writeln!(text, "### {}\n", kind.name());
        text += "| ranks | plan memory | messages | mean | sent | first time | calls | ROMIO memory | messages | numbers | OMPIO memory |\n";
        text += "|---|---|---|---|---|---|---|---|---|---|---|\n";
        for (_, ranks, outcome) in computed.iter().filter(|(other, ..)| *other == kind) {
            let count = *ranks as u64;
            let mean = sum(outcome, sent) as f64 / count as f64;
            let bytes = sum(outcome, |cost| cost.data[1] + cost.talk[1]) / count;
            let planning = sum(outcome, |cost| cost.planning[1]) / count;
            let _ = writeln!(
                text,
                "| {ranks} | {} | {} | {mean:.2} | {} | {} | {} | {} | {} | {} | {} |",
                kib(most(outcome, |cost| cost.memory as u64)),
                most(outcome, sent),
                kib(bytes),
                kib(planning),
                most(outcome, |cost| cost.calls),
                kib(peers::romio_memory(kind, *ranks, PER_NODE)),
                peers::romio_messages(kind, *ranks, PER_NODE),
                kib(peers::romio_numbers(*ranks, PER_NODE)),
                kib(peers::ompio_memory(kind, *ranks, PER_NODE)),
            );
        }
        text += "\n";
    }
    text
}

/// Sixteen ranks, four per node: what was computed is what they send.
#[test]
fn the_engine_sends_what_was_computed() {
    let buffers = [64 << 10, 1 << 20, 4 << 20];
    for (kind, buffer) in Kind::ALL.into_iter().flat_map(|kind| buffers.map(|buffer| (kind, buffer))) {
        let hints = Hints { collective_buffer: buffer, ..together() };
        let outcome = Machine { ranks: 16, per_node: 4, hints }.write(kind);
        let measured = measure(kind, buffer);
        for (rank, (cost, [first, second])) in outcome.costs.iter().zip(&measured).enumerate() {
            let context = format!("{} on rank {rank}, buffer {buffer}", kind.name());
            let add = |parts: &[[u64; 2]]| {
                let total = parts.iter().fold([0, 0], |sum, part| [sum[0] + part[0], sum[1] + part[1]]);
                Traffic { messages: total[0], bytes: total[1] }
            };
            assert_eq!(*second, add(&[cost.data, cost.talk]), "repeated, {context}");
            assert_eq!(*first, add(&[cost.data, cost.talk, cost.planning]), "the first time, {context}");
        }
    }
}

/// What each rank sends for a write, the first time and when it is repeated.
fn measure(kind: Kind, buffer: u64) -> Vec<[Traffic; 2]> {
    let program = |world: &aqueduct_comm::Comm| {
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .delete_on_close(true)
            .hint("romio_cb_write", "enable");
        let open = open.hint("cb_buffer_size", buffer.to_string()).hint("striping_unit", "4096");
        let file = open.open(world, "memfs:measured")?;
        let (start, layout) = kind.layout(world.rank(), world.size());
        let view = View::new(start, &Layout::from(Basic::Byte), &layout)?;
        file.set_view(&view)?;
        let data = vec![world.rank() as u8; BYTES as usize];
        // The first access of all makes the buffers; with a new view its plan is forgotten.
        file.at(0).all().write(&data)?;
        file.set_view(&view)?;
        let mut sent = [Traffic::default(); 2];
        for sent in &mut sent {
            let before = file.counters();
            file.at(0).all().write(&data)?;
            let done = file.counters() - before;
            *sent = Traffic { messages: done.messages, bytes: done.sent };
        }
        file.close()?;
        Ok::<_, Error>(sent)
    };
    Launch::threads(16).node_ranks(4).run(program).expect("a run of sixteen ranks")
}
