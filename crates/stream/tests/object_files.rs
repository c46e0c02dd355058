//! Streams in object files, in every mode, under real launchers, and on a device that fails: the objects of the
//! deposits exist, with their types.

#[path = "cases/fields.rs"]
#[allow(dead_code, reason = "part of it is for files of arrays")]
mod fields;
#[path = "cases/model.rs"]
mod model;

use std::path::Path;
use std::sync::Arc;

use aqueduct_comm::{Comm, Launch};
use aqueduct_object::{Object, ObjectFile};
use aqueduct_stream::target::{Deposit, ObjectTarget, Of, OutputTarget};
use aqueduct_stream::{
    Declaration, Error, Kind, Options, OutputMode, Role, Stream, Streams, split_io_servers,
};
use aqueduct_testkit::mpi_job::MpiJob;
use fields::STEPS;

const JOB: MpiJob = MpiJob::new(env!("CARGO_TARGET_TMPDIR"));

#[derive(Object, Clone, Debug, PartialEq)]
struct Grain {
    charged: bool,
    id: u64,
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Trail {
    name: String,
    parts: Vec<u16>,
}

fn target(comm: &Comm, name: &str, declared: &Arc<Declaration>) -> Result<Box<dyn OutputTarget>, Error> {
    Ok(Box::new(ObjectTarget::create(comm, name, declared)?))
}

/// All objects of a file.
fn all<T: Object + Send>(name: &str) -> Vec<T> {
    let read = |world: &Comm| {
        let file = ObjectFile::<T>::open(world, name)?;
        let objects = file.at(0).read_vec(file.count()?)?;
        file.close()?;
        Ok::<_, aqueduct_object::Error>(objects)
    };
    Launch::threads(1).run(read).unwrap().remove(0)
}

fn values<T: Object + Send>(name: &str, stream: &str, wide: fn(T) -> f64) -> Vec<f64> {
    all::<T>(&format!("{name}.{stream}")).into_iter().map(wide).collect()
}

/// The values of a stream of arrays, of all steps.
fn stored(name: &str, stream: &str) -> Vec<f64> {
    match stream {
        "boxes" => values::<f32>(name, stream, f64::from),
        "points" => values::<i32>(name, stream, f64::from),
        "peak" => values::<u16>(name, stream, f64::from),
        _ => values::<f64>(name, stream, |value| value),
    }
}

/// Compares the objects of the deposits with the model; other objects do not count. Returns the number of complete
/// steps.
fn check(name: &str) -> u64 {
    let deposits = all::<Deposit>(name);
    let numbers: Vec<u64> = all(&format!("{name}.points.points"));
    let texts: Vec<String> = all(&format!("{name}.streams"));
    for (number, stream) in fields::model_streams().iter().enumerate() {
        assert!(texts[number].contains(&format!("\"name\":\"{}\"", stream.name)), "{texts:?}");
        let found = stored(name, stream.name);
        let mut expected_first = 0;
        for deposit in
            deposits.iter().filter(|deposit| deposit.of != Of::End && deposit.stream as usize == number)
        {
            let samples = match deposit.of {
                Of::Step => stream.samples(deposit.step),
                _ => stream.samples_at_end(STEPS),
            };
            let samples = samples.unwrap_or_else(|| panic!("{stream:?} stores nothing then: {deposit:?}"));
            let mut expected = stream.values(&samples);
            if stream.name == "points" {
                let at = |number: &u64| stream.elements().binary_search(number).unwrap();
                expected = numbers.iter().map(|number| expected[at(number)]).collect();
            }
            let (first, count) = (deposit.first as usize, deposit.count as usize);
            assert_eq!(found[first..first + count], expected, "{name}: {deposit:?}");
            assert_eq!((deposit.first, deposit.samples), (expected_first, samples.len() as u64), "{name}");
            expected_first += deposit.count;
        }
    }
    let whole = deposits.iter().filter(|deposit| deposit.of == Of::Step && deposit.stream == 0);
    let steps: Vec<u64> = whole.map(|deposit| deposit.step).collect();
    assert_eq!(steps, (0..steps.len() as u64).collect::<Vec<_>>(), "{name}");
    steps.len() as u64
}

fn check_all(name: &str) {
    assert_eq!(check(name), STEPS, "{name}");
    let end = all::<Deposit>(name).pop().unwrap();
    assert_eq!((end.of, end.step), (Of::End, STEPS), "{name}");
}

#[test]
fn every_mode_fills_the_same_files() {
    fields::in_every_mode([1, 3, 4], target, check_all);
}

#[test]
fn a_device_that_fails_keeps_the_steps_before() {
    fields::over_a_failing_device(target, check);
}

fn grains(rank: usize, step: u64) -> Vec<Grain> {
    (0..(rank as u64 + step * 2) % 4).map(|at| Grain { charged: at == 1, id: at + 10 * step }).collect()
}

fn trails(rank: usize, step: u64) -> Vec<Trail> {
    let trail = |at: u64| Trail { name: "r".repeat(rank), parts: (0..(at * 7 + step) as u16 % 5).collect() };
    (0..(rank as u64 * 3 + step) % 5).map(trail).collect()
}

fn items(rank: usize, step: u64) -> Vec<f32> {
    vec![rank as f32 + step as f32; 3 * rank]
}

/// Commits objects and items.
fn commit_steps(comm: &Comm, options: &Options, name: &str, direct: bool) -> Result<(), Error> {
    let mut streams = Streams::new();
    let first = streams.add_objects(Stream::objects("grains"));
    let second = streams.add_objects(Stream::objects("trails").every(2));
    let third = streams.add::<f32>(Stream::list("items", 3));
    let make = |comm: &Comm, declared: &Arc<Declaration>| target(comm, name, declared);
    let mut output = if direct {
        options.create_on(comm, name, &streams, make)?
    } else {
        options.create(comm, name, &streams)?
    };
    for step in 0..STEPS {
        let (grains, trails) = (grains(comm.rank(), step), trails(comm.rank(), step));
        let items = items(comm.rank(), step);
        output
            .step()?
            .put_objects(first, &grains)
            .put_objects(second, &trails)
            .put(third, &items)
            .commit()?;
    }
    output.finish().map(drop)
}

/// The objects of each step are those of rank 0, of rank 1 …, at the places of its deposits.
fn check_objects(name: &str, writers: usize) {
    let deposits = all::<Deposit>(name);
    let (found, paths): (Vec<Grain>, Vec<Trail>) =
        (all(&format!("{name}.grains")), all(&format!("{name}.trails")));
    let threes: Vec<[f32; 3]> = all(&format!("{name}.items"));
    for deposit in deposits.iter().filter(|deposit| deposit.of == Of::Step) {
        let part = deposit.first as usize..(deposit.first + deposit.count) as usize;
        let step = deposit.step;
        // The lengths of the trails are stream 2.
        match deposit.stream {
            0 => assert!(found[part].iter().cloned().eq((0..writers).flat_map(|rank| grains(rank, step)))),
            1 => assert!(paths[part].iter().cloned().eq((0..writers).flat_map(|rank| trails(rank, step)))),
            3 => assert!(
                threes[part].concat() == (0..writers).flat_map(|rank| items(rank, step)).collect::<Vec<_>>()
            ),
            other => panic!("{name}: a deposit of stream {other}"),
        }
    }
    // Of three streams in all steps, of which one is stored in every second.
    assert_eq!(deposits.len() as u64, 2 * STEPS + STEPS.div_ceil(2) + 1, "{name}");
}

fn serve_objects(world: &Comm, name: &str, servers: usize, memory: u64) -> Result<(), Error> {
    match split_io_servers(world, servers)? {
        Role::Server(server) => server.memory(memory).serve_into(target).map(drop),
        Role::Compute(compute) => {
            commit_steps(compute.comm(), &Options::new().replace().served_by(&compute), name, false)
        }
    }
}

#[test]
fn objects_of_any_size_in_every_mode() {
    for ranks in [1, 3, 4] {
        for mode in [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders] {
            for memory in [600, 1 << 20] {
                let name = format!("memfs:objects-{mode:?}-{ranks}-{memory}");
                let options = Options::new().replace().mode(mode).memory(memory).group(2);
                Launch::threads(ranks).run(|world| commit_steps(world, &options, &name, true)).unwrap();
                check_objects(&name, ranks);
            }
        }
    }
    for (ranks, servers, memory) in [(3, 1, 6000), (6, 2, 1 << 20)] {
        let name = format!("memfs:objects-served-{ranks}");
        Launch::threads(ranks).run(|world| serve_objects(world, &name, servers, memory)).unwrap();
        check_objects(&name, ranks - servers);
    }
}

#[test]
fn invalid_file_names_are_refused() {
    for wrong in ["meta", "streams", "streams.meta", "a/b", "points.points"] {
        let add = |streams: &mut Streams| {
            streams.add::<u8>(Stream::array("points", [1]).points([]));
            streams.add_objects::<String>(Stream::objects(wrong));
        };
        fields::refused(add, (Kind::BadArgument, wrong), target);
    }
}

fn job(world: &Comm, folder: &str) -> Result<(), Error> {
    let thread = Options::new().replace().mode(OutputMode::Thread).memory(1000);
    fields::write(world, &format!("ufs:{folder}/fields"), &thread, target)?;
    commit_steps(
        world,
        &Options::new().replace().mode(OutputMode::Leaders).group(2),
        &format!("ufs:{folder}/led"),
        true,
    )?;
    if world.size() > 2 {
        serve_objects(world, &format!("ufs:{folder}/served"), 1, 6000)?;
    }
    Ok(())
}

#[test]
fn a_job() {
    if let Some(folder) = JOB.run(job) {
        check_all(&format!("ufs:{}/fields", folder.path().display()));
    }
}

fn check_file(folder: &Path) {
    let name = |file: &str| format!("ufs:{}/{file}", folder.display());
    check_all(&name("fields"));
    check_objects(&name("led"), 4);
    check_objects(&name("served"), 3);
}

#[test]
fn openmpi() {
    JOB.check_under("openmpi", 4, check_file);
}

#[test]
fn mpich() {
    JOB.check_under("mpich", 4, check_file);
}
