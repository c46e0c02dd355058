//! Views that show bytes twice, reads that overlap, and ranks very far apart.

use aqueduct_file::layout::{Basic, Layout, Vector};
use aqueduct_file::{Info, Kind, Mode, View, Whence};

use super::memory::AccessMethod;
use super::{Entry, Fixture};

pub(super) const CASES: &[Entry] = &[
    ("a view that shows bytes twice is read in every way", seen_twice),
    ("a view that shows bytes twice is refused where one may write", written_twice),
    ("ranks very far apart access together", far_apart),
];

/// Values of four bytes, two bytes apart: each shows a half of the one before.
fn halves() -> View {
    let element = Layout::from(Basic::I32);
    let four = element.hvector(Vector { count: 4, block: 1, stride: 2 }).expect("halves");
    View::new(3, &element, &four.resized(0, 8).expect("halves")).expect("a view for reading")
}

fn offset(n: u64) -> u64 {
    3 + n / 16 * 8 + n % 16 / 4 * 2 + n % 4
}

fn seen_twice(bench: &Fixture<'_>) {
    let name = bench.name();
    let bytes: Vec<u8> = (0..100).map(|n| n as u8 + 1).collect();
    let file = bench.open(&name, Mode::write_only().create()).expect("a new file");
    if bench.rank() == 0 {
        file.at(0).write(&bytes).expect("content");
    }
    file.close().expect("closing");
    let file = bench.open(&name, Mode::read_only().delete_on_close()).expect("the same file");
    file.set_view(&halves()).expect("a view that shows bytes twice");
    for strategy in ["direct", "list", "sieve", "map", "two-phase", "by cost"] {
        let hints =
            [("aqueduct_strategy", strategy), ("ind_rd_buffer_size", "7"), ("romio_cb_read", "enable")];
        file.set_info(&Info::from(hints)).expect("hints");
        for way in AccessMethod::ALL {
            // From different places on, over the end of the file.
            let (start, values) = ((bench.rank() % 3) as u64, 60);
            let (got, count) = way.read(file.at(start), vec![0xEEu8; values * 4]).expect("a read");
            let places = (start * 4..start * 4 + values as u64 * 4).map(|n| offset(n) as usize);
            let mut expected: Vec<u8> = places.map_while(|at| bytes.get(at).copied()).collect();
            let context = format!("{strategy} {way:?}");
            assert_eq!(count.bytes(), expected.len() as u64, "the count: {context}");
            expected.resize(values * 4, 0xEE);
            assert_eq!(got, expected, "{context}");
        }
    }
    let begun = (0..200).take_while(|value| offset(value * 4) < 100).count() as u64;
    assert_eq!(file.seek(0, Whence::End).expect("the end"), begun);
    file.close().expect("closing");
}

fn written_twice(bench: &Fixture<'_>) {
    let file = bench.fresh();
    // Only the last rank's view is wrong.
    let wrong = bench.rank() + 1 == bench.size();
    let view = if wrong { halves() } else { View::of(0, &Layout::of::<i32>()).expect("a view") };
    let error = file.set_view(&view).expect_err("a view that writes bytes twice");
    assert_eq!(error.kind(), Kind::BadLayout, "{error}");
    file.close().expect("closing");
}

fn far_apart(bench: &Fixture<'_>) {
    let file = bench.fresh();
    file.set_info(&Info::from([("aqueduct_strategy", "two-phase")])).expect("hints");
    let element = Layout::from(Basic::Byte);
    let every_other = element.resized(0, 2).expect("every other byte");
    let far = bench.rank() as u64 * (1 << 36);
    file.set_view(&View::new(far, &element, &every_other).expect("a view")).expect("a view");
    let mine = [bench.rank() as u8 + 1; 8];
    file.at(0).all().write(&mine).expect("a write");
    let mut got = [0u8; 8];
    assert_eq!(file.at(0).all().read(&mut got).expect("a read").bytes(), 8);
    assert_eq!(got, mine);
    file.set_size(0).expect("nothing");
    file.close().expect("closing");
}
