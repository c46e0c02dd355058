//! The shared pointer under stress: no record lost, doubled or torn.

use std::collections::BTreeMap;

use aqueduct_comm::Op;
use aqueduct_file::layout::Layout;
use aqueduct_file::{File, View, Whence, wait_all};

use super::{Entry, Fixture};
use crate::rng::SeededRng;

pub(super) const CASES: &[Entry] = &[
    ("shared writes of differing counts are all there, once, whole", writes),
    ("shared reads take every record once", reads),
    ("shared, ordered and other collective accesses take turns", turns),
    ("concurrent ordered and shared operations share one pointer", at_once),
];

/// Records of each rank: thousands in all.
const RECORDS: usize = 600;

/// A record: its length, who wrote it, its number, and then its number again and again.
fn record(rank: usize, number: usize, dice: &mut SeededRng) -> Vec<u32> {
    let mut record = vec![number as u32; 3 + dice.below(7)];
    (record[0], record[1]) = (record.len() as u32, rank as u32);
    record
}

fn words(bench: &Fixture<'_>) -> File {
    let file = bench.fresh();
    file.set_view(&View::of(0, &Layout::of::<u32>()).expect("words")).expect("words");
    file
}

/// Panics unless the words are whole records, `per_rank` of each rank, each once.
fn check_records(words: &[u32], size: usize, per_rank: usize) {
    let (mut rest, mut seen) = (words, BTreeMap::new());
    while let Some(len) = rest.first() {
        let len = *len as usize;
        assert!((3..10).contains(&len) && len <= rest.len(), "a torn record of {len} words");
        let (record, later) = rest.split_at(len);
        assert!(record[2..].iter().all(|word| *word == record[2]), "a torn record: {record:?}");
        *seen.entry((record[1], record[2])).or_insert(0) += 1;
        rest = later;
    }
    assert!(seen.values().all(|times| *times == 1), "a doubled record");
    assert_eq!(seen.len(), size * per_rank, "lost records");
}

fn all_words(bench: &Fixture<'_>, file: &File) -> Vec<u32> {
    let bytes = bench.contents(file);
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

fn write_records(bench: &Fixture<'_>, file: &File) {
    let mut dice = SeededRng::new(bench.rank() as u64 + 1);
    let mut under_way = Vec::new();
    for number in 0..RECORDS {
        let record = record(bench.rank(), number, &mut dice);
        if number % 3 == 0 {
            under_way.push(file.shared().start_write(record).expect("a shared write starts"));
        } else {
            let count = file.shared().write(&record).expect("a shared write");
            assert_eq!(count.of::<u32>(), record.len() as u64);
        }
    }
    wait_all(under_way).expect("shared writes");
}

fn writes(bench: &Fixture<'_>) {
    let file = words(bench);
    write_records(bench, &file);
    bench.barrier();
    let end = file.position_shared().expect("the shared pointer");
    assert_eq!(file.size().expect("the size"), end * 4, "the pointer is at the end");
    check_records(&all_words(bench, &file), bench.size(), RECORDS);
    file.close().expect("closing");
}

fn reads(bench: &Fixture<'_>) {
    let file = words(bench);
    // Numbers 1 to n; every rank takes as many as it gets.
    let total = 5_000u32;
    if bench.rank() == 0 {
        file.at(0).write(&(1..=total).collect::<Vec<u32>>()).expect("numbers");
    }
    bench.barrier();
    let (mut dice, mut sum, mut count) = (SeededRng::new(bench.rank() as u64), 0, 0);
    loop {
        let mut some = vec![0u32; 1 + dice.below(20)];
        let got = file.shared().read(&mut some).expect("a shared read").of::<u32>() as usize;
        assert!(some[..got].windows(2).all(|pair| pair[1] == pair[0] + 1), "a torn read: {some:?}");
        sum += some[..got].iter().map(|number| u64::from(*number)).sum::<u64>();
        count += got as u64;
        if got < some.len() {
            break;
        }
    }
    let sums = bench.world.allreduce(Op::Sum, &[sum, count]).expect("a sum");
    assert_eq!(sums, [u64::from(total) * u64::from(total + 1) / 2, u64::from(total)]);
    file.close().expect("closing");
}

fn turns(bench: &Fixture<'_>) {
    let file = words(bench);
    let mut dice = SeededRng::new(bench.rank() as u64 + 9);
    for number in 0..30 {
        let record = record(bench.rank(), number, &mut dice);
        if number % 3 == 0 {
            file.shared().write(&record).expect("a shared write");
            // The standard has no order between shared and ordered accesses without this.
            bench.barrier();
        } else if number % 3 == 1 {
            file.shared().all().write(&record).expect("an ordered write");
        } else {
            file.shared()
                .all()
                .begin_write(record)
                .expect("an ordered write begins")
                .end()
                .expect("and ends");
        }
        // Collective reads between them move nothing.
        let mut word = [0u32];
        file.at(0).all().read(&mut word).expect("a collective read");
        assert!((3..10).contains(&word[0]), "{word:?}");
    }
    file.seek_shared(0, Whence::Current).expect("a seek to where it is");
    check_records(&all_words(bench, &file), bench.size(), 30);
    file.close().expect("closing");
}

fn at_once(bench: &Fixture<'_>) {
    let file = words(bench);
    let mut dice = SeededRng::new(bench.rank() as u64 + 33);
    let mut under_way = Vec::new();
    for number in 0..200 {
        let record = record(bench.rank(), number, &mut dice);
        if number % 2 == 0 {
            under_way.push(file.shared().all().start_write(record).expect("an ordered write starts"));
        } else {
            file.shared().write(&record).expect("a shared write");
        }
    }
    wait_all(under_way).expect("ordered writes");
    check_records(&all_words(bench, &file), bench.size(), 200);
    file.close().expect("closing");
}
