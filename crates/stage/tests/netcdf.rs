//! Streams into a netCDF file, in every mode: its variables hold what the model says.

#[path = "cases/model.rs"]
mod model;

use std::sync::Arc;

use aqueduct_comm::{Comm, Launch};
use aqueduct_format::netcdf::{Open, Slab, Value as NetcdfValue};
use aqueduct_stage::target::{NetcdfTarget, Target};
use aqueduct_stage::{
    Cuboid, Declared, Error, Key, Kind, Mode, Options, Output, Reduction, Role, Stream, Streams, split,
};
use model::{SHAPE, Told, What, value_at};

const STEPS: u64 = 5;

fn told() -> [Told; 5] {
    let boxes = vec![
        Cuboid::new([1, 2, 0], [5, 2, 4]),
        Cuboid::new([3, 0, 0], [0, 2, 2]),
        Cuboid::new([2, 1, 2], [3, 4, 3]),
    ];
    let points = (0..SHAPE.iter().product()).filter(|point| point % 5 == 1).collect();
    let stream = |name, what, reduction, every| Told { name, what, reduction, every };
    [
        stream("whole", What::Whole, Reduction::None, None),
        stream("boxes", What::Cuboids(boxes), Reduction::None, None),
        stream("points", What::Points(points), Reduction::None, Some(2)),
        stream("peak", What::Whole, Reduction::Max, None),
        stream("mean", What::Whole, Reduction::Mean, Some(2)),
    ]
}

/// The ranks hold slices along y: those of a group make one box.
fn block(comm: &Comm) -> Cuboid {
    let border = |rank: usize| SHAPE[1] * rank as u64 / comm.size() as u64;
    let (first, last) = (border(comm.rank()), border(comm.rank() + 1));
    Cuboid::new([0, first, 0], [SHAPE[0], last - first, SHAPE[2]])
}

fn holds(block: &Cuboid, point: u64) -> bool {
    let y = point / SHAPE[2] % SHAPE[1];
    (block.start[1]..block.start[1] + block.shape[1]).contains(&y)
}

type Keys = (Key<f64>, Key<f32>, Key<i32>, Key<u16>, Key<i64>);

fn declare(comm: &Comm) -> (Streams, Keys) {
    let block = block(comm);
    let mut streams = Streams::new();
    let mut told = told().into_iter();
    let mut next = || {
        let told = told.next().unwrap();
        let stream = Stream::array(told.name, SHAPE).block(block.start.clone(), block.shape.clone());
        let stream = stream.reduce(told.reduction);
        let stream = told.every.map_or(stream.clone(), |every| stream.every(every));
        match told.what {
            What::Whole => stream,
            What::Cuboids(cuboids) => stream.cuboids(cuboids),
            What::Points(points) => stream.points(points.into_iter().filter(|point| holds(&block, *point))),
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

fn run(comm: &Comm, mut output: Output, keys: &Keys) -> Result<(), Error> {
    let block = block(comm);
    let elements: Vec<u64> = (0..SHAPE.iter().product()).filter(|point| holds(&block, *point)).collect();
    for step in 0..STEPS {
        let values: Vec<u64> = elements.iter().map(|element| value_at(*element, step)).collect();
        let doubles: Vec<f64> = values.iter().map(|value| *value as f64).collect();
        let floats: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        let ints: Vec<i32> = values.iter().map(|value| *value as i32).collect();
        let shorts: Vec<u16> = values.iter().map(|value| *value as u16).collect();
        let longs: Vec<i64> = values.iter().map(|value| *value as i64).collect();
        let begun = output.step()?.put(keys.0, &doubles).put(keys.1, &floats).put(keys.2, &ints);
        begun.put(keys.3, &shorts).put(keys.4, &longs).commit()?;
    }
    let report = output.finish()?;
    assert!(report.memory_peak <= report.memory_cap, "{report:?}");
    Ok(())
}

/// All values of a variable, or of one of its records.
fn read<T: NetcdfValue>(name: &str, variable: &str, record: Option<u64>, wide: fn(T) -> f64) -> Vec<f64> {
    let read = |world: &Comm| {
        let file = Open::new().open(world, name)?;
        let slab = record.map_or(Slab::whole(), Slab::record);
        let values = file.at(file.variable(variable)?, slab).read_vec::<T>()?;
        file.close()?;
        Ok::<_, aqueduct_format::Error>(values)
    };
    Launch::threads(1).run(read).unwrap().remove(0).into_iter().map(wide).collect()
}

fn check(name: &str) {
    let [whole, boxes, points, peak, mean] = told();
    let numbers = read::<u64>(name, "points.points", None, |number| number as f64);
    for step in 0..STEPS {
        assert_eq!(read::<f64>(name, "whole", Some(step), |value| value), whole.values(&[step]), "{name}");
        let both = ["boxes.0", "boxes.2"].map(|part| read::<f32>(name, part, Some(step), f64::from)).concat();
        assert_eq!(both, boxes.values(&[step]), "{name}");
        let probes = read::<i32>(name, "points", Some(step), f64::from);
        let expected = numbers.iter().map(|number| value_at(*number as u64, step) as f64);
        let expected: Vec<f64> =
            if points.samples(step).is_some() { expected.collect() } else { vec![0.0; numbers.len()] };
        assert_eq!(probes, expected, "{name}");
        let means = read::<f64>(name, "mean", Some(step), |value| value);
        // The last one is what was left at the end.
        let samples = mean.samples(step).or_else(|| mean.samples_at_end(STEPS).filter(|_| step + 1 == STEPS));
        assert_eq!(means, samples.map_or(vec![0.0; means.len()], |samples| mean.values(&samples)), "{name}");
    }
    let mut sorted = numbers;
    sorted.sort_by(f64::total_cmp);
    assert_eq!(sorted, points.elements().iter().map(|point| *point as f64).collect::<Vec<_>>());
    let all: Vec<u64> = (0..STEPS).collect();
    assert_eq!(read::<u16>(name, "peak", None, f64::from), peak.values(&all), "{name}");
}

fn target(comm: &Comm, name: &str, declared: &Arc<Declared>) -> Result<Box<dyn Target>, Error> {
    Ok(Box::new(NetcdfTarget::create(comm, name, declared)?))
}

#[test]
fn every_mode_fills_the_same_variables() {
    for ranks in 1..=5 {
        for mode in [Mode::Blocking, Mode::Thread, Mode::Leaders] {
            for memory in [800, 1 << 20] {
                let name = format!("memfs:{mode:?}-{ranks}-{memory}.nc");
                let options = Options::new().mode(mode).memory(memory).group(2);
                let program = |world: &Comm| {
                    let (streams, keys) = declare(world);
                    let make = |comm: &Comm, declared: &Arc<Declared>| target(comm, &name, declared);
                    run(world, options.create_on(world, &name, &streams, make)?, &keys)
                };
                Launch::threads(ranks).run(program).unwrap();
                check(&name);
            }
        }
    }
}

#[test]
fn servers_fill_them_too() {
    for (ranks, servers, memory) in [(2, 1, 1 << 20), (4, 1, 6000), (8, 2, 1 << 20)] {
        let name = format!("memfs:servers-{ranks}.nc");
        let program = |world: &Comm| match split(world, servers)? {
            Role::Server(server) => {
                let service = server.memory(memory).serve_into(target)?;
                assert!(service.failures.is_empty() && service.memory_peak <= memory, "{service:?}");
                Ok(())
            }
            Role::Compute(crew) => {
                let (streams, keys) = declare(crew.comm());
                let output = Options::new().served_by(&crew).create(crew.comm(), &name, &streams)?;
                run(crew.comm(), output, &keys)
            }
        };
        Launch::threads(ranks).run(program).unwrap();
        check(&name);
    }
}

#[test]
fn a_list_is_refused() {
    let program = |world: &Comm| {
        let mut streams = Streams::new();
        streams.add::<f64>(Stream::list("particles", 3));
        let make = |comm: &Comm, declared: &Arc<Declared>| target(comm, "memfs:list.nc", declared);
        let error = Options::new().create_on(world, "memfs:list.nc", &streams, make).map(drop).unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.to_string().contains("particles"), "{error}");
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(program).unwrap();
}
