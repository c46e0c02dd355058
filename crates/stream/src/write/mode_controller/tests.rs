//! The mode that is chosen while a program runs whose times are a model's: every change is known to the step. Whole outputs, on threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_comm::{Comm, Launch};
use aqueduct_object::{Object, ObjectFile};

use super::ModeChange;
use crate::target::{Deposit, FileTarget, NetcdfTarget, ObjectTarget, OutputTarget};
use crate::write::mode_policy::WriteMode;
use crate::write::step_timer::{StepTime, StepTimer};
use crate::{
    Declaration, Error, Options, Output, OutputMode, OutputReport, Reader, Stream, StreamKey, Streams,
};

/// A program and its medium, of one rank; in milliseconds per step.
#[derive(Debug)]
struct Modelled {
    computing: AtomicU64,
    writing: f64,
    /// How much longer writing takes beside computing, and by leaders.
    disturbed: f64,
    gathered: f64,
}

/// Computing and writing take equally long.
fn even() -> Modelled {
    Modelled { computing: AtomicU64::new(20), writing: 20.0, disturbed: 1.0, gathered: 1.0 }
}

impl StepTimer for Modelled {
    fn step_time(&self, way: WriteMode, waited: bool, clock: StepTime) -> StepTime {
        assert!(clock.computing >= 0.0 && clock.in_commit >= 0.0 && clock.writing.is_none());
        let computing = self.computing.load(Ordering::Relaxed) as f64 / 1e3;
        let writing = self.writing / 1e3 * if way.gather { self.gathered } else { 1.0 };
        let beside = writing * self.disturbed;
        let (in_commit, writing) = if way.thread && !waited {
            ((beside - computing).max(0.001), beside)
        } else {
            (writing, writing)
        };
        StepTime { computing, in_commit, writing: Some(writing) }
    }
}

type Make = fn(&Comm, &str, &Arc<Declaration>) -> Result<Box<dyn OutputTarget>, Error>;

fn file(comm: &Comm, name: &str, declared: &Arc<Declaration>) -> Result<Box<dyn OutputTarget>, Error> {
    Ok(Box::new(FileTarget::create(comm, name, declared)?))
}

/// An output whose ranks have so many values each, and the model of this one.
struct Program {
    world: Comm,
    output: Output,
    key: StreamKey<f64>,
    values: u64,
    model: Arc<Modelled>,
}

impl Program {
    fn new(world: &Comm, name: &str, values: u64, model: Modelled, make: Make) -> Result<Self, Error> {
        let (rank, ranks, model) = (world.rank() as u64, world.size() as u64, Arc::new(model));
        let mut streams = Streams::new();
        let key = streams.add(Stream::array("a", [ranks, values]).block([rank, 0], [1, values]));
        let mut options = Options::new().replace();
        options.timer = Arc::clone(&model) as Arc<dyn StepTimer>;
        let make = |comm: &Comm, declared: &Arc<Declaration>| make(comm, name, declared);
        let output = options.create_on(world, name, &streams, make)?;
        Ok(Self { world: world.clone(), output, key, values, model })
    }

    /// So many steps that compute for so long.
    fn steps(&mut self, steps: u64, computing: u64) -> Result<(), Error> {
        self.model.computing.store(computing, Ordering::Relaxed);
        for _ in 0..steps {
            let step = self.output.progress().accepted;
            let values = expected(step, self.world.rank() as u64, self.values);
            self.output.step()?.put(self.key, &values).commit()?;
        }
        Ok(())
    }
}

/// What a rank stores in a step.
fn expected(step: u64, rank: u64, values: u64) -> Vec<f64> {
    (0..values).map(|at| (step * 1000 + rank * 100 + at % 100) as f64).collect()
}

fn modes(report: &OutputReport) -> Vec<(u64, OutputMode)> {
    report.changes.iter().map(|change| (change.step, change.mode)).collect()
}

fn check(world: &Comm, name: &str, values: u64, steps: u64) -> Result<(), Error> {
    let reader = Reader::open(world, name)?;
    assert!(reader.is_finished() && reader.stored_steps().len() as u64 == steps);
    for step in 0..steps {
        let found = reader.read::<f64>("a", reader.step(step).expect("complete"))?;
        let all = (0..world.size() as u64).flat_map(|rank| expected(step, rank, values));
        assert!(all.eq(found), "step {step}");
    }
    Ok(())
}

/// A little more than a small step, on two ranks.
const LARGE: u64 = 100_000;

#[test]
fn what_can_be_hidden_is_hidden_from_the_first_step_to_the_last() {
    let run = |world: &Comm| {
        let mut program = Program::new(world, "memfs:modelled-hidden", LARGE, even(), file)?;
        program.steps(60, 25)?;
        let report = program.output.finish()?;
        assert_eq!(modes(&report), [(0, OutputMode::Thread)], "{report:?}");
        assert!(report.changes[0].reason.contains("until more is known"), "{report:?}");
        assert!(report.reason.contains("25.00 ms of computing and 20.00 ms of writing"), "{report:?}");
        check(world, "memfs:modelled-hidden", LARGE, 60)
    };
    Launch::threads(2).run(run).unwrap();
}

/// A program that first computes, then only writes, then computes again.
#[test]
fn the_mode_follows_the_load() {
    let run = |world: &Comm| {
        let mut program = Program::new(world, "memfs:modelled-load", LARGE, even(), file)?;
        program.steps(15, 25)?;
        program.steps(25, 0)?;
        program.steps(20, 25)?;
        let report = program.output.finish()?;
        assert_eq!(
            modes(&report),
            [(0, OutputMode::Thread), (29, OutputMode::Blocking), (45, OutputMode::Thread)],
            "{report:?}"
        );
        assert!(report.changes[1].reason.contains("could not save"), "{report:?}");
        assert!(report.changes[2].reason.contains("hides the shorter"), "{report:?}");
        check(world, "memfs:modelled-load", LARGE, 60)
    };
    Launch::threads(2).run(run).unwrap();
}

/// Writing beside the program takes three times as long: a step that waits shows it.
#[test]
fn a_thread_that_does_not_help_is_given_up() {
    let run = |world: &Comm| {
        let model = Modelled { disturbed: 3.0, ..even() };
        let mut program = Program::new(world, "memfs:modelled-worse", LARGE, model, file)?;
        program.steps(40, 20)?;
        let report = program.output.finish()?;
        assert_eq!(modes(&report), [(0, OutputMode::Thread), (19, OutputMode::Blocking)], "{report:?}");
        assert!(report.changes[1].reason.contains("60.00 ms with a thread, 40.00 ms without"), "{report:?}");
        check(world, "memfs:modelled-worse", LARGE, 40)
    };
    Launch::threads(2).run(run).unwrap();
}

/// Two nodes of four ranks with little each begin by leaders, which are slow here: tried by each rank, and so it stays.
fn turns_from_leaders(name: &'static str, make: Make) {
    let run = move |world: &Comm| {
        let model = Modelled { gathered: 2.0, ..even() };
        let mut program = Program::new(world, name, 40, model, make)?;
        program.steps(50, 20)?;
        turned(&program.output.finish()?);
        Ok::<_, Error>(())
    };
    Launch::threads(8).node_ranks(4).run(run).unwrap();
}

fn turned(report: &OutputReport) {
    let [first, second] = &report.changes[..] else { panic!("{report:?}") };
    let told = |change: &ModeChange, step, words| change.step == step && change.reason.contains(words);
    assert!(told(first, 0, "one of them writes for all"), "{report:?}");
    assert!(told(second, 36, "tried by each rank"), "{report:?}");
    assert!(report.memory_peak <= report.memory_cap, "{report:?}");
}

#[test]
fn a_stream_file_goes_over_from_leaders_to_each_rank() {
    turns_from_leaders("memfs:modelled-turns", file);
    Launch::threads(8).run(|world| check(world, "memfs:modelled-turns", 40, 50)).unwrap();
}

#[test]
fn a_netcdf_file_goes_over_from_leaders_to_each_rank() {
    turns_from_leaders("memfs:modelled-turns.nc", |comm, name, declared| {
        Ok(Box::new(NetcdfTarget::create(comm, name, declared)?))
    });
    let read = |world: &Comm| {
        let file =
            aqueduct_formats::netcdf::NetcdfOpenOptions::new().open(world, "memfs:modelled-turns.nc")?;
        let variable = file.variable("a")?;
        for step in 0..50 {
            let found = file.at(variable, aqueduct_formats::Selection::record(step)).read_vec::<f64>()?;
            assert!((0..8).flat_map(|rank| expected(step, rank, 40)).eq(found), "step {step}");
        }
        assert_eq!(file.records(), 50);
        file.close()
    };
    Launch::threads(1).run(read).unwrap();
}

fn object_files(
    comm: &Comm,
    name: &str,
    declared: &Arc<Declaration>,
) -> Result<Box<dyn OutputTarget>, Error> {
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

#[test]
fn object_files_go_over_from_leaders_to_each_rank() {
    turns_from_leaders("memfs:modelled-turns-objects", object_files);
    let steps = (0..50).flat_map(|step| (0..8).flat_map(move |rank| expected(step, rank, 40)));
    assert!(steps.eq(all::<f64>("memfs:modelled-turns-objects.a")));
    let deposits = all::<Deposit>("memfs:modelled-turns-objects");
    assert_eq!(deposits.len(), 51);
    let each = deposits[..50].iter().zip(0..);
    for (deposit, step) in each {
        assert_eq!((deposit.step, deposit.first, deposit.count), (step, 320 * step, 320));
    }
}

/// The objects of a rank in a step: of any number and size.
fn words(step: u64, rank: u64) -> Vec<String> {
    (0..(step + 3 * rank) % 4).map(|at| format!("{step} {rank} {}", "x".repeat(at as usize))).collect()
}

/// Where they lie in their file depends on all ranks before, which are led or not.
#[test]
fn objects_of_any_size_go_over_from_leaders_to_each_rank() {
    let name = "memfs:modelled-turns-words";
    let run = |world: &Comm| {
        let mut streams = Streams::new();
        let key = streams.add_objects::<String>(Stream::objects("words"));
        let mut options = Options::new().replace();
        options.timer = Arc::new(Modelled { gathered: 2.0, ..even() });
        let make = |comm: &Comm, declared: &Arc<Declaration>| object_files(comm, name, declared);
        let mut output = options.create_on(world, name, &streams, make)?;
        for step in 0..50 {
            output.step()?.put_objects(key, &words(step, world.rank() as u64)).commit()?;
        }
        turned(&output.finish()?);
        Ok::<_, Error>(())
    };
    Launch::threads(8).node_ranks(4).run(run).unwrap();
    let expected = (0..50).flat_map(|step| (0..8).flat_map(move |rank| words(step, rank)));
    assert!(expected.eq(all::<String>("memfs:modelled-turns-words.words")));
}

#[cfg(feature = "hdf5")]
#[test]
fn an_hdf5_file_goes_over_from_leaders_to_each_rank() {
    turns_from_leaders("memfs:modelled-turns.h5", |comm, name, declared| {
        Ok(Box::new(crate::target::Hdf5Target::create(comm, name, declared)?))
    });
    let read = |world: &Comm| {
        let file = aqueduct_formats::hdf5::Hdf5OpenOptions::new().open(world, "memfs:modelled-turns.h5")?;
        let dataset = file.dataset("/a")?;
        for step in 0..50 {
            let found = file.at(dataset, aqueduct_formats::Selection::record(step)).read_vec::<f64>()?;
            assert!((0..8).flat_map(|rank| expected(step, rank, 40)).eq(found), "step {step}");
        }
        assert_eq!(file.complete(dataset)?, Some(50));
        file.close()
    };
    Launch::threads(1).run(read).unwrap();
}
