//! A program whose streams every format of arrays can store, in every mode and on a device that fails; and the
//! expected values.

use std::sync::Arc;

use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::target::OutputTarget;
use aqueduct_stream::{
    Declaration, Error, Hyperslab, Kind, Options, Output, OutputMode, Reduction, Role, Stream, StreamKey,
    Streams, split_io_servers,
};

use crate::model::{ModelStream, SHAPE, SampledElements, value_at};

/// More than a cycle of every reduction, and a part of another one.
pub(crate) const STEPS: u64 = 5;

/// The streams as the model sees them.
pub(crate) fn model_streams() -> [ModelStream; 5] {
    let boxes = vec![
        Hyperslab::new([1, 2, 0], [5, 2, 4]),
        Hyperslab::new([3, 0, 0], [0, 2, 2]),
        Hyperslab::new([2, 1, 2], [3, 4, 3]),
    ];
    let points = (0..SHAPE.iter().product()).filter(|point| point % 5 == 1).collect();
    let stream = |name, what, reduction, every| ModelStream { name, what, reduction, every };
    [
        stream("whole", SampledElements::Whole, Reduction::None, None),
        stream("boxes", SampledElements::Cuboids(boxes), Reduction::None, None),
        stream("points", SampledElements::Points(points), Reduction::None, Some(2)),
        stream("peak", SampledElements::Whole, Reduction::Max, None),
        stream("mean", SampledElements::Whole, Reduction::Mean, Some(2)),
    ]
}

/// The ranks hold slices along y: those of a group form one box.
fn block(comm: &Comm) -> Hyperslab {
    let border = |rank: usize| SHAPE[1] * rank as u64 / comm.size() as u64;
    let (first, last) = (border(comm.rank()), border(comm.rank() + 1));
    Hyperslab::new([0, first, 0], [SHAPE[0], last - first, SHAPE[2]])
}

fn holds(block: &Hyperslab, point: u64) -> bool {
    let y = point / SHAPE[2] % SHAPE[1];
    (block.start[1]..block.start[1] + block.count[1]).contains(&y)
}

/// The keys of the streams.
pub(crate) type Keys = (StreamKey<f64>, StreamKey<f32>, StreamKey<i32>, StreamKey<u16>, StreamKey<i64>);

/// Declares all streams, for this rank.
pub(crate) fn declare(comm: &Comm) -> (Streams, Keys) {
    let block = block(comm);
    let mut streams = Streams::new();
    let mut expected_stream = model_streams().into_iter();
    let mut next = || {
        let expected_stream = expected_stream.next().unwrap();
        let stream =
            Stream::array(expected_stream.name, SHAPE).block(block.start.clone(), block.count.clone());
        let stream = stream.reduce(expected_stream.reduction);
        let stream = expected_stream.every.map_or(stream.clone(), |every| stream.every(every));
        match expected_stream.what {
            SampledElements::Whole => stream,
            SampledElements::Cuboids(cuboids) => stream.cuboids(cuboids),
            SampledElements::Points(points) => {
                stream.points(points.into_iter().filter(|point| holds(&block, *point)))
            }
        }
    };
    let keys = (
        streams.add(next()),
        streams.add(next()),
        streams.add(next()),
        streams.add(next()),
        streams.add(next()),
    );
    (streams, keys)
}

/// Commits one step.
pub(crate) fn step(comm: &Comm, output: &mut Output, keys: &Keys, step: u64) -> Result<(), Error> {
    let block = block(comm);
    let elements = (0..SHAPE.iter().product()).filter(|point| holds(&block, *point));
    let values: Vec<u64> = elements.map(|element| value_at(element, step)).collect();
    let doubles: Vec<f64> = values.iter().map(|value| *value as f64).collect();
    let floats: Vec<f32> = values.iter().map(|value| *value as f32).collect();
    let ints: Vec<i32> = values.iter().map(|value| *value as i32).collect();
    let shorts: Vec<u16> = values.iter().map(|value| *value as u16).collect();
    let longs: Vec<i64> = values.iter().map(|value| *value as i64).collect();
    let begun = output.step()?.put(keys.0, &doubles).put(keys.1, &floats).put(keys.2, &ints);
    begun.put(keys.3, &shorts).put(keys.4, &longs).commit().map(drop)
}

/// All steps, and the end.
pub(crate) fn run(comm: &Comm, mut output: Output, keys: &Keys) -> Result<(), Error> {
    (0..STEPS).try_for_each(|number| step(comm, &mut output, keys, number))?;
    let report = output.finish()?;
    assert!(report.memory_peak <= report.memory_cap, "{report:?}");
    Ok(())
}

/// Creates a target.
pub(crate) type Make = fn(&Comm, &str, &Arc<Declaration>) -> Result<Box<dyn OutputTarget>, Error>;

/// The whole program, in any mode but servers.
pub(crate) fn write(world: &Comm, name: &str, options: &Options, make: Make) -> Result<(), Error> {
    let (streams, keys) = declare(world);
    let make = |comm: &Comm, declared: &Arc<Declaration>| make(comm, name, declared);
    run(world, options.create_on(world, name, &streams, make)?, &keys)
}

/// The same with I/O servers of this memory.
pub(crate) fn serve(world: &Comm, name: &str, servers: usize, memory: u64, make: Make) -> Result<(), Error> {
    match split_io_servers(world, servers)? {
        Role::Server(server) => {
            let service = server.memory(memory).serve_into(make)?;
            assert!(service.failures.is_empty() && service.memory_peak <= memory, "{service:?}");
            Ok(())
        }
        Role::Compute(compute) => {
            let (streams, keys) = declare(compute.comm());
            let output =
                Options::new().replace().served_by(&compute).create(compute.comm(), name, &streams)?;
            run(compute.comm(), output, &keys)
        }
    }
}

/// Runs the program on threads in every mode, and checks each outcome.
pub(crate) fn in_every_mode(ranks: impl IntoIterator<Item = usize>, make: Make, check_file: impl Fn(&str)) {
    for ranks in ranks {
        for mode in [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders] {
            for memory in [2000, 1 << 20] {
                let name = format!("memfs:{mode:?}-{ranks}-{memory}");
                let options = Options::new().replace().mode(mode).memory(memory).group(2);
                Launch::threads(ranks).run(|world| write(world, &name, &options, make)).unwrap();
                check_file(&name);
            }
        }
    }
    for (ranks, servers, memory) in [(2, 1, 1 << 20), (4, 1, 6000), (8, 2, 1 << 20)] {
        let name = format!("memfs:served-{ranks}");
        Launch::threads(ranks).run(|world| serve(world, &name, servers, memory, make)).unwrap();
        check_file(&name);
    }
}

/// A program with a stream that a target cannot store is refused, with an error that names it.
pub(crate) fn refused(add: impl Fn(&mut Streams) + Send + Sync, (kind, name): (Kind, &str), make: Make) {
    let program = |world: &Comm| {
        let mut streams = Streams::new();
        add(&mut streams);
        let make = |comm: &Comm, declared: &Arc<Declaration>| make(comm, "memfs:refused", declared);
        let error =
            Options::new().replace().create_on(world, "refused", &streams, make).map(drop).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(name), "{error}");
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(program).unwrap();
}

/// Compares arrays with the model. `read` returns all values of an array, or of a step of it.
pub(crate) fn check(name: &str, read: impl Fn(&str, Option<u64>) -> Vec<f64>) {
    let [whole, boxes, points, peak, mean] = model_streams();
    let numbers = read("points.points", None);
    for step in 0..STEPS {
        assert_eq!(read("whole", Some(step)), whole.values(&[step]), "{name}");
        let both = ["boxes.0", "boxes.2"].map(|part| read(part, Some(step))).concat();
        assert_eq!(both, boxes.values(&[step]), "{name}");
        let last = points.samples(step).is_some();
        let expected = numbers.iter().map(|number| value_at(*number as u64, step) as f64);
        let expected: Vec<f64> = if last { expected.collect() } else { vec![0.0; numbers.len()] };
        if let Some(probes) = Some(read("points", Some(step))).filter(|probes| last || !probes.is_empty()) {
            assert_eq!(probes, expected, "{name}");
        }
        let means = read("mean", Some(step));
        // The last one is stored at the end.
        let samples = mean.samples(step).or_else(|| mean.samples_at_end(STEPS).filter(|_| step + 1 == STEPS));
        assert_eq!(means, samples.map_or(vec![0.0; means.len()], |samples| mean.values(&samples)), "{name}");
    }
    let mut sorted = numbers;
    sorted.sort_by(f64::total_cmp);
    assert_eq!(sorted, points.elements().iter().map(|point| *point as f64).collect::<Vec<_>>());
    let all: Vec<u64> = (0..STEPS).collect();
    assert_eq!(read("peak", None), peak.values(&all), "{name}");
}

/// Runs the program on a device that fails at its writes and syncs in turn. The error names its step on all ranks,
/// and `complete` finds the steps before it in the file, or one more that was committed before the failure.
pub(crate) fn over_a_failing_device(make: Make, complete: impl Fn(&str) -> u64) {
    let mut failures = 0;
    for (mode, operation) in [(OutputMode::Blocking, "write"), (OutputMode::Thread, "sync")] {
        for nth in (1..400).step_by(3) {
            let inner = format!("memfs:failing-{mode:?}-{operation}-{nth}");
            let name = format!("fault=seed={nth},rank=0,{operation}=#{nth}+:{inner}");
            let program = |world: &Comm| {
                let outcome = write(world, &name, &Options::new().replace().mode(mode), make);
                Ok::<_, Error>(outcome.err())
            };
            let errors = Launch::threads(2).run(program).unwrap();
            let [Some(first), Some(second)] = &errors[..] else {
                assert!(errors.iter().all(Option::is_none), "{name}: {errors:?}");
                break;
            };
            assert_eq!((first.step(), first.kind()), (second.step(), second.kind()), "{first}, {second}");
            assert!(first.to_string().contains("injected"), "{first}");
            // An error before the first step, or after the last one, names none.
            let Some(step) = first.step() else { continue };
            failures += 1;
            let found = complete(&inner);
            assert!(found == step || found == step + 1, "{name}: {found} complete, {first}");
        }
    }
    assert!(failures > 5, "{failures}");
}
