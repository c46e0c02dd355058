//! Representations: bytes of the file against bytes made by hand.

use std::sync::Arc;

use aqueduct_file::layout::{Basic, Layout, Member};
use aqueduct_file::{Conversion, Kind, Representation, View, Whence};

use super::memory::AccessMethod;
use super::{Entry, Fixture};

pub(super) const CASES: &[Entry] = &[
    ("external32 is big-endian, in every way of access", external32),
    ("a structure in external32 converts each member", structure),
    ("values of another size in external32 count as before", other_sizes),
    ("a custom representation converts both ways", own),
    ("a conversion that fails on one rank fails on all", failing),
    ("invalid representations are rejected", refused),
];

/// Elements of each rank in turn, in this representation.
fn in_turn(bench: &Fixture<'_>, element: &Layout, representation: Representation) -> View {
    let each = element.size();
    let filetype = element.resized(0, (each * bench.size() as u64) as i64).expect("in turn");
    let view = View::new(each * bench.rank() as u64, element, &filetype).expect("a view");
    view.represented(representation)
}

fn external32(bench: &Fixture<'_>) {
    let element = Layout::from(Basic::F64);
    let value = |rank: usize, at: usize| (rank * 100 + at) as f64 * 1.5 - 7.25;
    for way in AccessMethod::ALL {
        let file = bench.fresh();
        let view = in_turn(bench, &element, Representation::External32);
        file.set_view(&view).expect("a view");
        let mine: Vec<f64> = (0..20).map(|at| value(bench.rank(), at)).collect();
        assert_eq!(way.write(file.at(0), mine.clone()).expect("a write").of::<f64>(), 20);
        bench.barrier();
        // Over the end: the count is exact and the rest untouched.
        let (got, count) = way.read(file.at(5), vec![-1.0f64; 18]).expect("a read");
        assert_eq!(count.of::<f64>(), 15, "{way:?}");
        assert_eq!((&got[..15], &got[15..]), (&mine[5..], [-1.0; 3].as_slice()), "{way:?}");
        let by_hand: Vec<u8> = (0..20 * bench.size())
            .flat_map(|at| value(at % bench.size(), at / bench.size()).to_be_bytes())
            .collect();
        assert_eq!(bench.contents(&file), by_hand, "{way:?}");
        file.close().expect("closing");
    }
}

fn structure(bench: &Fixture<'_>) {
    let member = |count, displacement, basic| Member { count, displacement, layout: Layout::from(basic) };
    let members = [
        member(1, 0, Basic::I32),
        member(2, 4, Basic::I16),
        member(1, 8, Basic::F64),
        member(3, 16, Basic::U8),
    ];
    let particle = Layout::structure(members).expect("a structure").resized(0, 24).expect("a structure");
    let file = bench.fresh();
    let filetype = particle.resized(0, 24 * bench.size() as i64).expect("in turn");
    let view = View::new(24 * bench.rank() as u64, &particle, &filetype).expect("a view");
    file.set_view(&view.represented(Representation::External32)).expect("a view");
    let mine: Vec<u8> = [
        &(-5i32).to_ne_bytes()[..],
        &300i16.to_ne_bytes(),
        &(-2i16).to_ne_bytes(),
        &0.1f64.to_ne_bytes(),
        &[1, 2, 3],
    ]
    .concat();
    file.at(0).all().write(&mine).expect("a write");
    let (got, _) = file.at(0).all().start_read(vec![0u8; 19]).expect("a read starts").wait().expect("a read");
    assert_eq!(got, mine);
    let by_hand: Vec<u8> = [
        &(-5i32).to_be_bytes()[..],
        &300i16.to_be_bytes(),
        &(-2i16).to_be_bytes(),
        &0.1f64.to_be_bytes(),
        &[1, 2, 3],
    ]
    .concat();
    let bytes = bench.contents(&file);
    assert!(bytes.chunks(24).all(|one| one[..19] == by_hand), "{bytes:?}");
    file.close().expect("closing");
}

/// Turns every bit; values that begin with [`Turned::POISON`] in memory cannot be read.
struct InvertedBits;

impl InvertedBits {
    const POISON: u8 = 0x13;
}

impl Conversion for InvertedBits {
    fn to_file(&self, _: Basic, values: &mut [u8]) -> Result<(), String> {
        values.iter_mut().for_each(|byte| *byte = !*byte);
        Ok(())
    }

    fn to_memory(&self, basic: Basic, values: &mut [u8]) -> Result<(), String> {
        values.iter_mut().for_each(|byte| *byte = !*byte);
        let poisoned = values.chunks(basic.size() as usize).any(|value| value[0] == Self::POISON);
        if poisoned { Err("this value cannot be read".to_owned()) } else { Ok(()) }
    }
}

/// Registered once in a process, whichever rank or run comes first.
fn inverted_bits() -> Representation {
    if let Err(error) = Representation::register("test-inverted", Arc::new(InvertedBits)) {
        assert_eq!(error.kind(), Kind::RepresentationExists, "{error}");
    }
    Representation::named("test-inverted").expect("it is registered")
}

fn own(bench: &Fixture<'_>) {
    let element = Layout::from(Basic::U16);
    for way in AccessMethod::ALL {
        let file = bench.fresh();
        file.set_view(&in_turn(bench, &element, inverted_bits())).expect("a view");
        assert_eq!(file.view().representation().name(), "test-inverted");
        let mine = vec![0x4000 + bench.rank() as u16; 9];
        way.write(file.at(0), mine.clone()).expect("a write");
        let (got, count) = way.read(file.at(0), vec![0u16; 9]).expect("a read");
        assert_eq!((got, count.of::<u16>()), (mine, 9), "{way:?}");
        let size = bench.size();
        let by_hand: Vec<u8> =
            (0..9 * size).flat_map(|at| (!(0x4000 + (at % size) as u16)).to_ne_bytes()).collect();
        assert_eq!(bench.contents(&file), by_hand, "{way:?}");
        file.close().expect("closing");
    }
}

fn failing(bench: &Fixture<'_>) {
    let file = bench.fresh();
    file.set_view(&in_turn(bench, &Layout::from(Basic::U8), inverted_bits())).expect("a view");
    let last = bench.rank() + 1 == bench.size();
    let mine = vec![if last { InvertedBits::POISON } else { 1 }; 5];
    file.at(0).all().write(&mine).expect("a write");
    for way in AccessMethod::ALL {
        let outcome = way.read(file.at(0), vec![0u8; 5]);
        let expected = way.collective || last;
        assert_eq!(
            outcome.as_ref().err().map(aqueduct_file::Error::kind),
            expected.then_some(Kind::Conversion)
        );
    }
    bench.barrier();
    file.close().expect("closing");
}

/// Values that have another size in the file: counted in etypes everywhere, and refused where they do not fit.
fn other_sizes(bench: &Fixture<'_>) {
    let file = bench.fresh();
    let view = View::of(0, &Layout::from(Basic::Long)).expect("a view");
    file.set_view(&view.represented(Representation::External32)).expect("a view");
    let place = 3 * bench.rank() as u64;
    let mine = [bench.rank() as i64, -2, 1 << 30];
    assert_eq!(file.at(place).all().write(&mine).expect("longs that fit").bytes(), 24);
    assert_eq!(file.size().expect("a size"), 12 * bench.size() as u64);
    let mut got = [0i64; 3];
    assert_eq!(file.at(place).all().read(&mut got).expect("longs").bytes(), 24);
    assert_eq!(got, mine);
    let (far, count) =
        file.at(place).start_read(vec![7i64; 3 * bench.size()]).expect("a read").wait().expect("longs");
    assert_eq!(count.of::<i64>(), 3 * (bench.size() - bench.rank()) as u64);
    assert_eq!(far[..3], mine);
    assert_eq!(file.byte_offset(5).expect("an offset"), 20);
    assert_eq!(file.type_extent(&Layout::from(Basic::Long)), 4);
    assert_eq!(file.seek(0, Whence::End).expect("the end"), 3 * bench.size() as u64);
    let error = file.at(place).all().write(&[1i64 << 40]).expect_err("a long that does not fit");
    assert_eq!(error.kind(), Kind::Conversion);
    bench.barrier();
    file.set_view(&View::default()).expect("a view");
    let mut bytes = [0u8; 12];
    file.at(12 * bench.rank() as u64).read(&mut bytes).expect("bytes");
    assert_eq!(bytes, [0, 0, 0, bench.rank() as u8, 0xff, 0xff, 0xff, 0xfe, 0x40, 0, 0, 0]);
    file.close().expect("closing");
}

fn refused(bench: &Fixture<'_>) {
    let kind = |outcome: aqueduct_file::Result<()>| outcome.expect_err("a bad representation").kind();
    assert_eq!(kind(Representation::named("nobody's").map(drop)), Kind::UnknownRepresentation);
    assert_eq!(kind(Representation::register("native", Arc::new(InvertedBits))), Kind::RepresentationExists);
    let _ = inverted_bits();
    assert_eq!(
        kind(Representation::register("test-inverted", Arc::new(InvertedBits))),
        Kind::RepresentationExists
    );
    let file = bench.fresh();
    let member = |displacement, basic| Member { count: 1, displacement, layout: Layout::from(basic) };
    let mixed = Layout::structure([member(0, Basic::F64), member(8, Basic::I32), member(12, Basic::I32)]);
    for (filetype, cut) in [(Layout::from(Basic::F64), 4), (mixed.expect("a structure"), 4)] {
        let etype = Layout::bytes(cut).expect("bytes");
        let cutting =
            View::new(0, &etype, &filetype).expect("a view").represented(Representation::External32);
        assert_eq!(kind(file.set_view(&cutting)), Kind::Conversion);
    }
    if bench.size() > 1 {
        // A C long has another size in external32, and how wide the gaps are there nobody knows.
        let long = in_turn(bench, &Layout::from(Basic::Long), Representation::External32);
        assert_eq!(kind(file.set_view(&long)), Kind::Conversion);
        let mixed = if bench.rank() == 0 { Representation::External32 } else { Representation::Native };
        assert_eq!(kind(file.set_view(&in_turn(bench, &Layout::from(Basic::I32), mixed))), Kind::NotSame);
    }
    file.close().expect("closing");
}
