//! A user-defined target: batches arrive in order, once each, whatever the delays; a buffer is not changed while it
//! is written.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::target::{ChunkSource, OutputTarget, StepBatch};
use aqueduct_stream::{Error, Options, OutputMode, Reduction, Stream, Streams};
use aqueduct_testkit::rng::SeededRng;

/// The data that a target received on a rank.
#[derive(Debug, Default)]
struct Got {
    parcels: Vec<(StepBatch, Vec<u8>)>,
    syncs: Vec<usize>,
    finished: Option<u64>,
}

/// Keeps everything, after random delays.
struct Slow {
    comm: Comm,
    got: Arc<Mutex<Got>>,
    seed: SeededRng,
}

impl Slow {
    fn delay(&mut self) {
        std::thread::sleep(Duration::from_micros(self.seed.number() % 100));
    }
}

impl OutputTarget for Slow {
    fn write(&mut self, batch: &StepBatch, source: &mut dyn ChunkSource) -> Result<(), Error> {
        let mut all = Vec::new();
        for _ in 0..source.chunks() {
            let chunk = source.next()?;
            let before = chunk.to_vec();
            std::thread::sleep(Duration::from_micros(self.seed.number() % 100));
            assert!(chunk == before, "a buffer was reused while it was written");
            all.extend(before);
        }
        assert!(source.next()?.is_empty());
        self.comm.barrier()?;
        self.got.lock().unwrap().parcels.push((batch.clone(), all));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.delay();
        let mut got = self.got.lock().unwrap();
        let parcels = got.parcels.len();
        got.syncs.push(parcels);
        Ok(())
    }

    fn finish(self: Box<Self>, steps: u64) -> Result<(), Error> {
        self.got.lock().unwrap().finished = Some(steps);
        Ok(())
    }
}

/// One run with random parameters.
fn run(number: u64) {
    let mut seed = SeededRng::new(number);
    let ranks = 1 + seed.below(3);
    let mode = [OutputMode::Thread, OutputMode::Thread, OutputMode::Blocking][seed.below(3)];
    let (buffers, values) = (1 + seed.below(3), 1 + seed.below(40));
    let (memory, steps) = (64 * buffers as u64 + seed.number() % 300, seed.number() % 6);
    let durable = 1 + seed.number() % 3;
    let program = |world: &Comm| {
        let got = Arc::new(Mutex::new(Got::default()));
        let theirs = Arc::clone(&got);
        let mut delays = SeededRng::new(number ^ (world.rank() as u64) << 40);
        let mut streams = Streams::new();
        let array = |name| Stream::array(name, [world.size() as u64, values as u64]);
        let array = |name| array(name).block([world.rank() as u64, 0], [1, values as u64]);
        let every = streams.add::<u64>(array("every"));
        let peak = streams.add::<u64>(array("peak").reduce(Reduction::Max));
        let options =
            Options::new().replace().mode(mode).buffers(buffers).memory(memory).durable_every(durable);
        let mut output = options.create_on(world, "slow", &streams, move |comm, _| {
            let seed = SeededRng::new(number + comm.rank() as u64);
            Ok(Box::new(Slow { comm: comm.clone(), got: theirs, seed }))
        })?;
        for step in 0..steps {
            std::thread::sleep(Duration::from_micros(delays.number() % 100));
            let mut data: Vec<u64> = (0..values as u64).map(|at| step * 1000 + at).collect();
            output.step()?.put(every, &data).put(peak, &data).commit()?;
            // The program changes its array.
            data.fill(u64::MAX);
        }
        let report = output.finish()?;
        assert!(report.memory_peak <= report.memory_cap && report.memory_cap <= memory, "{report:?}");
        let got = got.lock().unwrap();
        let expected = |step: u64| -> Vec<u8> {
            (0..values as u64).flat_map(|at| (step * 1000 + at).to_le_bytes()).collect()
        };
        let found: Vec<(u64, bool)> =
            got.parcels.iter().map(|(batch, _)| (batch.step, batch.closing)).collect();
        let mut all: Vec<(u64, bool)> = (0..steps).map(|step| (step, false)).collect();
        all.extend(steps.checked_sub(1).map(|last| (last, true)));
        assert_eq!(found, all, "seed {number}: no step lost or doubled");
        assert!(got.parcels.iter().all(|(batch, bytes)| *bytes == expected(batch.step)), "seed {number}");
        assert_eq!(got.finished, Some(steps));
        assert_eq!(got.syncs.len() as u64, all.len() as u64 / durable);
        Ok::<_, Error>(())
    };
    Launch::threads(ranks).run(program).unwrap_or_else(|error| panic!("seed {number}: {error}"));
}

#[test]
fn a_thousand_seeded_runs_with_random_delays() {
    let first = std::env::var("AQUEDUCT_SEED").ok().and_then(|seed| seed.parse().ok());
    match first {
        Some(seed) => run(seed),
        None => (0..1000).for_each(run),
    }
}

/// A target that panics is an error with its step, not a hang.
#[test]
fn a_target_that_panics_is_an_error() {
    struct Panics;
    impl OutputTarget for Panics {
        fn write(&mut self, batch: &StepBatch, _source: &mut dyn ChunkSource) -> Result<(), Error> {
            assert!(batch.step < 2, "it panics here");
            Ok(())
        }

        fn sync(&mut self) -> Result<(), Error> {
            Ok(())
        }

        fn finish(self: Box<Self>, _steps: u64) -> Result<(), Error> {
            Ok(())
        }
    }
    let program = |world: &Comm| {
        let mut streams = Streams::new();
        let key =
            streams.add::<u8>(Stream::array("a", [world.size() as u64]).block([world.rank() as u64], [1]));
        let options = Options::new().replace().mode(OutputMode::Thread);
        let mut output = options.create_on(world, "panics", &streams, |_, _| Ok(Box::new(Panics)))?;
        for _ in 0..5 {
            if let Ok(step) = output.step() {
                let _ = step.put(key, &[1]).commit();
            }
        }
        let error = output.finish().unwrap_err();
        assert_eq!(error.step(), Some(2), "{error}");
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(program).unwrap();
}
