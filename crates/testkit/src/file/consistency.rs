//! Visibility and order: what one rank wrote, and when others read it.

use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Info, Mode, View, Whence};

use super::{Entry, Fixture};

pub(super) const CASES: &[Entry] = &[
    ("after sync, barrier, sync others read what was written", sync_barrier_sync),
    ("synced and closed data is read after reopening", reopened),
    ("an appended file begins at its end on every rank", appended),
    ("data sieving does not overwrite concurrent writes of other ranks", beside_sieves),
    ("hints change while operations are in progress", hints_under_way),
];

fn sync_barrier_sync(bench: &Fixture<'_>) {
    let file = bench.fresh();
    let (rank, size) = (bench.rank(), bench.size());
    for round in 0..4u8 {
        for writer in 0..size {
            let fill = [round * 32 + writer as u8 + 1; 1000];
            if rank == writer {
                file.at(0).write(&fill).expect("a write");
            }
            file.sync().expect("sync");
            bench.barrier();
            file.sync().expect("sync");
            let mut got = [0u8; 1000];
            file.at(0).read(&mut got).expect("a read");
            assert_eq!(got, fill, "what rank {writer} wrote");
            bench.barrier();
        }
    }
    file.close().expect("closing");
}

fn reopened(bench: &Fixture<'_>) {
    let name = bench.name();
    let file = bench.open(&name, Mode::write_only().create()).expect("a new file");
    let place = |rank: usize| (rank * 100) as u64;
    file.at(place(bench.rank())).all().write(&[bench.rank() as u8 + 1; 100]).expect("a write");
    file.sync().expect("sync");
    file.close().expect("closing");
    let file = bench.open(&name, Mode::read_only().delete_on_close()).expect("the same file");
    let neighbour = (bench.rank() + 1) % bench.size();
    let mut got = [0u8; 100];
    file.at(place(neighbour)).all().read(&mut got).expect("a read");
    assert_eq!(got, [neighbour as u8 + 1; 100]);
    file.close().expect("closing");
    let error = bench.open(&name, Mode::read_only()).expect_err("a deleted file");
    assert_eq!(error.kind(), aqueduct_file::Kind::NoSuchFile, "{error}");
}

fn appended(bench: &Fixture<'_>) {
    let name = bench.name();
    let file = bench.open(&name, Mode::read_write().create()).expect("a new file");
    file.set_size(77).expect("a size");
    file.close().expect("closing");
    for round in 0..8 {
        let end = 77 + round * bench.size() as u64;
        let file = bench.open(&name, Mode::read_write().append()).expect("the same file");
        // Whoever comes out of `open` first writes at once: the others begin where the file ended before.
        file.shared().write(&[1u8]).expect("a shared write");
        assert_eq!(file.position().expect("the position"), end, "round {round}");
        bench.barrier();
        assert_eq!(file.seek(0, Whence::End).expect("the end"), end + bench.size() as u64);
        assert_eq!(file.position_shared().expect("the position"), end + bench.size() as u64);
        file.close().expect("closing");
    }
    bench.open(&name, Mode::read_only().delete_on_close()).expect("again").close().expect("closing");
}

/// Independent writes that read, change and write back, under way beside collective writes into their holes.
fn beside_sieves(bench: &Fixture<'_>) {
    const COUNT: usize = 3_000;
    let file = bench.fresh();
    let hints = [("romio_ds_write", "enable"), ("romio_cb_write", "enable"), ("cb_buffer_size", "4096")];
    file.set_info(&Info::from(hints)).expect("hints");
    let (rank, size) = (bench.rank(), bench.size());
    let element = Layout::from(Basic::Byte);
    let in_turn = element.resized(0, size as i64).expect("in turn");
    let view = View::new(rank as u64, &element, &in_turn).expect("a view");
    for round in 0..20 {
        file.set_view(&view).expect("a view");
        let fill = |rank: usize| (round * size + rank) as u8;
        // The even ranks write alone, the odd ones together, at the same time; no byte is written twice.
        let alone = rank.is_multiple_of(2);
        let sieving = alone.then(|| file.at(0).start_write(vec![fill(rank); COUNT]).expect("a write starts"));
        let together = vec![fill(rank); if alone { 0 } else { COUNT }];
        file.at(0).all().write(&together).expect("a collective write");
        if let Some(sieving) = sieving {
            sieving.wait().expect("a sieved write");
        }
        let bytes = bench.contents(&file);
        let wrong = bytes.iter().enumerate().position(|(at, byte)| *byte != fill(at % size));
        assert_eq!(wrong, None, "the first byte that was undone, round {round}");
    }
    file.close().expect("closing");
}

fn hints_under_way(bench: &Fixture<'_>) {
    let file = bench.fresh();
    let place = |step: u64| step * 1000 + bench.rank() as u64 * 10;
    let mut under_way = Vec::new();
    for step in 0..40 {
        let fill = vec![step as u8 + 1; 10];
        under_way.push(file.at(place(step)).all().start_write(fill).expect("a write starts"));
        let strategy = ["direct", "two-phase", "list", "sieve", "map"][step as usize % 5];
        file.set_info(&Info::from([("aqueduct_strategy", strategy)])).expect("hints");
        assert_eq!(file.info().get("aqueduct_strategy"), Some(strategy));
    }
    aqueduct_file::wait_all(under_way).expect("writes");
    let bytes = bench.contents(&file);
    for step in 0..40 {
        let at = place(step) as usize;
        assert_eq!(bytes[at..at + 10], [step as u8 + 1; 10]);
    }
    file.close().expect("closing");
}
