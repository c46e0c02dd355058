//! Outputs that are continued from a checkpoint: the bytes are those of a run that was never interrupted.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::File;
use aqueduct_object::{decode_all, encode_all};
use aqueduct_stream::{Error, Kind, OutputMode, Reader, ResumeState};
use aqueduct_testkit::rng::SeededRng;

use crate::fixed_steps::{MODES, check_hdf5, check_netcdf, whole_run};
use crate::program::{self, Decomposition, FileKind, STEPS};

const DECOMPOSITIONS: [Decomposition; 5] =
    [Decomposition(1, 1), Decomposition(2, 1), Decomposition(3, 1), Decomposition(2, 2), Decomposition(1, 5)];

fn ranks(decomposition: Decomposition) -> usize {
    decomposition.0 * decomposition.1
}

fn bytes(name: &str) -> Vec<u8> {
    let read = |world: &Comm| {
        let file = File::open(world, name)?;
        let mut bytes = vec![0; file.size()? as usize];
        file.at(0).read(&mut bytes)?;
        Ok::<_, Error>(bytes)
    };
    Launch::threads(1).run(read).unwrap().remove(0)
}

/// The part of a file that has to be the same: in a stream file the data, because its description has a random number.
fn assert_same(name: &str, reference: &str, context: &str) {
    let (one, other) = (bytes(name), bytes(reference));
    assert_eq!(one.len(), other.len(), "{context}");
    let first = one.iter().zip(&other).position(|(one, other)| one != other);
    assert_eq!(first, None, "{context}: the first different byte");
}

/// Runs until a step after a checkpoint, as if killed there, and continues on another number of ranks.
fn interrupted(name: &str, kind: FileKind, seed: &mut SeededRng) -> String {
    let mut pick = |from: &[Decomposition]| from[seed.below(from.len())];
    let (first, second) = (pick(&DECOMPOSITIONS), pick(&DECOMPOSITIONS));
    let modes = [MODES[seed.below(3)], MODES[seed.below(3)]];
    let checkpoint = seed.number() % STEPS;
    let stop = checkpoint + seed.number() % (STEPS - checkpoint);
    let context = format!("{kind:?} {first:?} {second:?} {modes:?}, checkpoint {checkpoint}, stop {stop}");
    let mut leg = whole_run(name, kind, modes[0], first);
    (leg.checkpoint, leg.stop) = (Some(checkpoint), Some(stop));
    // The end without `finish` loses reductions, which is an error of the run.
    let states = std::sync::Mutex::new(vec![None; ranks(first)]);
    let _ = Launch::threads(ranks(first)).run(|world| {
        let state = program::run(world, &leg)?;
        states.lock().unwrap()[world.rank()] = state;
        Ok::<_, Error>(())
    });
    let states: Vec<ResumeState> = states.into_inner().unwrap().into_iter().map(Option::unwrap).collect();
    assert!(states.iter().all(|state| state.step() == checkpoint), "{context}");
    // Through the encoding of a checkpoint.
    let states: Vec<ResumeState> = decode_all(&encode_all(&states), states.len()).unwrap();
    let rest = crate::program::Run { states: Some(&states), ..whole_run(name, kind, modes[1], second) };
    Launch::threads(ranks(second))
        .run(|world| program::run(world, &rest))
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    context
}

#[test]
fn hdf5_files_are_continued_to_the_byte() {
    let reference = whole_run("memfs:never.h5", FileKind::Hdf5, OutputMode::Blocking, Decomposition(1, 1));
    Launch::threads(1).run(|world| program::run(world, &reference)).unwrap();
    for number in 0..60 {
        let context = interrupted("memfs:again.h5", FileKind::Hdf5, &mut SeededRng::new(number));
        assert_same("memfs:again.h5", "memfs:never.h5", &context);
    }
    check_hdf5("memfs:again.h5");
}

#[test]
fn netcdf_files_are_continued_to_the_byte() {
    let reference = whole_run("memfs:never.nc", FileKind::Netcdf, OutputMode::Thread, Decomposition(2, 1));
    Launch::threads(2).run(|world| program::run(world, &reference)).unwrap();
    for number in 0..30 {
        let context = interrupted("memfs:again.nc", FileKind::Netcdf, &mut SeededRng::new(1000 + number));
        assert_same("memfs:again.nc", "memfs:never.nc", &context);
    }
    check_netcdf("memfs:again.nc");
}

#[test]
fn stream_files_are_continued_to_the_byte() {
    let reference = whole_run("memfs:never", FileKind::Stream, OutputMode::Thread, Decomposition(3, 1));
    Launch::threads(3).run(|world| program::run(world, &reference)).unwrap();
    for number in 0..60 {
        let context = interrupted("memfs:again", FileKind::Stream, &mut SeededRng::new(2000 + number));
        assert_same("memfs:again", "memfs:never", &context);
        let same_steps = |world: &Comm| {
            let (one, other) = (Reader::open(world, "memfs:again")?, Reader::open(world, "memfs:never")?);
            assert_eq!(one.stored_steps(), other.stored_steps(), "{context}");
            assert!(one.is_finished() && one.incomplete_steps().is_empty(), "{context}");
            assert_eq!((one.verify()?, one.points("q")?), (Vec::new(), &program::MASK[..]), "{context}");
            Ok::<_, Error>(())
        };
        Launch::threads(1).run(same_steps).unwrap();
    }
}

/// What cannot be continued is refused on all ranks, with the reason.
#[test]
fn other_streams_steps_and_files_are_refused() {
    let name = "memfs:refused-resume";
    let mut leg = whole_run(name, FileKind::Stream, OutputMode::Blocking, Decomposition(2, 1));
    leg.checkpoint = Some(5);
    let states: Vec<ResumeState> = Launch::threads(2)
        .run(|world| program::run(world, &leg))
        .unwrap()
        .into_iter()
        .map(Option::unwrap)
        .collect();
    let refused = |states: &[ResumeState], name: &str, kind: FileKind| {
        let again = crate::program::Run {
            states: Some(states),
            ..whole_run(name, kind, OutputMode::Blocking, Decomposition(2, 1))
        };
        let errors =
            Launch::threads(2).run(|world| Ok::<_, Error>(program::run(world, &again).unwrap_err())).unwrap();
        assert_eq!(errors[0].kind(), errors[1].kind(), "{errors:?}");
        errors[0].clone()
    };
    let error = refused(&[], name, FileKind::Stream);
    assert!(error.kind() == Kind::BadArgument && error.detail().contains("no rank has a state"), "{error}");
    let error = refused(&states[..1], name, FileKind::Stream);
    assert!(error.kind() == Kind::Damaged && error.detail().contains("missing"), "{error}");
    let error = refused(&states, "memfs:refused-missing", FileKind::Stream);
    assert_eq!(error.kind(), Kind::NoSuchFile, "{error}");
    // A file that is shorter than the state says.
    let short = "memfs:refused-short";
    let mut leg = whole_run(short, FileKind::Stream, OutputMode::Blocking, Decomposition(2, 1));
    leg.stop = Some(4);
    let _ = Launch::threads(2).run(|world| program::run(world, &leg));
    let error = refused(&states, short, FileKind::Stream);
    assert!(error.kind() == Kind::Incomplete && error.detail().contains("flush the output"), "{error}");
    let hdf5 = "memfs:refused-short.h5";
    let mut leg = whole_run(hdf5, FileKind::Hdf5, OutputMode::Blocking, Decomposition(2, 1));
    leg.stop = Some(4);
    let _ = Launch::threads(2).run(|world| program::run(world, &leg));
    let error = refused(&states, hdf5, FileKind::Hdf5);
    assert!(error.kind() == Kind::Incomplete && error.detail().contains("complete rows"), "{error}");
}
