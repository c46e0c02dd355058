//! Visibility and order: what one rank wrote, and when others read it.

use aqueduct_file::{Info, Mode, Whence};

use super::{Bench, Entry};

pub(super) const CASES: &[Entry] = &[
    ("after sync, barrier, sync others read what was written", sync_barrier_sync),
    ("what was synced and closed is there for who opens it", reopened),
    ("an appended file begins at its end on every rank", appended),
    ("sieving writers do not undo what others write beside them", beside_sieves),
    ("hints change while operations are under way", hints_under_way),
];

fn sync_barrier_sync(bench: &Bench<'_>) {
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

fn reopened(bench: &Bench<'_>) {
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

fn appended(bench: &Bench<'_>) {
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
fn beside_sieves(bench: &Bench<'_>) {
    use aqueduct_file::layout::{Basic, Layout};
    let file = bench.fresh();
    let hints = [("romio_ds_write", "enable"), ("romio_cb_write", "enable"), ("cb_buffer_size", "4096")];
    file.set_info(&Info::from(hints)).expect("hints");
    let (rank, size) = (bench.rank() as u64, bench.size() as u64);
    let element = Layout::from(Basic::Byte);
    // Each rank two bytes in turn: the even ones it writes alone, the odd ones together.
    let pairs = element.contiguous(2).expect("a pair").resized(0, 2 * size as i64).expect("a pair");
    let view = aqueduct_file::View::new(2 * rank, &element, &pairs).expect("a view");
    for round in 0..6u8 {
        file.set_view(&view).expect("a view");
        let mut under_way = Vec::new();
        for pair in 0..100 {
            let fill = round * 16 + rank as u8 + 1;
            under_way.push(file.at(2 * pair).start_write(vec![fill]).expect("a write starts"));
            if pair % 10 == 0 {
                // Ten odd bytes, one of every pair: a view of its own would be slower to judge, so one by one.
                let odd = file.at(2 * pair + 1).all().start_write(vec![fill]).expect("a write starts");
                under_way.push(odd);
            }
        }
        aqueduct_file::wait_all(under_way).expect("writes");
        let bytes = bench.contents(&file);
        for (at, byte) in bytes.iter().enumerate() {
            let (pair, owner) = (at as u64 / 2 / size, at as u64 / 2 % size);
            if at.is_multiple_of(2) || pair.is_multiple_of(10) {
                assert_eq!(*byte, round * 16 + owner as u8 + 1, "byte {at} in round {round}");
            }
        }
    }
    file.close().expect("closing");
}

fn hints_under_way(bench: &Bench<'_>) {
    let file = bench.fresh();
    let place = |step: u64| step * 1000 + bench.rank() as u64 * 10;
    let mut under_way = Vec::new();
    for step in 0..40 {
        let fill = vec![step as u8 + 1; 10];
        under_way.push(file.at(place(step)).all().start_write(fill).expect("a write starts"));
        let strategy = ["direct", "two-phase", "list", "sieve"][step as usize % 4];
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
