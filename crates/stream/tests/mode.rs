//! The mode of an output, and the report of its times.

#[path = "cases/observed_target.rs"]
mod observed_target;

use std::time::Duration;

use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::target::{NetcdfTarget, OutputTarget, StepBatch};
use aqueduct_stream::{Error, Options, Output, OutputMode, OutputReport, Reader, Stream, StreamKey, Streams};
use observed_target::{ObservedTarget, processor, stays_on};

/// A step of this number of values is just larger than a step that the program itself writes.
const LARGE: u64 = 240_000;

/// One array of this number of values, divided equally.
fn declare(world: &Comm, values: u64) -> (Streams, StreamKey<f64>) {
    let mut streams = Streams::new();
    let each = values / world.size() as u64;
    let key = streams.add(Stream::array("a", [values]).block([each * world.rank() as u64], [each]));
    (streams, key)
}

/// Stores steps, each filled with its number, after a pause each.
fn steps(
    world: &Comm,
    output: &mut Output,
    (key, values): (StreamKey<f64>, u64),
    steps: u64,
    pause: Duration,
) -> Result<(), Error> {
    for step in 0..steps {
        std::thread::sleep(pause);
        let values = vec![step as f64; (values / world.size() as u64) as usize];
        output.step()?.put(key, &values).commit()?;
    }
    Ok(())
}

fn check(world: &Comm, name: &str, values: u64, report: &OutputReport) -> Result<(), Error> {
    let reader = Reader::open(world, name)?;
    assert!(reader.is_finished() && reader.stored_steps().len() as u64 == report.steps);
    for step in 0..report.steps {
        let found = reader.read::<f64>("a", reader.step(step).expect("complete"))?;
        assert!(found == vec![step as f64; values as usize], "step {step}");
    }
    assert!(report.memory_peak <= report.memory_cap, "{report:?}");
    Ok(())
}

#[test]
fn auto_is_a_thread_for_large_steps_and_blocking_for_small_ones() {
    let cases =
        [(LARGE, OutputMode::Thread, "an I/O thread"), (1000, OutputMode::Blocking, "from 1.5 MB on")];
    for (values, mode, reason) in cases {
        let run = |world: &Comm| {
            let (streams, key) = declare(world, values);
            let name = format!("memfs:auto-{values}");
            let mut output = Options::new().create(world, &name, &streams)?;
            assert!(output.mode().0 == mode && output.mode().1.contains(reason), "{:?}", output.mode());
            steps(world, &mut output, (key, values), 12, Duration::ZERO)?;
            let report = output.finish()?;
            assert!(report.mode == mode && report.reason.contains(reason), "{report:?}");
            check(world, &name, values, &report)
        };
        Launch::threads(2).run(run).unwrap();
    }
}

#[test]
fn auto_is_leaders_for_small_pieces_on_several_nodes() {
    let run = |world: &Comm| {
        let (streams, key) = declare(world, LARGE);
        let mut output = Options::new().create(world, "memfs:auto-leaders", &streams)?;
        assert!(output.mode().1.contains("16 ranks of a node have 60 kB each"), "{:?}", output.mode());
        steps(world, &mut output, (key, LARGE), 3, Duration::ZERO)?;
        let report = output.finish()?;
        assert_eq!(report.mode, OutputMode::Leaders);
        check(world, "memfs:auto-leaders", LARGE, &report)
    };
    Launch::threads(32).node_ranks(16).run(run).unwrap();
}

/// Steps that are too small for a thread: the program of the leader writes for its node.
#[test]
fn small_steps_on_several_nodes_are_written_by_leaders_without_threads() {
    let run = |world: &Comm| {
        let (streams, key) = declare(world, 320);
        let make = |comm: &Comm, declared: &_| {
            assert_eq!(comm.size(), 2, "only leaders open the file");
            let target = NetcdfTarget::create(comm, "memfs:auto-small.nc", declared)?;
            Ok(Box::new(target) as Box<dyn OutputTarget>)
        };
        let mut output = Options::new().create_on(world, "memfs:auto-small.nc", &streams, make)?;
        assert!(output.mode().0 == OutputMode::Blocking && output.mode().1.contains("one writes for all"));
        steps(world, &mut output, (key, 320), 4, Duration::ZERO)?;
        output.finish().map(drop)
    };
    Launch::threads(8).node_ranks(4).run(run).unwrap();
    let read = |world: &Comm| {
        let file = aqueduct_formats::netcdf::NetcdfOpenOptions::new().open(world, "memfs:auto-small.nc")?;
        let variable = file.variable("a")?;
        for step in 0..4 {
            let found = file.at(variable, aqueduct_formats::Selection::record(step)).read_vec::<f64>()?;
            assert_eq!(found, vec![step as f64; 320], "step {step}");
        }
        file.close()
    };
    Launch::threads(1).run(read).unwrap();
}

/// The size of lists differs from step to step, so that it is not known in advance.
#[test]
fn auto_is_a_thread_for_lists() {
    let run = |world: &Comm| {
        let mut streams = Streams::new();
        let key = streams.add::<u64>(Stream::list("ids", 1));
        let mut output = Output::create(world, "memfs:auto-list", &streams)?;
        assert_eq!(output.mode().0, OutputMode::Thread);
        output.step()?.put(key, &[world.rank() as u64]).commit()?;
        output.finish().map(drop)
    };
    Launch::threads(2).run(run).unwrap();
}

/// A program that computes for 20 ms per step on a medium that takes 30 ms.
#[test]
fn the_report_has_the_times_of_steps() {
    const STEPS: u64 = 8;
    let [computing, writing] = [20, 30].map(Duration::from_millis);
    for mode in [OutputMode::Blocking, OutputMode::Thread] {
        let run = |world: &Comm| {
            let (streams, key) = declare(world, 1000);
            let medium = move |_: &StepBatch| std::thread::sleep(writing);
            let make = |_: &Comm, _: &_| Ok(Box::new(ObservedTarget(medium)) as Box<dyn OutputTarget>);
            let mut output = Options::new().mode(mode).create_on(world, "timed", &streams, make)?;
            steps(world, &mut output, (key, 1000), STEPS, computing)?;
            let report = output.finish()?;
            // The time before the first commit belongs to no step.
            assert!(report.computing >= computing * (STEPS as u32 - 1), "{report}");
            assert!(report.writing >= writing * STEPS as u32, "{report}");
            assert_eq!(report.in_commit >= writing * STEPS as u32, mode == OutputMode::Blocking, "{report}");
            let line = report.to_string();
            let words = ["(requested): 8 steps, 32000 bytes; per step ", " ms computing", " ms writing"];
            assert!(words.iter().all(|word| line.contains(word)), "{line}");
            Ok::<_, Error>(())
        };
        Launch::threads(2).run(run).unwrap();
    }
}

/// The medium is full at some step: every rank gets the error, and none waits.
#[test]
fn a_full_medium_ends_an_output_on_all_ranks() {
    for megabytes in (1..30).step_by(7) {
        let inner = format!("memfs:full-{megabytes}");
        let run = |world: &Comm| {
            let (streams, key) = declare(world, LARGE);
            let name = format!("fault=nospace={megabytes}MB:{inner}");
            let mut output = Options::new().replace().create(world, &name, &streams)?;
            let mut store = || {
                steps(world, &mut output, (key, LARGE), 1, Duration::ZERO)?;
                output.step().map(drop)
            };
            let error = (0..40).find_map(|_| store().err()).expect("the medium is full");
            assert!(error.step().is_some_and(|step| step <= megabytes / 2 + 1), "{error}");
            assert_eq!(output.finish().map(drop).unwrap_err().step(), error.step());
            world.barrier()?;
            let reader = Reader::open(world, &inner)?;
            assert_eq!(reader.stored_steps().len() as u64, error.step().unwrap_or(0), "{error}");
            Ok::<_, Error>(())
        };
        Launch::threads(4).run(run).unwrap_or_else(|error| panic!("{megabytes} MB: {error}"));
    }
}

#[test]
fn a_thread_is_bound_to_its_processor() {
    let cpu = processor();
    let run = |world: &Comm| {
        let (streams, key) = declare(world, LARGE);
        let options = Options::new().replace().mode(OutputMode::Thread).pin([cpu]);
        let mut output = options.create_on(world, "pinned", &streams, |_, _| Ok(stays_on(cpu)))?;
        steps(world, &mut output, (key, LARGE), 1, Duration::ZERO)?;
        output.finish().map(drop)
    };
    Launch::threads(2).run(run).unwrap();
}

/// Of two processors a rank is bound to one: its I/O thread runs on the other one, of more than two on any other.
#[test]
fn a_thread_finds_a_processor_that_no_rank_is_bound_to() {
    let all = rustix::thread::sched_getaffinity(None).unwrap();
    if all.count() < 2 {
        eprintln!("skipped: this process may use one processor only");
        return;
    }
    let own = processor();
    let run = |world: &Comm| {
        let mut set = rustix::thread::CpuSet::new();
        set.set(own);
        rustix::thread::sched_setaffinity(None, &set).unwrap();
        let (streams, key) = declare(world, LARGE);
        let options = Options::new().replace().mode(OutputMode::Thread).free_cores();
        let mut output = options.create_on(world, "free", &streams, |_, _| {
            Ok(Box::new(ObservedTarget(move |_: &StepBatch| {
                let allowed = rustix::thread::sched_getaffinity(None).unwrap();
                assert!(allowed.count() == 1 && !allowed.is_set(own));
            })))
        })?;
        steps(world, &mut output, (key, LARGE), 1, Duration::ZERO)?;
        output.finish().map(drop)
    };
    Launch::threads(2).run(run).unwrap();
}
