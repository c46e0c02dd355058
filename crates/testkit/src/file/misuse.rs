//! Invalid calls: each is an error of the right kind, on every rank of a collective call, and the file still works.

mod opening;

use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{File, Info, Kind, LaidOut, Mode, Result, View, Whence};

use super::memory::AccessMethod;
use super::{Entry, Fixture};

pub(super) const CASES: &[Entry] = &[
    ("files that cannot be opened are errors", opening::files),
    ("arguments of open that differ are refused", opening::differing),
    ("the access mode is enforced", opening::modes),
    ("a sequential file has the shared pointer only", opening::sequential),
    ("invalid views are rejected", views),
    ("counts that do not fit are refused", counts),
    ("memory that does not hold its layout is refused", memory),
    ("invalid offsets are rejected", offsets),
    ("arguments that differ are refused", differing),
    ("a split operation keeps other collective ones away", split),
    ("requests give their result once", requests),
];

/// Panics unless it was refused with this kind, and the class that goes with it.
#[track_caller]
fn refused<T>(outcome: Result<T>, kind: Kind) {
    let Err(error) = outcome else { panic!("it went through instead of {kind:?}") };
    assert_eq!((error.kind(), error.class()), (kind, kind.class()), "{error}");
    assert!(!error.detail().is_empty() && !error.path().is_empty(), "{error}");
}

/// Panics unless the file still works for all ranks.
fn works(bench: &Fixture<'_>, file: &File) {
    file.set_view(&View::default()).expect("a view after an error");
    let place = bench.rank() as u64 * 8;
    let mine = [bench.rank() as u64 + 1];
    assert_eq!(file.at(place).all().write(&mine).expect("a write after an error").bytes(), 8);
    let mut got = [0u64];
    assert_eq!(file.at(place).all().read(&mut got).expect("a read after an error").bytes(), 8);
    assert_eq!(got, mine);
}

/// Of the ranks, only the last one does it wrong.
fn is_wrong(bench: &Fixture<'_>) -> bool {
    bench.rank() + 1 == bench.size()
}

fn views(bench: &Fixture<'_>) {
    let (byte, long, empty) = (Layout::from(Basic::Byte), Layout::from(Basic::I64), Layout::empty());
    refused(View::new(0, &empty, &byte), Kind::BadLayout);
    let nothing = View::new(0, &byte, &empty).expect("a rank may see nothing");
    assert_eq!(nothing.byte_offset(0), None);
    refused(View::new(0, &long, &byte.contiguous(12).expect("bytes")), Kind::BadLayout);
    let down = byte.hindexed_block(1, [5, 0]).expect("bytes");
    refused(View::new(0, &byte, &down), Kind::BadLayout);
    let negative = byte.hindexed_block(1, [-5, 0]).expect("bytes");
    refused(View::new(0, &byte, &negative), Kind::BadLayout);
    let short = byte.contiguous(4).and_then(|four| four.resized(0, -4)).expect("bytes");
    refused(View::new(0, &byte, &short), Kind::BadLayout);
    refused(View::new(u64::MAX, &byte, &byte), Kind::BadArgument);
    if bench.size() > 1 {
        let file = bench.fresh();
        let element = if is_wrong(bench) { long } else { byte };
        refused(file.set_view(&View::of(0, &element).expect("a view")), Kind::NotSame);
        works(bench, &file);
        file.close().expect("closing");
    }
}

fn counts(bench: &Fixture<'_>) {
    let file = bench.fresh();
    for way in AccessMethod::ALL {
        file.set_view(&View::of(0, &Layout::of::<i32>()).expect("a view")).expect("a view");
        let wrong = is_wrong(bench);
        let data = vec![1u8; if wrong { 5 } else { 8 }];
        for place in [file.at(0), file.at_pointer(), file.shared()] {
            let (written, read) = (way.write(place, data.clone()), way.read(place, data.clone()));
            if way.collective || wrong {
                refused(written, Kind::BadCount);
                refused(read, Kind::BadCount);
            }
        }
        works(bench, &file);
    }
    file.close().expect("closing");
}

fn memory(bench: &Fixture<'_>) {
    let file = bench.fresh();
    file.at(0).all().write(&[7u8; 100]).expect("content");
    let too_long = [Layout::bytes(20), Layout::bytes(1 << 45)].map(|layout| layout.expect("bytes"));
    for (way, long) in AccessMethod::ALL.iter().flat_map(|way| too_long.iter().map(move |long| (way, long))) {
        let wrong = is_wrong(bench);
        let fitting = Layout::bytes(10).expect("bytes");
        let buffer = || LaidOut::new(vec![0; 10], if wrong { long } else { &fitting }, 1).expect("a buffer");
        let (written, read) = (way.write(file.at(0), buffer()), way.read(file.at(0), buffer()));
        if way.collective || wrong {
            refused(written, Kind::BadCount);
            refused(read, Kind::BadCount);
        }
        works(bench, &file);
    }
    file.close().expect("closing");
}

fn offsets(bench: &Fixture<'_>) {
    let file = bench.fresh();
    refused(file.seek(-1, Whence::Start), Kind::BadArgument);
    refused(file.seek(i64::MIN, Whence::Current), Kind::BadArgument);
    refused(file.seek_shared(-1, Whence::End), Kind::BadArgument);
    refused(file.byte_offset(u64::MAX), Kind::BadArgument);
    refused(file.set_size(u64::MAX), Kind::BadArgument);
    for way in AccessMethod::ALL {
        for far in [u64::MAX, i64::MAX as u64] {
            let wrong = is_wrong(bench);
            let place = file.at(if wrong { far } else { 0 });
            let (written, read) = (way.write(place, vec![1u8; 3]), way.read(place, vec![0u8; 3]));
            if way.collective || wrong {
                refused(written, Kind::BadArgument);
                refused(read, Kind::BadArgument);
            }
            // Nothing at all may be anywhere.
            assert_eq!(way.write(place, Vec::<u8>::new()).expect("an empty write").bytes(), 0);
            assert_eq!(way.read(place, Vec::<u8>::new()).expect("an empty read").1.bytes(), 0);
        }
        works(bench, &file);
    }
    file.close().expect("closing");
}

fn differing(bench: &Fixture<'_>) {
    if bench.size() == 1 {
        return;
    }
    let file = bench.fresh();
    let wrong = is_wrong(bench);
    refused(file.set_size(10 + u64::from(wrong)), Kind::NotSame);
    refused(file.preallocate(10 + u64::from(wrong)), Kind::NotSame);
    refused(file.seek_shared(i64::from(wrong), Whence::Start), Kind::NotSame);
    refused(file.seek_shared(0, if wrong { Whence::End } else { Whence::Start }), Kind::NotSame);
    refused(file.set_atomic(wrong), Kind::NotSame);
    // Hints may differ: those of rank 0 hold on all ranks.
    let nodes = (bench.rank() + 1).to_string();
    file.set_info(&Info::from([("cb_nodes", nodes)])).expect("hints may differ");
    assert_eq!(file.info().get("cb_nodes"), Some("1"));
    works(bench, &file);
    file.close().expect("closing");
}

fn split(bench: &Fixture<'_>) {
    let file = bench.fresh();
    let place = bench.rank() as u64 * 100;
    let begun = file.at(place).all().begin_write(vec![3u8; 100]).expect("a split write");
    for place in [file.at(0), file.at_pointer(), file.shared()] {
        refused(place.all().begin_write(vec![0u8]).map(drop), Kind::SplitPending);
        refused(place.all().begin_read(vec![0u8]).map(drop), Kind::SplitPending);
        for way in AccessMethod::ALL.into_iter().filter(|way| way.collective) {
            refused(way.write(place, vec![0u8]), Kind::SplitPending);
            refused(way.read(place, vec![0u8]), Kind::SplitPending);
        }
    }
    // Alone, everything goes on; and what was refused moved no pointer.
    assert_eq!(file.position().expect("the position"), 0);
    let mut got = [0u8];
    file.at(1 << 20).read(&mut got).expect("a read alone");
    assert_eq!(begun.end().expect("the split write").1.bytes(), 100);
    // Dropping one ends it.
    drop(file.at(place).all().begin_read(vec![0u8; 100]).expect("a split read"));
    works(bench, &file);
    file.close().expect("closing");
}

fn requests(bench: &Fixture<'_>) {
    let file = bench.fresh();
    let place = bench.rank() as u64 * 100;
    let mut request = file.at(place).start_write(vec![1u8; 100]).expect("a write starts");
    let outcome = loop {
        if let Some(outcome) = request.test().expect("a test") {
            break outcome;
        }
        std::thread::yield_now();
    };
    assert_eq!((outcome.0, outcome.1.bytes()), (vec![1u8; 100], 100));
    assert!(request.is_done());
    refused(request.test(), Kind::RequestGone);
    refused(request.wait(), Kind::RequestGone);
    // One that waits behind others can be taken back, alone; a part of a collective one never.
    for number in 0..20 {
        let busy: Vec<_> =
            (0..5).map(|_| file.at(place).start_write(vec![2u8; 100]).expect("a write starts")).collect();
        if let Err(late) = file.at(place).start_write(vec![9u8; 100]).expect("a write starts").cancel() {
            assert_eq!(late.wait().expect("it had begun").1.bytes(), 100, "number {number}");
        }
        aqueduct_file::wait_all(busy).expect("writes");
        let first = file.at(place).all().start_write(vec![3u8; 100]).expect("a write starts");
        let second = file.at(place).all().start_write(vec![4u8; 100]).expect("a write starts");
        let Err(second) = second.cancel() else { panic!("a part of a collective operation was taken back") };
        assert_eq!(second.wait().expect("a write").1.bytes(), 100);
        drop(first);
    }
    works(bench, &file);
    // One that nobody has waited for yet keeps neither the file open nor its result from being given.
    let late = file.at(place).start_write(vec![5u8; 100]).expect("a write starts");
    file.close().expect("closing and deleting");
    assert_eq!(late.wait().expect("a write before the close").1.bytes(), 100);
}

/// A file that is there already.
fn existing(bench: &Fixture<'_>) -> String {
    let name = bench.name();
    let file = bench.open(&name, Mode::read_write().create()).expect("a new file");
    file.set_size(100).expect("a size");
    file.close().expect("closing");
    name
}
