//! Exchanges in two phases: nodes of different sizes, holes, ranks without data, and steps that are repeated.

use aqueduct_comm::Comm;
use aqueduct_file::layout::{Basic, Layout, Vector};
use aqueduct_file::{File, Info, OpenOptions, View};

use super::{Entry, Fixture};

pub(super) const CASES: &[Entry] = &[
    ("nodes of different sizes exchange", odd_nodes),
    ("holes between the ranks' data are not changed", holes),
    ("all ranks read the same bytes, over the end of the file", same_bytes),
    ("ranks write the same bytes in different ways", overlapping_writes),
    ("a repeated step plans nothing", repeated),
    ("consecutive steps are planned once", advanced),
    ("a step that one rank changes is planned anew", changed),
];

/// Small windows and many rounds: so that every border falls everywhere.
const BUFFERS: [&str; 3] = ["64", "1000", "100000"];

fn two_phase(file: &File, buffer: &str, aggregators: &str) {
    let hints = [
        ("aqueduct_strategy", "two-phase"),
        ("cb_buffer_size", buffer),
        ("cb_nodes", aggregators),
        ("striping_unit", "16"),
    ];
    file.set_info(&Info::from(hints)).expect("hints");
}

/// Blocks of 5 bytes distributed round-robin, with a gap after each row, from byte 9 on.
fn round_robin_view(comm: &Comm, gap: u64) -> View {
    let piece = Layout::bytes(5).expect("a piece");
    let row = (5 * comm.size() as u64 + gap) as i64;
    let byte = Layout::from(Basic::Byte);
    View::new(9 + 5 * comm.rank() as u64, &byte, &piece.resized(0, row).expect("a row")).expect("a view")
}

fn byte(rank: usize, at: usize, salt: usize) -> u8 {
    (rank * 37 + at * 11 + salt * 101 + 1) as u8
}

fn content(rank: usize, len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|at| byte(rank, at, salt)).collect()
}

/// What lies at an offset of a file that was `before` and into which each rank has then written so many bytes through [`round_robin_view`].
fn model(before: &[u8], ranks: usize, gap: usize, lens: &[usize], salt: usize) -> Vec<u8> {
    let mut bytes = before.to_vec();
    for (rank, len) in lens.iter().enumerate() {
        for at in 0..*len {
            let offset = 9 + 5 * rank + at / 5 * (5 * ranks + gap) + at % 5;
            if bytes.len() <= offset {
                bytes.resize(offset + 1, 0);
            }
            bytes[offset] = byte(rank, at, salt);
        }
    }
    bytes
}

fn all_bytes(comm: &Comm, file: &File) -> Vec<u8> {
    comm.barrier().expect("a barrier");
    file.set_view(&View::default()).expect("the view of all bytes");
    let mut bytes = vec![0; file.size().expect("the size") as usize];
    file.at(0).read(&mut bytes).expect("reading all bytes");
    comm.barrier().expect("a barrier");
    bytes
}

/// Writes through [`round_robin_view`] and reads back, over what was there before.
fn write_and_read(comm: &Comm, file: &File, gap: u64, lens: &[usize], context: &str) {
    let (rank, len) = (comm.rank(), lens[comm.rank()]);
    if rank == 0 {
        file.at(0).write(&vec![0xAA_u8; 300]).expect("what was there before");
    }
    comm.barrier().expect("a barrier");
    file.set_view(&round_robin_view(comm, gap)).expect("a view");
    // Twice: planned, and repeated.
    for salt in [1, 2] {
        let count = file.at(0).all().write(&content(rank, len, salt)).expect("a write");
        assert_eq!(count.bytes(), len as u64, "{context}");
        let mut got = vec![0u8; len];
        let count = file.at(0).all().read(&mut got).expect("a read");
        assert_eq!((count.bytes(), &got), (len as u64, &content(rank, len, salt)), "{context}");
    }
    let expected = model(&[0xAA; 300], comm.size(), gap as usize, lens, 2);
    assert_eq!(all_bytes(comm, file), expected, "{context}");
    file.set_size(0).expect("an empty file");
}

fn odd_nodes(bench: &Fixture<'_>) {
    // The last one rank of the first node, two of the second, three of the third, as far as they have so many, and so on.
    let mut ranks = Vec::new();
    for node in 0..bench.world.node_count() {
        let all = bench.world.ranks_of_node(node);
        ranks.extend_from_slice(&all[all.len().saturating_sub(node % 3 + 1)..]);
    }
    let (name, comm) = (bench.name(), bench.world.subgroup(&ranks).expect("some of the ranks"));
    let Some(comm) = comm else { return };
    let open = OpenOptions::new().read(true).write(true).create(true).delete_on_close(true).hints(bench.info);
    let file = open.open(&comm, &name).expect("a file of some ranks");
    for (buffer, aggregators) in BUFFERS.iter().flat_map(|buffer| ["1", "3", "100"].map(|n| (buffer, n))) {
        two_phase(&file, buffer, aggregators);
        let lens: Vec<usize> = (0..comm.size()).map(|rank| 400 + rank * 7).collect();
        write_and_read(&comm, &file, 0, &lens, &format!("buffer {buffer}, {aggregators} aggregators"));
    }
    file.close().expect("closing");
}

fn holes(bench: &Fixture<'_>) {
    let file = bench.fresh();
    for (buffer, gap) in BUFFERS.iter().flat_map(|buffer| [0, 1, 23].map(|gap| (buffer, gap))) {
        two_phase(&file, buffer, "3");
        // Some ranks have nothing, the others differently much.
        let lens: Vec<usize> =
            (0..bench.size()).map(|rank| if rank % 3 == 1 { 0 } else { 300 + rank }).collect();
        write_and_read(bench.world, &file, gap, &lens, &format!("buffer {buffer}, gap {gap}"));
    }
    file.close().expect("closing");
}

fn same_bytes(bench: &Fixture<'_>) {
    let file = bench.fresh();
    let there = content(0, 5_000, 3);
    if bench.rank() == 0 {
        file.at(0).write(&there).expect("content");
    }
    bench.barrier();
    // Every rank reads all bytes, but in its own way: more than the message buffer of a node holds.
    let kinds = [1, 3, 4].map(|len| {
        let block = Vector { count: 3, block: len, stride: len as i64 + 1 };
        Layout::from(Basic::Byte).vector(block).and_then(|blocks| blocks.resized(0, 17)).expect("blocks")
    });
    for buffer in BUFFERS {
        two_phase(&file, buffer, "100");
        for kind in 0..=kinds.len() {
            let filetype =
                if kind == 0 { Layout::from(Basic::Byte) } else { kinds[(kind + bench.rank()) % 3].clone() };
            let byte = Layout::from(Basic::Byte);
            file.set_view(&View::new(0, &byte, &filetype).expect("a view")).expect("a view");
            let places = filetype.endless(0).expect("a file of it");
            let offsets = (0..6_000).map_while(|at| there.get(places.offset_of(at)? as usize));
            let mut expected: Vec<u8> = offsets.copied().collect();
            let count = expected.len() as u64;
            expected.resize(6_000, 0xEE);
            for _ in 0..2 {
                let mut got = vec![0xEE_u8; 6_000];
                let read = file.at(0).all().read(&mut got).expect("a read");
                assert_eq!(read.bytes(), count, "buffer {buffer}, kind {kind}");
                assert_eq!(got, expected, "buffer {buffer}, kind {kind}");
            }
        }
    }
    file.close().expect("closing");
}

fn overlapping_writes(bench: &Fixture<'_>) {
    let file = bench.fresh();
    for buffer in BUFFERS {
        two_phase(&file, buffer, "2");
        let len = bench.rank() as i64 % 3 + 1;
        let byte = Layout::from(Basic::Byte);
        let filetype =
            Layout::bytes(len as u64).and_then(|run| run.resized(0, 2 * len)).expect("every other run");
        file.set_view(&View::new(0, &byte, &filetype).expect("a view")).expect("a view");
        file.at(0).all().write(&vec![bench.rank() as u8 + 1; 600]).expect("a write");
        let bytes = bench.contents(&file);
        let covers = |rank: usize, at: usize| {
            let len = rank % 3 + 1;
            (at / len).is_multiple_of(2) && at < 1_200 / len * len
        };
        for (at, byte) in bytes.iter().enumerate() {
            let mut may = (0..bench.size()).filter(|rank| covers(*rank, at)).peekable();
            let expected = may.peek().is_none() && *byte == 0 || may.any(|rank| rank as u8 + 1 == *byte);
            assert!(expected, "byte {at} is {byte}, buffer {buffer}");
        }
        file.set_size(0).expect("an empty file");
    }
    file.close().expect("closing");
}

fn repeated(bench: &Fixture<'_>) {
    let file = bench.fresh();
    for (buffer, gap) in [("64", 0), ("100000", 0), ("64", 3)] {
        two_phase(&file, buffer, "2");
        file.set_view(&round_robin_view(bench.world, gap)).expect("a view");
        let mut got = vec![0; 200];
        let step = |salt: usize, got: &mut Vec<u8>| {
            file.at(10).all().write(&content(bench.rank(), 200, salt)).expect("a write");
            file.at(10).all().read(&mut *got).expect("a read");
            assert_eq!(*got, content(bench.rank(), 200, salt));
        };
        let before = file.counters().planned;
        step(1, &mut got);
        let planned = file.counters().planned;
        assert!(planned > before, "the first step is planned");
        (2..6).for_each(|salt| step(salt, &mut got));
        assert_eq!(file.counters().planned, planned, "a step like the first, buffer {buffer}, gap {gap}");
        // Another view, or other hints, and everything may be different.
        file.set_view(&round_robin_view(bench.world, gap)).expect("a view");
        step(6, &mut got);
        assert!(file.counters().planned > planned, "a new view");
    }
    file.close().expect("closing");
}

fn advanced(bench: &Fixture<'_>) {
    const ROWS: usize = 40;
    let file = bench.fresh();
    let ranks = bench.size();
    for (buffer, gap) in [("64", 0), ("100000", 0), ("64", 3), ("1000", 3)] {
        let hints = [
            ("aqueduct_strategy", "two-phase"),
            ("cb_buffer_size", buffer),
            ("cb_nodes", "2"),
            ("striping_unit", "0"),
        ];
        file.set_info(&Info::from(hints)).expect("hints");
        file.set_view(&round_robin_view(bench.world, gap)).expect("a view");
        // Some ranks have nothing.
        let len = |rank: usize| if rank % 3 == 1 { 0 } else { 5 * ROWS };
        let mut planned = [0; 6];
        for (step, planned) in planned.iter_mut().enumerate() {
            let mine = content(bench.rank(), len(bench.rank()), step);
            assert_eq!(file.at_pointer().all().write(&mine).expect("a write").bytes(), mine.len() as u64);
            *planned = file.counters().planned;
        }
        // Past the page cache windows have to begin at blocks, where nodes are not coherent at pages, and these steps do not.
        if ["aqueduct_direct", "aqueduct_coherent"].iter().all(|hint| bench.info.get(hint).is_none()) {
            assert_eq!(planned, [planned[0]; 6], "buffer {buffer}, gap {gap}");
        }
        let row = 5 * ranks + gap as usize;
        let mut expected = vec![0; file.size().expect("the size") as usize];
        for (step, rank) in (0..6).flat_map(|step| (0..ranks).map(move |rank| (step, rank))) {
            for at in 0..len(rank) {
                expected[9 + 5 * rank + (step * ROWS + at / 5) * row + at % 5] = byte(rank, at, step);
            }
        }
        assert_eq!(all_bytes(bench.world, &file), expected, "buffer {buffer}, gap {gap}");
        file.set_size(0).expect("an empty file");
    }
    file.close().expect("closing");
}

fn changed(bench: &Fixture<'_>) {
    let file = bench.fresh();
    two_phase(&file, "64", "3");
    file.set_view(&round_robin_view(bench.world, 2)).expect("a view");
    let len = |step: usize| if bench.rank() == step % bench.size() { 50 + step % 3 * 100 } else { 170 };
    for step in 0..30 {
        let mine = content(bench.rank(), len(step), step);
        assert_eq!(file.at(0).all().write(&mine).expect("a write").bytes(), mine.len() as u64);
        let mut got = vec![0; mine.len()];
        assert_eq!(file.at(0).all().read(&mut got).expect("a read").bytes(), mine.len() as u64);
        assert_eq!(got, mine, "step {step}");
    }
    file.close().expect("closing");
}
