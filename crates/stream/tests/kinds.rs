//! Streams whose kind of values is known at run time: every kind, in memory with any layout, sampled in every way.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::layout::{Layout, Vector};
use aqueduct_stream::{
    Error, Hyperslab, Kind, Options, OutputMode, Reader, Reduction, Stream, Streams, ValueKind,
};

/// Values of a rank in a step: 4 × 6 of them, of which the inner 2 × 4 are the block, as bytes.
fn memory(kind: ValueKind, rank: u64, step: u64) -> Vec<u8> {
    let value = |at: u64| -> Vec<u8> {
        let number = (at + 50 * rank + 10 * step) % 100;
        match kind {
            ValueKind::F32 => (number as f32).to_le_bytes().to_vec(),
            ValueKind::F64 => (number as f64).to_le_bytes().to_vec(),
            ValueKind::Bool => vec![(number % 2) as u8],
            ValueKind::Complex64 => {
                [number as f32, -1.5].iter().flat_map(|part| part.to_le_bytes()).collect()
            }
            ValueKind::Complex128 => {
                [number as f64, -1.5].iter().flat_map(|part| part.to_le_bytes()).collect()
            }
            // Half precision too: the bits are what counts here.
            kind => number.to_le_bytes()[..kind.width() as usize].to_vec(),
        }
    };
    (0..24).flat_map(value).collect()
}

/// The block in that memory.
fn inner(kind: ValueKind) -> Layout {
    let element = Layout::bytes(kind.width()).unwrap();
    element.subarray(&[4, 6], &Hyperslab::new([1, 1], [2, 4]), aqueduct_file::layout::Order::C).unwrap()
}

/// The bytes of elements of the block, by row and column.
fn picked(
    kind: ValueKind,
    memory: &[u8],
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
) -> Vec<u8> {
    let width = kind.width() as usize;
    rows.flat_map(|row| {
        let start = ((row + 1) * 6 + 1 + columns.start) * width;
        memory[start..start + columns.len() * width].to_vec()
    })
    .collect()
}

fn write(world: &Comm, kind: ValueKind, mode: OutputMode, name: &str) -> Result<(), Error> {
    let rank = world.rank() as u64;
    let stream = |name: &str| Stream::array(name, [4, 4]).block([2 * rank, 0], [2, 4]);
    let mut streams = Streams::new();
    let whole = streams.add_kind(stream("whole"), kind);
    let part = streams.add_kind(stream("part").cuboids([Hyperslab::new([1, 1], [2, 2])]), kind);
    let last = streams.add_kind(stream("last").reduce(Reduction::Last), kind);
    let last_part = [Hyperslab::new([0, 2], [4, 1])];
    let last_part = streams.add_kind(stream("last part").cuboids(last_part).reduce(Reduction::Last), kind);
    let list = streams.add_kind(Stream::list("list", 4), kind);
    let mut output = Options::new().mode(mode).replace().create(world, name, &streams)?;
    for step in 0..3 {
        let memory = memory(kind, rank, step);
        let step =
            output.step()?.put_bytes(whole, &memory, &inner(kind)).put_bytes(part, &memory, &inner(kind));
        let step = step.put_bytes(last, &memory, &inner(kind)).put_bytes(last_part, &memory, &inner(kind));
        step.put_bytes(list, &memory, &inner(kind)).commit()?;
    }
    output.finish().map(drop)
}

fn check(world: &Comm, kind: ValueKind, name: &str) -> Result<(), Error> {
    let reader = Reader::open(world, name)?;
    for step in 0..3 {
        let ranks = [memory(kind, 0, step), memory(kind, 1, step)];
        let stored = reader.step(step).expect("complete");
        let whole: Vec<u8> = ranks.iter().flat_map(|memory| picked(kind, memory, 0..2, 0..4)).collect();
        assert_eq!(reader.read_bytes("whole", stored)?, whole, "{kind:?}");
        assert_eq!(reader.read_bytes("list", stored)?, whole, "{kind:?}");
        let part = [picked(kind, &ranks[0], 1..2, 1..3), picked(kind, &ranks[1], 0..1, 1..3)].concat();
        assert_eq!(reader.read_bytes("part", stored)?, part, "{kind:?}");
        let mut some = vec![0; 2 * kind.width() as usize];
        reader.read_part_bytes_into("whole", stored, (0, &Hyperslab::new([3, 1], [1, 2])), &mut some)?;
        assert_eq!(some, picked(kind, &ranks[1], 1..2, 1..3), "{kind:?}");
        let error =
            reader.read_part_bytes_into("whole", stored, (0, &Hyperslab::new([0, 0], [1, 1])), &mut some);
        assert_eq!(error.unwrap_err().kind(), Kind::BadArgument);
    }
    let closing = reader.closing().expect("reductions");
    let ranks = [memory(kind, 0, 2), memory(kind, 1, 2)];
    let last: Vec<u8> = ranks.iter().flat_map(|memory| picked(kind, memory, 0..2, 0..4)).collect();
    assert_eq!(reader.read_bytes("last", closing)?, last, "{kind:?}");
    let column: Vec<u8> = ranks.iter().flat_map(|memory| picked(kind, memory, 0..2, 2..3)).collect();
    assert_eq!(reader.read_bytes("last part", closing)?, column, "{kind:?}");
    assert_eq!(reader.verify()?, []);
    Ok(())
}

#[test]
fn values_of_every_kind_are_stored_from_any_layout() {
    for kind in ValueKind::ALL {
        for mode in [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders] {
            let name = format!("memfs:kinds-{kind:?}-{mode:?}");
            Launch::threads(2).run(|world| write(world, kind, mode, &name)).unwrap();
            Launch::threads(1).run(|world| check(world, kind, &name)).unwrap();
        }
    }
}

/// The sum and the mean of complex numbers are those of their parts, as `f64`.
#[test]
fn complex_numbers_have_sums_and_means() {
    let read = Launch::threads(1).run(|world| {
        let stream = |name: &str, reduction| Stream::array(name, [2]).block([0], [2]).reduce(reduction);
        let mut streams = Streams::new();
        let sum = streams.add_kind(stream("sum", Reduction::Sum), ValueKind::Complex64);
        let mean = streams.add_kind(stream("mean", Reduction::Mean), ValueKind::Complex128);
        let mut output = Options::new().create(world, "memfs:complex-sums", &streams)?;
        let single: Vec<u8> = [1.0f32, 2.0, -3.0, 0.5].iter().flat_map(|part| part.to_le_bytes()).collect();
        let double: Vec<u8> = [1.0f64, 2.0, -3.0, 0.5].iter().flat_map(|part| part.to_le_bytes()).collect();
        for _ in 0..4 {
            let step = output.step()?.put_bytes(sum, &single, &Layout::bytes(16).unwrap());
            step.put_bytes(mean, &double, &Layout::bytes(32).unwrap()).commit()?;
        }
        output.finish()?;
        let reader = Reader::open(world, "memfs:complex-sums")?;
        let closing = reader.closing().expect("reductions");
        Ok::<_, Error>((reader.read_bytes("sum", closing)?, reader.read_bytes("mean", closing)?))
    });
    let bytes = |numbers: [f64; 4]| numbers.iter().flat_map(|part| part.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(read.unwrap()[0], (bytes([4.0, 8.0, -12.0, 2.0]), bytes([1.0, 2.0, -3.0, 0.5])));
}

#[test]
fn reductions_that_a_kind_does_not_have_are_refused() {
    let refused = [
        (ValueKind::Complex64, Reduction::Max),
        (ValueKind::Complex128, Reduction::Rms),
        (ValueKind::F16, Reduction::Sum),
    ];
    for (kind, reduction) in refused {
        let outcome = Launch::threads(1).run(|world| {
            let mut streams = Streams::new();
            streams.add_kind(Stream::array("a", [2]).block([0], [2]).reduce(reduction), kind);
            Options::new().create(world, "memfs:refused-kinds", &streams).map(drop)
        });
        let error = Error::from(outcome.unwrap_err());
        assert_eq!(error.kind(), Kind::BadArgument, "{error}");
        assert!(error.to_string().contains("no reduction"), "{error}");
    }
}

/// A layout that leaves the memory, another number of values, and a reason that the program gives: errors on all ranks.
#[test]
fn values_that_cannot_be_used_fail_the_step_on_all_ranks() {
    let far = Layout::bytes(8).unwrap().hvector(Vector { count: 2, block: 1, stride: 1000 }).unwrap();
    let below = Layout::bytes(8).unwrap().hvector(Vector { count: 2, block: 1, stride: -8 }).unwrap();
    let cases = [
        (Some(far), "describes bytes"),
        (Some(below), "describes bytes"),
        (Some(Layout::bytes(24).unwrap()), "array has 2"),
    ];
    for (layout, text) in cases.into_iter().chain([(None, "no input")]) {
        let errors = Launch::threads(2).run(|world| {
            let mut streams = Streams::new();
            let rank = world.rank() as u64;
            let stream = Stream::array("a", [4]).block([2 * rank], [2]);
            let key = streams.add_kind(stream, ValueKind::F64);
            let options = Options::new().mode(OutputMode::Blocking).replace();
            let mut output = options.create(world, "memfs:unusable", &streams)?;
            let (memory, right) = ([0u8; 64], Layout::bytes(16).unwrap());
            let step = output.step()?;
            let step = match (&layout, rank) {
                (Some(layout), 0) => step.put_bytes(key, &memory, layout),
                (None, 0) => step.fail(Kind::WrongType, "no input"),
                _ => step.put_bytes(key, &memory, &right),
            };
            Ok::<_, Error>(step.commit().err().map(|error| error.to_string()))
        });
        let errors = errors.unwrap_or_else(|error| panic!("{error}"));
        assert!(errors.iter().flatten().count() == 2, "{errors:?}");
        assert!(errors[0].as_ref().is_some_and(|error| error.contains(text)), "{errors:?}");
    }
}
