//! Atomic mode under stress: accesses that conflict look as if one came after the other.

use aqueduct_file::layout::{Basic, Layout, Vector};
use aqueduct_file::{File, Info, View};

use super::memory::AccessMethod;
use super::{Entry, Fixture};

pub(super) const CASES: &[Entry] = &[
    ("atomic overlapping writes are some serial order", writers),
    ("atomic readers see no mixture of writers", readers),
    ("atomic writes are read by others at once", visible),
];

const ROUNDS: usize = 12;
const STRATEGIES: [&str; 6] = ["direct", "list", "sieve", "map", "two-phase", "by cost"];

fn atomic(bench: &Fixture<'_>, strategy: &str) -> File {
    let file = bench.fresh();
    let hints = [("aqueduct_strategy", strategy), ("ind_wr_buffer_size", "64"), ("cb_buffer_size", "64")];
    file.set_info(&Info::from(hints)).expect("hints");
    file.set_atomic(true).expect("atomic mode");
    file
}

/// Three bytes of every five, beginning a byte later on each rank: every two ranks conflict, none covers the other.
fn comb(rank: usize) -> View {
    let byte = Layout::from(Basic::Byte);
    let teeth = byte.vector(Vector { count: 40, block: 3, stride: 5 }).expect("a comb");
    View::new(rank as u64, &byte, &teeth.resized(0, 200).expect("a comb")).expect("a view")
}

fn teeth(rank: usize) -> impl Iterator<Item = usize> {
    (0..40).flat_map(move |tooth| (0..3).map(move |byte| rank + tooth * 5 + byte))
}

fn writers(bench: &Fixture<'_>) {
    for strategy in STRATEGIES {
        let file = atomic(bench, strategy);
        for round in 0..ROUNDS {
            let way = AccessMethod::ALL[round % AccessMethod::ALL.len()];
            file.set_view(&comb(bench.rank())).expect("a comb");
            // 1 .. size in each round, to distinguish the bytes of rounds.
            let fill = (round * bench.size() + bench.rank() + 1) as u8;
            let count = way.write(file.at(0), vec![fill; 120]).expect("an atomic write");
            assert_eq!(count.bytes(), 120);
            let bytes = bench.contents(&file);
            serial(&bytes, bench.size(), (round * bench.size() + 1) as u8, strategy);
        }
        file.close().expect("closing");
    }
}

/// Panics unless there is an order of the writers in which the last one at each byte is the one found there.
fn serial(bytes: &[u8], size: usize, first: u8, context: &str) {
    let writers_of = |at: usize| (0..size).filter(move |rank| teeth(*rank).any(|byte| byte == at));
    // later[a][b]: somewhere both wrote and a was found.
    let mut later = vec![vec![false; size]; size];
    for (at, byte) in bytes.iter().enumerate() {
        let here: Vec<usize> = writers_of(at).collect();
        if here.is_empty() {
            continue;
        }
        let winner = usize::from(byte.wrapping_sub(first));
        assert!(here.contains(&winner), "byte {at} is {byte}, which none of {here:?} wrote: {context}");
        here.iter().filter(|rank| **rank != winner).for_each(|rank| later[winner][*rank] = true);
    }
    // An order exists if one can always take away a writer whom nobody has to follow.
    let mut left: Vec<usize> = (0..size).collect();
    while !left.is_empty() {
        let last = left.iter().position(|rank| left.iter().all(|other| !later[*other][*rank]));
        let last = last.unwrap_or_else(|| panic!("no order of the writers {left:?} gives this: {context}"));
        left.remove(last);
    }
}

fn readers(bench: &Fixture<'_>) {
    for strategy in STRATEGIES {
        let file = atomic(bench, strategy);
        file.set_view(&comb(0)).expect("a comb");
        file.at(0).all().write(&[255u8; 120]).expect("the first content");
        for round in 0..ROUNDS as u8 {
            // Half of the ranks write, the others read the same bytes meanwhile, without a barrier.
            if bench.rank().is_multiple_of(2) {
                let fill = round * 16 + bench.rank() as u8;
                AccessMethod::ALL[usize::from(round % 2)]
                    .write(file.at(0), vec![fill; 120])
                    .expect("an atomic write");
            } else {
                let (got, count) = AccessMethod::ALL[usize::from(round % 2)]
                    .read(file.at(0), vec![0u8; 120])
                    .expect("an atomic read");
                assert_eq!(count.bytes(), 120);
                assert!(got.iter().all(|byte| *byte == got[0]), "a mixture by {strategy}: {got:?}");
            }
        }
        file.close().expect("closing");
    }
}

fn visible(bench: &Fixture<'_>) {
    let file = atomic(bench, "by cost");
    let (rank, size) = (bench.rank(), bench.size());
    for round in 0..ROUNDS {
        let place = |rank: usize| (rank * 100) as u64;
        file.at(place(rank)).write(&vec![(round * size + rank) as u8; 100]).expect("an atomic write");
        bench.barrier();
        let neighbour = (rank + 1) % size;
        let mut got = [0u8; 100];
        file.at(place(neighbour)).read(&mut got).expect("an atomic read");
        assert_eq!(got, [(round * size + neighbour) as u8; 100]);
        bench.barrier();
    }
    file.close().expect("closing");
}
