//! Readers that read steps in sequence: the next steps are read ahead, within the cap, and the values are the same.

use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::{Error, Hyperslab, Options, Reader, Stream, Streams};

const SIDE: u64 = 32;
const STEPS: u64 = 20;
const BYTES: u64 = SIDE * SIDE * 8;

fn value(step: u64, place: u64) -> f64 {
    (step * 10_000 + place) as f64
}

fn field(step: u64) -> Vec<f64> {
    (0..SIDE * SIDE).map(|place| value(step, place)).collect()
}

/// A file of some steps, in memory.
fn written(name: &str) {
    let write = |world: &Comm| {
        let mut streams = Streams::new();
        let field_stream =
            streams.add::<f64>(Stream::array("field", [SIDE, SIDE]).block([0, 0], [SIDE, SIDE]));
        let mut output = Options::new().replace().create(world, name, &streams)?;
        for step in 0..STEPS {
            output.step()?.put(field_stream, &field(step)).commit()?;
        }
        output.finish().map(drop)
    };
    Launch::threads(1).run(write).unwrap();
}

/// Opens a file, perhaps through a layer, and calls `program`.
fn look(name: &str, ranks: usize, program: impl Fn(&Reader) -> Result<(), Error> + Send + Sync) {
    Launch::threads(ranks).run(|world| program(&Reader::open(world, name)?)).unwrap();
}

fn read(reader: &Reader, step: u64) -> Result<(), Error> {
    let values = reader.read::<f64>("field", reader.step(step).expect("it is complete"))?;
    assert!(values == field(step), "step {step}");
    Ok(())
}

#[test]
fn steps_in_sequence_are_read_ahead_within_the_cap() {
    written("memfs:walked");
    look("throttle=300us:memfs:walked", 2, |reader| {
        reader.prefetch(3 * BYTES + 100);
        (0..STEPS).try_for_each(|step| read(reader, step))?;
        let stats = reader.prefetch_stats();
        assert_eq!(
            (stats.hits, stats.misses),
            (STEPS - 2, 2),
            "all but the two that began the walk: {stats:?}"
        );
        assert!(stats.peak == 3 * BYTES && stats.held <= stats.cap, "{stats:?}");
        // Backwards, and every third.
        (0..STEPS).rev().try_for_each(|step| read(reader, step))?;
        assert!(reader.prefetch_stats().hits >= 2 * STEPS - 6, "{:?}", reader.prefetch_stats());
        let hits = reader.prefetch_stats().hits;
        (0..STEPS).step_by(3).try_for_each(|step| read(reader, step))?;
        assert!(reader.prefetch_stats().hits >= hits + 3, "{:?}", reader.prefetch_stats());
        assert!(reader.prefetch_stats().peak <= 3 * BYTES + 100);
        Ok(())
    });
}

#[test]
fn parts_have_their_own_sequences() {
    written("memfs:parts");
    look("memfs:parts", 1, |reader| {
        let part = Hyperslab::new([3, 5], [4, 6]);
        for step in 0..STEPS {
            let stored = reader.step(step).expect("it is complete");
            let values = reader.read_part::<f64>("field", stored, 0, &part)?;
            let places = (3..7).flat_map(|row| (5..11).map(move |column| row * SIDE + column));
            assert!(values == places.map(|place| value(step, place)).collect::<Vec<_>>(), "step {step}");
            read(reader, step)?;
        }
        let stats = reader.prefetch_stats();
        assert_eq!((stats.hits, stats.misses), (2 * (STEPS - 2), 4), "{stats:?}");
        Ok(())
    });
}

#[test]
fn jumps_and_a_cap_of_zero_read_nothing_ahead() {
    written("memfs:leaps");
    look("memfs:leaps", 1, |reader| {
        for step in [3, 11, 0, 17, 8, 8, 2] {
            read(reader, step)?;
        }
        assert_eq!((reader.prefetch_stats().hits, reader.prefetch_stats().peak), (0, 0));
        reader.prefetch(0);
        (0..STEPS).try_for_each(|step| read(reader, step))?;
        assert_eq!((reader.prefetch_stats().hits, reader.prefetch_stats().peak), (0, 0));
        // Steps that are read ahead when the sequence ends are dropped.
        reader.prefetch(BYTES * 4);
        (0..4).try_for_each(|step| read(reader, step))?;
        reader.prefetch(0);
        (0..4).try_for_each(|step| read(reader, step))
    });
}

#[test]
fn a_device_error_is_returned_with_the_requested_step() {
    written("memfs:unread");
    let (mut while_opening, mut while_reading) = (0, 0);
    for nth in 1..80 {
        // From the nth read on every read fails, ahead or not.
        let program = |world: &Comm| {
            let name = format!("fault=seed={nth},read=#{nth}+:memfs:unread");
            let Ok(reader) = Reader::open(world, &name) else { return Ok(None) };
            let failed = (0..STEPS).find_map(|step| Some((step, read(&reader, step).err()?)));
            Ok::<_, Error>(Some(failed))
        };
        match Launch::threads(1).run(program).unwrap().remove(0) {
            None => while_opening += 1,
            Some(Some((step, error))) => {
                while_reading += 1;
                assert_eq!(error.step(), Some(step), "{error}");
            }
            Some(None) => {}
        }
    }
    // Opening reads the records of all steps in few accesses; each step is then one more.
    assert!(while_opening > 2 && while_reading >= STEPS, "{while_opening} {while_reading}");
}
