//! Failures are returned with their step on all ranks, no rank waits forever, and earlier complete steps stay
//! complete.

#[path = "cases/all_streams.rs"]
#[allow(dead_code, reason = "nothing is compared here")]
mod all_streams;
#[path = "cases/model.rs"]
#[allow(dead_code, reason = "nothing is compared here")]
mod model;

use std::time::{Duration, Instant};

use all_streams::Cut;
use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::{
    Durability, Error, Hyperslab, Kind, Options, Output, OutputMode, Reader, Reduction, Stream, StreamKey,
    Streams,
};
use aqueduct_testkit::blocking_device::BlockingDevice;

const CUT: Cut = Cut { axis: 0, uneven: false, halo: 0 };
const MODES: [OutputMode; 3] = [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders];

/// A row of ten numbers per rank.
fn rows(world: &Comm) -> (Streams, StreamKey<f64>) {
    let mut streams = Streams::new();
    let shape = [world.size() as u64, 10];
    let rows = streams.add(Stream::array("rows", shape).block([world.rank() as u64, 0], [1, 10]));
    (streams, rows)
}

/// Commits steps until one fails; its error, and that of `finish`.
fn until_failure(output: Output, rows: StreamKey<f64>) -> (Error, Error) {
    let mut output = output;
    for step in 0..1000 {
        let values = [f64::from(step); 10];
        let outcome = output.step().and_then(|step| step.put(rows, &values).commit());
        if let Err(error) = outcome {
            return (error, output.finish().unwrap_err());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    panic!("an error was never errors");
}

#[test]
fn a_device_error_is_returned_with_its_step_on_all_ranks() {
    for mode in MODES {
        for (part, kind) in
            [("write=nospace@#6", aqueduct_file::Kind::NoSpace), ("sync=#9", aqueduct_file::Kind::Io)]
        {
            let inner = format!("failing-{mode:?}-{kind:?}").to_lowercase();
            // The same name would be the same device, whose fault is over.
            let name = format!("fault=seed={},{part}:memfs:{inner}", mode as u8);
            let run = |world: &Comm| {
                let (streams, rows) = rows(world);
                let options = Options::new().replace().mode(mode).durable_every(2);
                Ok::<_, Error>(until_failure(options.create(world, &name, &streams)?, rows))
            };
            let errors = Launch::threads(3).run(run).unwrap();
            let step = errors[0].0.step();
            assert!(step.is_some_and(|step| step > 0), "{}", errors[0].0);
            for (error, at_finish) in errors {
                for error in [error, at_finish] {
                    assert_eq!((error.kind(), error.step()), (kind, step), "{error}");
                }
            }
            // The steps before are in the file.
            let read = |world: &Comm| {
                let reader = Reader::open(world, &format!("memfs:{inner}"))?;
                assert!(!reader.is_finished());
                for before in 0..step.unwrap() {
                    let stored = reader.step(before).expect("complete");
                    assert_eq!(reader.read::<f64>("rows", stored)?, [before as f64; 30]);
                }
                Ok::<_, Error>(())
            };
            Launch::threads(2).run(read).unwrap();
        }
    }
}

#[test]
fn a_rank_with_a_wrong_argument_takes_part_with_its_error() {
    for mode in MODES {
        let run = |world: &Comm| {
            let (streams, rows) = rows(world);
            let mut output = Options::new().replace().mode(mode).create(
                world,
                &format!("memfs:wrong-{mode:?}"),
                &streams,
            )?;
            output.step()?.put(rows, &[1.0; 10]).commit()?;
            let length = if world.rank() == 1 { 9 } else { 10 };
            let values = [1.0; 10];
            let outcome = output.step().and_then(|step| step.put(rows, &values[..length]).commit());
            let error = match outcome {
                Err(error) => error,
                // In the background; the next call returns the error.
                Ok(receipt) => receipt.wait_visible().unwrap_err(),
            };
            assert_eq!(error.step(), Some(1), "{error}");
            assert!(error.to_string().contains("9 values, but this rank's array has 10"), "{error}");
            if world.rank() == 1 {
                assert_eq!(error.kind(), Kind::BadArgument);
            }
            let error = output.finish().unwrap_err();
            assert_eq!(error.step(), Some(1), "{error}");
            Ok::<_, Error>(())
        };
        Launch::threads(3).run(run).unwrap();
    }
}

#[test]
fn a_stream_that_was_not_put_is_named() {
    let run = |world: &Comm| {
        let (streams, _) = rows(world);
        let mut output =
            Options::new().replace().mode(OutputMode::Blocking).create(world, "memfs:forgotten", &streams)?;
        let error = output.step()?.commit().unwrap_err();
        assert!(error.to_string().contains(r#"stream "rows" was not put"#), "{error}");
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(run).unwrap();
}

/// A declaration that is invalid on some rank.
type Declare<'a> = &'a (dyn Fn(&Comm, &mut Streams) + Sync);

#[test]
fn invalid_declarations_are_refused_on_all_ranks() {
    let array = |world: &Comm| Stream::array("a", [4, 4]).block([2 * world.rank() as u64, 0], [2, 4]);
    let cases: [(&str, Kind, Declare<'_>); 6] = [
        ("declaration of the streams", Kind::NotSame, &|world, streams| {
            let reduction = if world.rank() == 0 { Reduction::Max } else { Reduction::Min };
            streams.add::<f64>(array(world).reduce(reduction));
        }),
        ("both hold", Kind::BadArgument, &|_, streams| {
            streams.add::<f64>(Stream::array("a", [4, 4]).block([1, 0], [2, 4]));
        }),
        (
            "of 16 elements to be stored, the blocks of all ranks hold 12",
            Kind::BadArgument,
            &|world, streams| {
                streams.add::<f64>(
                    Stream::array("a", [4, 4])
                        .block([2 * world.rank() as u64, 0], [2 - world.rank() as u64, 4]),
                );
            },
        ),
        ("another one of this name", Kind::BadArgument, &|world, streams| {
            streams.add::<f64>(array(world));
            streams.add::<f32>(array(world));
        }),
        ("does not lie in the array", Kind::BadArgument, &|world, streams| {
            streams.add::<f64>(array(world).cuboids([Hyperslab::new([0, 2], [1, 3])]));
        }),
        ("this rank's block", Kind::BadArgument, &|world, streams| {
            let point = u64::from(world.rank() != 1);
            streams.add::<f64>(array(world).points([point]));
        }),
    ];
    for (words, kind, declare) in cases {
        let run = |world: &Comm| {
            let mut streams = Streams::new();
            declare(world, &mut streams);
            let error = Output::create(world, "memfs:refused", &streams).map(drop).unwrap_err();
            assert!(error.kind() == kind && error.to_string().contains(words), "{words}: {error}");
            Ok::<_, Error>(())
        };
        Launch::threads(2).run(run).unwrap();
    }
    let none = |world: &Comm| {
        let wrong = [
            Options::new().replace().buffers(0),
            Options::new().replace().memory(9),
            Options::new().replace().durable_every(0),
        ];
        for options in wrong {
            let error = options.create(world, "memfs:refused", &Streams::new()).map(drop).unwrap_err();
            assert_eq!(error.kind(), Kind::BadArgument, "{error}");
        }
        let pinned = Options::new().replace().mode(OutputMode::Thread).pin([100_000]);
        assert_eq!(
            pinned.create(world, "memfs:refused", &Streams::new()).map(drop).unwrap_err().kind(),
            Kind::Unsupported
        );
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(none).unwrap();
}

/// A rank ends at any point, with an error or a panic: the other ranks end soon too.
#[test]
fn a_rank_that_fails_ends_the_others() {
    for mode in MODES {
        for (dying, panics) in [(0, false), (2, false), (1, true)] {
            for at in 0..4 {
                let name = format!("memfs:dying-{mode:?}-{dying}-{at}");
                let begun = Instant::now();
                let run = |world: &Comm| {
                    let (streams, keys) = all_streams::declare(world, CUT);
                    let mut output =
                        Options::new().replace().mode(mode).memory(500).create(world, &name, &streams)?;
                    for step in 0..4 {
                        if (world.rank(), step) == (dying, at) {
                            assert!(!panics, "it panics here");
                            return Err(Error::new(Kind::Unsupported, "live", "a rank", "it fails here"));
                        }
                        all_streams::step(world, &mut output, &keys, CUT, step)?;
                        world.barrier()?;
                    }
                    output.finish().map(drop)
                };
                let error = Launch::threads(3).run(run).unwrap_err();
                assert!(error.to_string().contains("here"), "{error}");
                assert_eq!(error.rank(), Some(dying));
                assert!(begun.elapsed() < Duration::from_secs(20));
            }
        }
    }
}

/// Ranks that drop an output early, each at another step, and continue: no rank waits forever, and steps that not all
/// ranks have committed are an error.
#[test]
fn a_dropped_output_does_not_block_other_ranks() {
    let run = |world: &Comm| {
        let (streams, rows) = rows(world);
        let mut output = Options::new().replace().mode(OutputMode::Thread).buffers(4).create(
            world,
            "memfs:dropped",
            &streams,
        )?;
        for _ in 0..=world.rank() {
            output.step()?.put(rows, &[1.0; 10]).commit()?;
        }
        drop(output);
        Ok::<_, Error>(world.barrier()?)
    };
    let begun = Instant::now();
    let error = Launch::threads(3).run(run).unwrap_err();
    assert!(error.to_string().contains("another rank has dropped the output"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20), "it waited for steps that never come");
    let read = |world: &Comm| {
        let reader = Reader::open(world, "memfs:dropped")?;
        assert!(!reader.is_finished() && reader.step(0).is_some());
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(read).unwrap();
}

/// Accepted, visible and durable are different values, and each is correct.
#[test]
fn reported_progress_is_correct() {
    let gate = BlockingDevice::register("acknowledged");
    let run = |world: &Comm| {
        let (streams, rows) = rows(world);
        gate.open();
        let mut output =
            Options::new().replace().mode(OutputMode::Thread).create(world, "acknowledged:run", &streams)?;
        world.barrier()?;
        gate.shut();
        let receipt = output.step()?.put(rows, &[1.0; 10]).commit()?;
        assert_eq!(receipt.state()?, Durability::Accepted, "nothing has come through");
        world.barrier()?;
        gate.open();
        receipt.wait_visible()?;
        assert_eq!(receipt.state()?, Durability::Visible);
        let seen = Reader::open(world, "acknowledged:run")?;
        assert!(seen.step(0).is_some() && !seen.is_finished());
        output.flush()?;
        assert_eq!(receipt.state()?, Durability::Durable);
        let later = output.step()?.put(rows, &[2.0; 10]).commit()?;
        let progress = output.progress();
        assert_eq!((progress.accepted, progress.durable, progress.in_memory), (2, 1, 0));
        output.finish()?;
        assert_eq!(later.state()?, Durability::Durable);
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(run).unwrap();
}
