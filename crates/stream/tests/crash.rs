//! Power failures in every operation of a program: a reader then finds every step that was reported as durable, and
//! no step that is not complete.

#[path = "cases/all_streams.rs"]
mod all_streams;
#[path = "cases/model.rs"]
mod model;

use std::sync::Arc;

use all_streams::{Cut, check, check_end};
use aqueduct_comm::{Comm, Launch};
use aqueduct_device::layers::CrashDevice;
use aqueduct_device::{MemFs, register_device};
use aqueduct_stream::{Error, Kind, Options, OutputMode, Reader};

const CUT: Cut = Cut { axis: 0, uneven: false, halo: 0 };
const STEPS: u64 = 4;

/// The progress that a rank knew before the power failure.
#[derive(Clone, Debug, Default)]
struct Known {
    created: bool,
    accepted: u64,
    durable: u64,
    finished: bool,
}

/// Syncs after every second step, flushes once, finishes: until the power fails.
fn program(world: &Comm, name: &str, mode: OutputMode, known: &mut Known) -> Result<(), Error> {
    let (streams, keys) = all_streams::declare(world, CUT);
    let options = Options::new().replace().mode(mode).durable_every(2).memory(4000);
    let mut output = options.create(world, name, &streams)?;
    known.created = true;
    let mut take = |step: u64| {
        let outcome = all_streams::step(world, &mut output, &keys, CUT, step);
        known.accepted += u64::from(outcome.is_ok());
        let outcome = outcome.and_then(|_| if step == 0 { output.flush() } else { Ok(()) });
        known.durable = output.progress().durable;
        outcome
    };
    (0..STEPS).try_for_each(&mut take)?;
    output.finish()?;
    (known.durable, known.finished) = (STEPS, true);
    Ok(())
}

/// Compares the file with the known progress; true if it can be read.
fn check_file(name: &str, ranks: usize, known: &[Known], context: &str) -> bool {
    let durable = known.iter().map(|known| known.durable).max().unwrap_or(0);
    let created = known.iter().any(|known| known.created);
    let read = |world: &Comm| {
        let reader = match Reader::open(world, name) {
            Ok(reader) => reader,
            Err(error) => {
                let clear = matches!(error.kind(), Kind::Incomplete | Kind::Damaged | Kind::NoSuchFile);
                assert!(clear && !created, "{context}: {error}");
                return Ok::<_, Error>(false);
            }
        };
        for stored in reader.stored_steps().iter().filter(|stored| !stored.is_closing) {
            check(&reader, ranks, stored.step..stored.step + 1);
        }
        let missing = (0..durable).find(|step| reader.step(*step).is_none());
        assert_eq!(missing, None, "{context}: was durable, {known:?}");
        assert!(
            reader.incomplete_steps().iter().all(|lost| !lost.was_durable),
            "{context}: {:?}",
            reader.incomplete_steps()
        );
        assert_eq!(reader.verify()?, [], "{context}");
        if reader.is_finished() {
            check_end(&reader, STEPS);
        }
        let finished = known.iter().any(|known| known.finished);
        assert!(reader.is_finished() || !finished, "{context}: it was outcomes that it had finished");
        Ok(true)
    };
    Launch::threads(1).run(read).unwrap().remove(0)
}

/// Simulates a power failure in every operation.
fn cut_everywhere(mode: OutputMode, ranks: usize, seeds: u64) {
    let (mut read, mut nothing) = (0, 0);
    for seed in 0..seeds {
        for after in 0.. {
            let crash = CrashDevice::new(Arc::new(MemFs::new())).after(after, seed * 1000 + after);
            let prefix = format!("power-{mode:?}-{ranks}-{seed}-{after}").to_lowercase();
            register_device(&prefix, Arc::new(crash)).unwrap();
            let name = format!("{prefix}:a");
            let run = |world: &Comm| {
                let mut known = Known::default();
                let done = program(world, &name, mode, &mut known).is_ok();
                Ok::<_, Error>((known, done))
            };
            let outcomes = Launch::threads(ranks).run(run).unwrap();
            let done = outcomes.iter().all(|(_, done)| *done);
            let known: Vec<Known> = outcomes.into_iter().map(|(known, _)| known).collect();
            let context = format!("{prefix}, power cut after {after} changes, seed {seed}");
            if check_file(&name, ranks, &known, &context) {
                read += 1;
            } else {
                nothing += 1;
            }
            if done {
                break;
            }
            assert!(after < 2000, "the program has an end");
        }
    }
    assert!(read > 20 && nothing > 3, "{read} read, {nothing} with nothing to read");
}

#[test]
fn power_failures_while_the_program_writes() {
    cut_everywhere(OutputMode::Blocking, 1, 4);
}

#[test]
fn power_failures_while_a_thread_writes() {
    cut_everywhere(OutputMode::Thread, 1, 4);
}

#[test]
fn power_failures_with_two_ranks() {
    cut_everywhere(OutputMode::Blocking, 2, 2);
    cut_everywhere(OutputMode::Thread, 2, 2);
}

/// A file that is replaced is the old one, the new one, or missing: never a description of data that is gone.
#[test]
fn power_failures_while_a_file_is_replaced() {
    let (mut old, mut neither) = (0, 0);
    for after in 0..12 {
        for seed in 0..8 {
            let prefix = format!("replaced-{after}-{seed}");
            let memory = Arc::new(MemFs::new());
            register_device(&format!("{prefix}-inner"), Arc::clone(&memory) as Arc<_>).unwrap();
            let first = |world: &Comm| {
                all_streams::write(world, &format!("{prefix}-inner:a"), &Options::new().replace(), CUT, STEPS)
                    .map(drop)
            };
            Launch::threads(1).run(first).unwrap();
            register_device(&prefix, Arc::new(CrashDevice::new(memory).after(after, seed))).unwrap();
            let name = format!("{prefix}:a");
            let second = |world: &Comm| {
                let (streams, _) = all_streams::declare(world, CUT);
                drop(Options::new().replace().create(world, &name, &streams));
                Ok::<_, Error>(())
            };
            Launch::threads(1).run(second).unwrap();
            let read = |world: &Comm| {
                match Reader::open(world, &name) {
                    Ok(reader) if reader.is_finished() => {
                        check(&reader, 1, 0..STEPS);
                        check_end(&reader, STEPS);
                        return Ok(true);
                    }
                    Ok(reader) => assert_eq!(reader.stored_steps(), []),
                    Err(error) => {
                        assert!(matches!(error.kind(), Kind::Incomplete | Kind::Damaged), "{error}");
                    }
                }
                Ok::<_, Error>(false)
            };
            if Launch::threads(1).run(read).unwrap()[0] { old += 1 } else { neither += 1 }
        }
    }
    assert!(old > 3 && neither > 20, "{old} old, {neither} not");
}
