//! A reader that follows a program: it sees each step once, complete, and the end.

use std::time::Duration;

use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::{Error, Kind, Options, OutputMode, Reader, Reduction, ResumeState, Stream, Streams};

use crate::fixed_steps::{MODES, whole_run};
use crate::program::{self, Decomposition, FileKind, Run, STEPS};

const SIZE: u64 = 3000;
const LIMIT: Duration = Duration::from_secs(120);

fn value(at: u64, step: u64) -> f64 {
    (at + 10_000 * step) as f64
}

fn write(world: &Comm, name: &str, mode: OutputMode, steps: u64) -> Result<(), Error> {
    let (rank, ranks) = (world.rank() as u64, world.size() as u64);
    let (start, end) = (SIZE * rank / ranks, SIZE * (rank + 1) / ranks);
    let mut streams = Streams::new();
    let stream = |name| Stream::array(name, [SIZE]).block([start], [end - start]);
    let level = streams.add::<f64>(stream("level"));
    let peak = streams.add::<f64>(stream("peak").reduce(Reduction::Max));
    let mut output = Options::new().mode(mode).memory(9000).create(world, name, &streams)?;
    for step in 0..steps {
        let values: Vec<f64> = (start..end).map(|at| value(at, step)).collect();
        output.step()?.put(level, &values).put(peak, &values).commit()?;
        if step % 8 == 3 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    output.finish().map(drop)
}

/// Reads all steps as they appear; their number.
fn follow(world: &Comm, name: &str) -> Result<u64, Error> {
    let mut reader = loop {
        match Reader::open(world, name) {
            Ok(reader) => break reader,
            // Not all ranks look at the same time: an error of one is that of all.
            Err(error) if matches!(error.kind(), Kind::NoSuchFile | Kind::Incomplete | Kind::Damaged) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    };
    let mut seen = 0;
    loop {
        for stored in &reader.stored_steps()[seen..] {
            if stored.is_closing {
                continue;
            }
            assert_eq!(stored.step, seen as u64);
            let expected: Vec<f64> = (0..SIZE).map(|at| value(at, stored.step)).collect();
            assert!(reader.read::<f64>("level", stored)? == expected, "step {}", stored.step);
            seen += 1;
        }
        if reader.is_finished() {
            assert!(reader.closing().is_some() && reader.incomplete_steps().is_empty());
            return Ok(seen as u64);
        }
        assert!(reader.wait(LIMIT)? > 0 || reader.is_finished(), "nothing happened for {LIMIT:?}");
    }
}

#[test]
fn every_step_is_seen_once_and_complete() {
    for (number, mode) in MODES.into_iter().enumerate() {
        let name = format!("memfs:followed-{number}");
        std::thread::scope(|scope| {
            let writer =
                scope.spawn(|| Launch::threads(3).run(|world| write(world, &name, mode, 60)).unwrap());
            let counts = Launch::threads(2).run(|world| follow(world, &name)).unwrap();
            writer.join().unwrap();
            assert_eq!(counts, [60, 60], "{mode:?}");
        });
    }
}

/// A program that restarts from a checkpoint takes steps back: the reader forgets them, and sees them again.
#[test]
fn steps_that_are_taken_back_are_forgotten() {
    let name = "memfs:followed-restart";
    let mut leg = whole_run(name, FileKind::Stream, OutputMode::Blocking, Decomposition(2, 1));
    (leg.checkpoint, leg.stop) = (Some(5), Some(9));
    let states = std::sync::Mutex::new(Vec::new());
    let _ = Launch::threads(2).run(|world| {
        let state = program::run(world, &leg)?;
        states.lock().unwrap().extend(state);
        Ok::<_, Error>(())
    });
    let states: Vec<ResumeState> = states.into_inner().unwrap();
    let read = |world: &Comm| {
        let mut reader = Reader::open(world, name)?;
        // Steps 2 to 8, and the mean of four of them in step 5.
        assert_eq!(reader.stored_steps().len(), 7);
        // Continued until step 7: two of the seven steps are there again, two are not.
        let rest = Run { states: Some(&states), stop: Some(7), checkpoint: None, ..leg.clone() };
        let _ = Launch::threads(2).run(|world| program::run(world, &rest));
        assert_eq!((reader.refresh()?, reader.stored_steps().len()), (0, 5));
        let rest = Run { states: Some(&states), stop: None, checkpoint: None, ..leg.clone() };
        Launch::threads(2).run(|world| program::run(world, &rest)).unwrap();
        assert_eq!(reader.refresh()?, STEPS - program::FROM - 5 + 1, "and the reductions at the end");
        assert!(reader.is_finished() && reader.verify()?.is_empty());
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(read).unwrap();
}

#[test]
fn another_file_of_the_same_name_is_refused() {
    let name = "memfs:followed-replaced";
    Launch::threads(1).run(|world| write(world, name, OutputMode::Blocking, 3)).unwrap();
    let program = |world: &Comm| {
        let mut streams = Streams::new();
        streams.add::<f64>(Stream::array("other", [4]).block([0], [4]));
        let output = Options::new().replace().mode(OutputMode::Blocking).create(world, name, &streams)?;
        let mut reader = Reader::open(world, name)?;
        output.finish()?;
        Options::new().replace().mode(OutputMode::Blocking).create(world, name, &streams)?.finish()?;
        let error = reader.refresh().unwrap_err();
        assert!(error.kind() == Kind::Damaged && error.detail().contains("replaced"), "{error}");
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(program).unwrap();
}
