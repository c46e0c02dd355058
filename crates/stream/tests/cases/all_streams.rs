//! A program with streams of every kind, and a reader that compares them with the model.

use aqueduct_comm::Comm;
use aqueduct_object::Object;
use aqueduct_stream::{
    Error, Hyperslab, ObjectKey, Options, Output, OutputReport, Reader, Reduction, Stream, StreamKey,
    StreamValue, Streams,
};

use crate::model::{ModelStream, SHAPE, SampledElements, value_at};

/// Values of an item of the list.
const WIDTH: u64 = 3;

/// How the array is divided into blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// The dimension.
    pub(crate) axis: usize,
    /// True if some ranks get nothing, and others more.
    pub(crate) uneven: bool,
    /// Planes around the block in memory.
    pub(crate) halo: u64,
}

impl Cut {
    /// The block of a rank: the blocks of all ranks cover the array, whatever their number.
    pub(crate) fn block(self, rank: usize, ranks: usize) -> Hyperslab {
        let size = SHAPE[self.axis];
        let border = |rank: usize| {
            let share = size * rank as u64 / ranks as u64;
            // Even ranks give their part to the next one.
            if self.uneven && rank % 2 == 1 && rank < ranks {
                size * (rank as u64 - 1) / ranks as u64
            } else {
                share
            }
        };
        let mut block = Hyperslab::whole(SHAPE);
        block.start[self.axis] = border(rank);
        block.count[self.axis] = border(rank + 1) - border(rank);
        block
    }
}

/// The streams as the model sees them.
pub(crate) fn model_streams() -> Vec<ModelStream> {
    let cuboids = || {
        SampledElements::Cuboids(vec![
            Hyperslab::new([1, 2, 0], [5, 2, 4]),
            Hyperslab::new([0, 0, 0], [1, 1, 1]),
            Hyperslab::new([2, 1, 2], [3, 4, 3]),
            Hyperslab::new([3, 0, 0], [0, 2, 2]),
        ])
    };
    let points =
        || SampledElements::Points((0..SHAPE.iter().product()).filter(|point| point % 7 == 3).collect());
    let stream = |name, what, reduction, every| ModelStream { name, what, reduction, every };
    vec![
        stream("whole", SampledElements::Whole, Reduction::None, None),
        stream("boxes", cuboids(), Reduction::None, None),
        stream("points", points(), Reduction::None, None),
        stream("rare", SampledElements::Whole, Reduction::None, Some(3)),
        stream("peak", SampledElements::Whole, Reduction::Max, None),
        stream("least of three", cuboids(), Reduction::Min, Some(3)),
        stream("sum", points(), Reduction::Sum, Some(2)),
        stream("mean", cuboids(), Reduction::Mean, None),
        stream("rms", SampledElements::Whole, Reduction::Rms, Some(4)),
    ]
}

/// The keys of a program's streams, each of another kind.
pub(crate) struct Keys {
    whole: StreamKey<f64>,
    boxes: StreamKey<f32>,
    points: StreamKey<i32>,
    rare: StreamKey<u64>,
    peak: StreamKey<u16>,
    least: StreamKey<i64>,
    sum: StreamKey<u32>,
    mean: StreamKey<f32>,
    rms: StreamKey<i16>,
    list: StreamKey<f32>,
    grains: ObjectKey<Grain>,
    trails: ObjectKey<Trail>,
}

/// An object of constant size whose encoding differs from its form in memory.
#[derive(Object, Clone, Debug, PartialEq)]
pub(crate) struct Grain {
    charged: bool,
    at: [f32; 3],
    id: u64,
}

/// An object of variable size.
#[derive(Object, Clone, Debug, PartialEq)]
pub(crate) struct Trail {
    name: String,
    grains: Vec<(u16, Option<f64>)>,
}

/// Trails are stored every so many steps.
const TRAILS_EVERY: u64 = 2;

/// The objects of a rank in a step; often none.
fn grains(rank: usize, step: u64) -> Vec<Grain> {
    let id = |at: u64| rank as u64 * 1000 + step * 100 + at;
    let count = (rank as u64 + step * 2) % 4;
    (0..count).map(|at| Grain { charged: at % 2 == 1, at: [step as f32; 3], id: id(at) }).collect()
}

fn trails(rank: usize, step: u64) -> Vec<Trail> {
    let part = |at: u64| (at as u16, at.is_multiple_of(2).then_some(at as f64));
    let trail = |at: u64| Trail {
        name: "r".repeat(rank) + &at.to_string(),
        grains: (0..(at * 7 + step) % 5).map(part).collect(),
    };
    (0..(rank as u64 * 3 + step) % 5).map(trail).collect()
}

/// The number of items of the list of a rank in a step.
fn items(rank: usize, step: u64) -> u64 {
    (rank as u64 * 2 + step * 3) % 5
}

/// The list of a rank in a step.
fn list(rank: usize, step: u64) -> Vec<f32> {
    (0..items(rank, step) * WIDTH).map(|at| (rank as u64 * 1000 + step * 100 + at) as f32).collect()
}

/// Declares all streams, for this rank.
pub(crate) fn declare(world: &Comm, cut: Cut) -> (Streams, Keys) {
    let block = cut.block(world.rank(), world.size());
    let mut streams = Streams::new();
    let mut expected_stream = model_streams().into_iter();
    let mut next = || {
        let expected_stream = expected_stream.next().unwrap();
        let stream =
            Stream::array(expected_stream.name, SHAPE).block(block.start.clone(), block.count.clone());
        let shape: Vec<u64> = block.count.iter().map(|size| size + 2 * cut.halo).collect();
        let stream = stream.in_memory(shape, [cut.halo; 3]).reduce(expected_stream.reduction);
        let stream = expected_stream.every.map_or(stream.clone(), |every| stream.every(every));
        match expected_stream.what {
            SampledElements::Whole => stream,
            SampledElements::Cuboids(cuboids) => stream.cuboids(cuboids),
            SampledElements::Points(points) => {
                stream.points(points.into_iter().filter(|point| holds(&block, *point)))
            }
        }
    };
    let keys = Keys {
        whole: streams.add(next()),
        boxes: streams.add(next()),
        points: streams.add(next()),
        rare: streams.add(next()),
        peak: streams.add(next()),
        least: streams.add(next()),
        sum: streams.add(next()),
        mean: streams.add(next()),
        rms: streams.add(next()),
        list: streams.add(Stream::list("list", WIDTH)),
        grains: streams.add_objects(Stream::objects("grains")),
        trails: streams.add_objects(Stream::objects("trails").every(TRAILS_EVERY)),
    };
    (streams, keys)
}

fn position(point: u64) -> [u64; 3] {
    [point / (SHAPE[1] * SHAPE[2]), point / SHAPE[2] % SHAPE[1], point % SHAPE[2]]
}

fn holds(block: &Hyperslab, point: u64) -> bool {
    let sides = position(point).into_iter().zip(block.start.iter().zip(&block.count));
    sides.into_iter().all(|(at, (start, size))| at >= *start && at < start + size)
}

/// This rank's array in memory in a step; the halo has values that must not be stored.
fn memory<T>(world: &Comm, cut: Cut, step: u64, make: impl Fn(u64) -> T) -> Vec<T> {
    let block = cut.block(world.rank(), world.size());
    if block.is_empty() {
        return Vec::new();
    }
    let side = |axis: usize| block.count[axis] + 2 * cut.halo;
    let mut values = Vec::new();
    for (z, y, x) in
        (0..side(0)).flat_map(|z| (0..side(1)).flat_map(move |y| (0..side(2)).map(move |x| (z, y, x))))
    {
        let at = [z, y, x].map(|at| at.wrapping_sub(cut.halo));
        let inside = (0..3).all(|axis| at[axis] < block.count[axis]);
        let at: Vec<u64> = (0..3).map(|axis| block.start[axis].wrapping_add(at[axis])).collect();
        values.push(make(if inside {
            value_at((at[0] * SHAPE[1] + at[1]) * SHAPE[2] + at[2], step)
        } else {
            65535
        }));
    }
    values
}

/// Commits one step.
pub(crate) fn step(
    world: &Comm,
    output: &mut Output,
    keys: &Keys,
    cut: Cut,
    step: u64,
) -> Result<aqueduct_stream::Receipt, Error> {
    let doubles = memory(world, cut, step, |value| value as f64);
    let floats = memory(world, cut, step, |value| value as f32);
    let (ints, longs) =
        (memory(world, cut, step, |value| value as i32), memory(world, cut, step, |value| value));
    let (shorts, signed) =
        (memory(world, cut, step, |value| value as u16), memory(world, cut, step, |value| value as i64));
    let (words, small) =
        (memory(world, cut, step, |value| value as u32), memory(world, cut, step, |value| value as i16));
    let items = list(world.rank(), step);
    let begun = output
        .step()?
        .put(keys.whole, &doubles)
        .put(keys.boxes, &floats)
        .put(keys.points, &ints)
        .put(keys.rare, &longs);
    let begun = begun
        .put(keys.peak, &shorts)
        .put(keys.least, &signed)
        .put(keys.sum, &words)
        .put(keys.mean, &floats)
        .put(keys.rms, &small);
    let (grains, trails) = (grains(world.rank(), step), trails(world.rank(), step));
    begun.put(keys.list, &items).put_objects(keys.grains, &grains).put_objects(keys.trails, &trails).commit()
}

/// The whole program.
pub(crate) fn write(
    world: &Comm,
    name: &str,
    options: &Options,
    cut: Cut,
    steps: u64,
) -> Result<OutputReport, Error> {
    let (streams, keys) = declare(world, cut);
    let mut output = options.create(world, name, &streams)?;
    for number in 0..steps {
        let receipt = step(world, &mut output, &keys, cut, number)?;
        assert_eq!(receipt.step(), number);
    }
    output.finish()
}

/// Compares everything in the file with the model; the file was written by this number of ranks, and has these steps.
pub(crate) fn check(reader: &Reader, writers: usize, steps: std::ops::Range<u64>) {
    for number in steps {
        let stored = reader.step(number).unwrap_or_else(|| panic!("step {number} is complete"));
        for expected_stream in model_streams() {
            assert_stream(reader, &expected_stream, stored, expected_stream.samples(number));
        }
        let items = reader.read::<f32>("list", stored).unwrap();
        let expected: Vec<f32> = (0..writers).flat_map(|rank| list(rank, number)).collect();
        assert_eq!(items, expected, "list of step {number}");
        check_objects(reader, writers, stored);
    }
}

/// Compares the objects of a step, read in three shares.
fn check_objects(reader: &Reader, writers: usize, stored: &aqueduct_stream::StoredStep) {
    let found = reader.objects::<Grain>("grains", stored).unwrap();
    let shares = (0..3).flat_map(|rank| found.read(found.share(rank, 3)).unwrap());
    let expected = (0..writers).flat_map(|rank| grains(rank, stored.step));
    assert!(shares.eq(expected), "grains of {stored:?}");
    if !stored.step.is_multiple_of(TRAILS_EVERY) {
        assert!(reader.objects::<Trail>("trails", stored).is_err(), "trails of {stored:?}");
        return;
    }
    let found = reader.objects::<Trail>("trails", stored).unwrap();
    let shares = (0..3).flat_map(|rank| found.read(found.share(rank, 3)).unwrap());
    let expected = (0..writers).flat_map(|rank| trails(rank, stored.step));
    assert!(shares.eq(expected), "trails of {stored:?}");
}

/// Compares the data that was stored at the end.
pub(crate) fn check_end(reader: &Reader, steps: u64) {
    assert!(reader.is_finished() && reader.incomplete_steps().is_empty());
    let closing = reader.closing();
    for expected_stream in model_streams() {
        let samples = expected_stream.samples_at_end(steps);
        match closing {
            Some(stored) => assert_stream(reader, &expected_stream, stored, samples),
            None => assert!(samples.is_none()),
        }
    }
    assert_eq!(reader.verify().unwrap(), []);
}

fn assert_stream(
    reader: &Reader,
    expected_stream: &ModelStream,
    stored: &aqueduct_stream::StoredStep,
    samples: Option<Vec<u64>>,
) {
    let count = reader.samples(expected_stream.name, stored).unwrap();
    assert_eq!(
        count,
        samples.as_ref().map(|samples| samples.len() as u64),
        "{expected_stream:?} in {stored:?}"
    );
    let Some(samples) = samples else { return };
    let mut expected = expected_stream.values(&samples);
    let found = found(reader, expected_stream.name, stored);
    if matches!(expected_stream.what, SampledElements::Points(_)) {
        // Points are in the order of the ranks that held them.
        let points = reader.points(expected_stream.name).unwrap();
        let mut sorted = points.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, expected_stream.elements());
        let all = expected_stream.elements();
        expected = points.iter().map(|point| expected[all.binary_search(point).unwrap()]).collect();
    }
    assert_eq!(found, expected, "{expected_stream:?} in {stored:?}");
    if matches!(expected_stream.what, SampledElements::Whole) && expected_stream.name == "whole" {
        let part = Hyperslab::new([2, 1, 1], [3, 4, 2]);
        let cut =
            ModelStream { what: SampledElements::Cuboids(vec![part.clone()]), ..expected_stream.clone() };
        assert_eq!(
            reader.read_part::<f64>(expected_stream.name, stored, 0, &part).unwrap(),
            cut.values(&samples)
        );
    }
}

fn found(reader: &Reader, name: &str, stored: &aqueduct_stream::StoredStep) -> Vec<f64> {
    fn widen<T: StreamValue>(
        reader: &Reader,
        name: &str,
        stored: &aqueduct_stream::StoredStep,
        wide: fn(T) -> f64,
    ) -> Vec<f64> {
        reader.read::<T>(name, stored).unwrap().into_iter().map(wide).collect()
    }
    match name {
        "boxes" => widen::<f32>(reader, name, stored, f64::from),
        "points" => widen::<i32>(reader, name, stored, f64::from),
        "rare" => widen::<u64>(reader, name, stored, |value| value as f64),
        "peak" => widen::<u16>(reader, name, stored, f64::from),
        "least of three" => widen::<i64>(reader, name, stored, |value| value as f64),
        _ => widen::<f64>(reader, name, stored, |value| value),
    }
}
