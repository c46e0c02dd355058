//! The mode that is chosen while a program runs, by the clock: it follows what the program and its medium do, and the file is the same. With the times of
//! a model, to the step: `src/chooser/tests.rs`.

#[path = "cases/watched.rs"]
mod watched;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::target::{ChunkSource, FileTarget, OutputTarget, StepBatch};
use aqueduct_stream::{
    Declaration, Error, ModeChange, Options, Output, OutputMode, OutputReport, Reader, Stream, StreamKey,
    Streams,
};
use watched::{Watched, processor, stays_on};

/// What each rank holds: all ranks together have a little more than a small step.
fn values(world: &Comm) -> u64 {
    240_000 / world.size() as u64
}

fn declare(world: &Comm) -> (Streams, StreamKey<f64>) {
    let mut streams = Streams::new();
    let (values, rank) = (values(world), world.rank() as u64);
    let key =
        streams.add(Stream::array("a", [values * world.size() as u64]).block([values * rank], [values]));
    (streams, key)
}

/// Computes for so long in each step; the modes after each.
fn steps(
    world: &Comm,
    output: &mut Output,
    key: StreamKey<f64>,
    each: &[Duration],
) -> Result<Vec<OutputMode>, Error> {
    let mut modes = Vec::new();
    for computing in each {
        std::thread::sleep(*computing);
        let values = vec![output.progress().accepted as f64; values(world) as usize];
        output.step()?.put(key, &values).commit()?;
        modes.push(output.mode().0);
    }
    Ok(modes)
}

/// Every step holds its number, and every change has its reason.
fn check(world: &Comm, name: &str, report: &OutputReport) -> Result<(), Error> {
    let reader = Reader::open(world, name)?;
    assert!(reader.is_finished() && reader.stored_steps().len() as u64 == report.steps);
    for step in 0..report.steps {
        let found = reader.read::<f64>("a", reader.step(step).expect("complete"))?;
        assert!(found == vec![step as f64; 240_000], "step {step}");
    }
    judge(report);
    Ok(())
}

fn judge(report: &OutputReport) {
    let last = report.changes.last().expect("it began somehow");
    assert!(report.changes[0].step == 0 && last.mode == report.mode, "{report:?}");
    assert!(report.changes.iter().all(|change| !change.reason.is_empty()), "{report:?}");
    assert!(report.memory_peak <= report.memory_cap, "{report:?}");
}

const SHORT: Duration = Duration::from_millis(20);

#[test]
fn large_steps_are_hidden_from_the_first_on() {
    let run = |world: &Comm| {
        let (streams, key) = declare(world);
        let mut output =
            Options::new().replace().create(world, "throttle=100MB/s:memfs:auto-slow", &streams)?;
        // Later a machine that stands still for a while may change its mind.
        let modes = steps(world, &mut output, key, &[SHORT; 12])?;
        assert_eq!(modes[..6], [OutputMode::Thread; 6], "{:?}", output.mode());
        let report = output.finish()?;
        assert!(report.changes[0].reason.contains("with a thread, until more is known"), "{report:?}");
        check(world, "memfs:auto-slow", &report)
    };
    Launch::threads(2).run(run).unwrap();
}

/// Where writing beside the program takes much longer than while it waits, no thread is better.
#[test]
fn a_thread_that_does_not_help_is_given_up() {
    let run = |world: &Comm| {
        let computes = Arc::new(AtomicBool::new(false));
        let (streams, key) = declare(world);
        let theirs = Arc::clone(&computes);
        let medium = move |_: &StepBatch| {
            std::thread::sleep(Duration::from_millis(5));
            if theirs.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(150));
            }
        };
        let make = |_: &Comm, _: &_| Ok(Box::new(Watched(medium)) as Box<dyn OutputTarget>);
        let mut output = Options::new().replace().create_on(world, "worse", &streams, make)?;
        let mut modes = Vec::new();
        for _ in 0..24 {
            computes.store(true, Ordering::Relaxed);
            std::thread::sleep(SHORT);
            computes.store(false, Ordering::Relaxed);
            modes.extend(steps(world, &mut output, key, &[Duration::ZERO])?);
        }
        assert_eq!(modes[0], OutputMode::Thread);
        assert_eq!(modes[20..], [OutputMode::Blocking; 4], "{:?}", output.mode());
        let report = output.finish()?;
        judge(&report);
        assert!(report.reason.contains("with a thread"), "{report:?}");
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(run).unwrap();
}

/// A file on a medium that does not like many writers.
struct Crowded {
    file: FileTarget,
    own: u64,
    writers: bool,
}

impl OutputTarget for Crowded {
    fn write(&mut self, parcel: &StepBatch, supply: &mut dyn ChunkSource) -> Result<(), Error> {
        std::thread::sleep(Duration::from_millis(if self.writers { 16 } else { 2 }));
        self.file.write(parcel, supply)
    }

    fn redeclare(&mut self, declared: &Arc<Declaration>) -> bool {
        self.writers = declared.place(0).size() == self.own;
        self.file.redeclare(declared)
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.file.sync()
    }

    fn finish(self: Box<Self>, steps: u64) -> Result<(), Error> {
        Box::new(self.file).finish(steps)
    }
}

#[test]
fn leaders_come_to_write_where_that_is_faster() {
    let run = |world: &Comm| {
        let (streams, key) = declare(world);
        let make = |comm: &Comm, declared: &Arc<Declaration>| {
            let (file, own) =
                (FileTarget::create(comm, "memfs:crowded", declared)?, declared.place(0).size());
            Ok(Box::new(Crowded { file, own, writers: true }) as Box<dyn OutputTarget>)
        };
        let mut output = Options::new().replace().create_on(world, "crowded", &streams, make)?;
        let modes = steps(world, &mut output, key, &[Duration::from_millis(6); 80])?;
        assert_eq!(modes[0], OutputMode::Thread);
        let report = output.finish()?;
        let tried = |change: &ModeChange| change.reason.contains("by leaders");
        assert!(report.changes.iter().any(tried), "{report:?}");
        check(world, "memfs:crowded", &report)
    };
    Launch::threads(4).run(run).unwrap();
}

/// The medium is full somewhere among the steps, before, between and behind decisions: every rank learns of it, and nobody waits for a decision.
#[test]
fn a_failure_ends_the_choosing() {
    for megabytes in (1..30).step_by(3) {
        let inner = format!("memfs:full-{megabytes}");
        let run = |world: &Comm| {
            let (streams, key) = declare(world);
            let name = format!("fault=nospace={megabytes}MB:{inner}");
            let mut output = Options::new().replace().create(world, &name, &streams)?;
            let mut written = 0;
            let error = loop {
                match steps(world, &mut output, key, &[Duration::ZERO]).and_then(|_| output.step().map(drop))
                {
                    Ok(()) if written < 40 => written += 1,
                    Ok(()) => panic!("nothing has failed on rank {}", world.rank()),
                    Err(error) => break error,
                }
            };
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
fn a_thread_stays_on_its_processor() {
    let cpu = processor();
    let run = |world: &Comm| {
        let (streams, key) = declare(world);
        let options = Options::new().replace().mode(OutputMode::Thread).pin([cpu]);
        let mut output = options.create_on(world, "pinned", &streams, |_, _| Ok(stays_on(cpu)))?;
        steps(world, &mut output, key, &[Duration::ZERO])?;
        output.finish().map(drop)
    };
    Launch::threads(2).run(run).unwrap();
}
