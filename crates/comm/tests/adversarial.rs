//! Programs that mean harm: ranks that leave, drop, refuse, mix up their calls and race; nobody may wait for ever.
//!
//! Every program runs under a watchdog: a hang is a failure, not a hang of the tests.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use aqueduct_comm::{Comm, Error, Kind, Launch, Op, Receiving, Result, Source, wait_any};

const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `program` on every rank, and panics if it takes too long.
fn watched<T: Send + 'static>(
    launch: Launch,
    program: impl Fn(&Comm) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let (done, outcome) = mpsc::channel();
    thread::spawn(move || done.send(launch.run(program)));
    outcome.recv_timeout(PATIENCE).expect("the ranks wait for ever")
}

/// One node, several nodes, nodes of one rank.
fn launches(ranks: usize) -> [Launch; 3] {
    let all = Launch::threads(ranks);
    [all, all.node_ranks(2), all.node_ranks(1)]
}

// Messages.

#[test]
fn a_dropped_receive_gives_its_message_to_the_next_one_that_waits() {
    let program = |world: &Comm| {
        let first = world.start_receive::<u8>(world.rank(), 1)?;
        let second = world.start_receive::<u8>(world.rank(), 1)?;
        world.send(world.rank(), 1, &[7u8])?;
        drop(first);
        second.wait().map(|(values, _)| values)
    };
    assert_eq!(watched(Launch::threads(1), program).unwrap(), [[7]]);
}

#[test]
fn dropped_receives_do_not_let_messages_overtake() {
    let program = |world: &Comm| {
        let receives: Vec<Receiving<u8>> =
            (0..3).map(|_| world.start_receive(world.rank(), 1)).collect::<Result<_>>()?;
        for number in 1..=4u8 {
            world.send(world.rank(), 1, &[number])?;
        }
        drop(receives);
        (0..4).map(|_| Ok(world.receive::<u8>(Source::Any, 1)?.0[0])).collect::<Result<Vec<u8>>>()
    };
    assert_eq!(watched(Launch::threads(1), program).unwrap(), [[1, 2, 3, 4]]);
}

#[test]
fn a_receive_dropped_among_others_keeps_the_order_of_the_rest() {
    let program = |world: &Comm| {
        let start = || world.start_receive::<u8>(world.rank(), 1);
        let (first, second, third) = (start()?, start()?, start()?);
        world.send(world.rank(), 1, &[1u8])?;
        world.send(world.rank(), 1, &[2u8])?;
        drop(first);
        Ok([second.wait()?.0[0], third.wait()?.0[0]])
    };
    assert_eq!(watched(Launch::threads(1), program).unwrap(), [[1, 2]]);
}

#[test]
fn wait_any_ends_when_those_it_waits_for_have_left() {
    let program = |world: &Comm| match world.rank() {
        0 => {
            let outcome = wait_any(&mut vec![world.start_receive::<u8>(1, 1)?]);
            world.send(2, 1, &[1u8])?;
            Ok(outcome.unwrap_err().kind() == Kind::RankFailed)
        }
        1 => Ok(true),
        _ => world.receive::<u8>(0, 1).map(|_| true),
    };
    assert_eq!(watched(Launch::threads(3), program).unwrap(), [true; 3]);
}

#[test]
fn wait_any_waits_for_the_ranks_of_every_communicator_in_the_list() {
    let program = |world: &Comm| {
        let near = world.subgroup(&[0, 1])?;
        let far = world.subgroup(&[0, 2])?;
        match world.rank() {
            0 => {
                let (near, far) = (near.unwrap(), far.unwrap());
                let mut receives = vec![near.start_receive::<u8>(1, 1)?, far.start_receive::<u8>(1, 1)?];
                wait_any(&mut receives).map(|(place, _, _)| place)
            }
            1 => Ok(1),
            _ => {
                thread::sleep(Duration::from_millis(100));
                far.unwrap().send(0, 1, &[1u8]).map(|()| 1)
            }
        }
    };
    assert_eq!(watched(Launch::threads(3), program).unwrap(), [1; 3]);
}

#[test]
fn every_wait_for_a_rank_that_has_returned_ends() {
    type Wait = fn(&Comm) -> Result<()>;
    let waits: [Wait; 5] = [
        |world| world.receive::<u8>(0, 1).map(drop),
        |world| world.probe(0, 1).map(drop),
        |world| world.receive_into(0, 1, &mut [0u8]).map(drop),
        |world| wait_any(&mut vec![world.start_receive::<u8>(0, 1)?]).map(drop),
        |world| world.receive::<u8>(Source::Any, 1).map(drop),
    ];
    for (launch, wait) in launches(3).into_iter().flat_map(|launch| waits.map(|wait| (launch, wait))) {
        let program = move |world: &Comm| {
            let outcome = if world.rank() == 0 { Ok(()) } else { wait(world) };
            Ok(outcome.err().map(|error| error.kind()))
        };
        let failed = Some(Kind::RankFailed);
        // Who receives from anyone is told when all have left; the last two wait for each other, and that is their own doing.
        if wait as usize != waits[4] as usize {
            assert_eq!(watched(launch, program).unwrap(), [None, failed, failed]);
        }
    }
}

// Handles.

#[test]
fn a_rank_that_returns_its_communicator_leaves_nobody_waiting_in_it() {
    for launch in launches(4) {
        let program = |world: &Comm| {
            let dup = world.dup()?;
            if world.rank() == 3 {
                return Ok(Some(dup));
            }
            assert_eq!(dup.barrier().unwrap_err().kind(), Kind::RankFailed);
            Ok(None)
        };
        watched(launch, program).unwrap();
    }
}

#[test]
fn a_communicator_that_one_rank_drops_fails_for_the_others() {
    let program = |world: &Comm| {
        let dup = world.dup()?;
        if world.rank() == 1 {
            drop(dup);
        } else {
            for _ in 0..3 {
                assert_eq!(dup.allreduce_one(Op::Sum, 1u8).unwrap_err().kind(), Kind::RankFailed);
            }
        }
        world.allreduce_one(Op::Sum, 1u8)
    };
    assert_eq!(watched(Launch::threads(3), program).unwrap(), [3; 3]);
}

#[test]
fn regions_too_large_are_the_same_error_on_every_rank() {
    for launch in launches(3) {
        let program = |world: &Comm| {
            let error = world.region(1 << 60).unwrap_err();
            assert_eq!(error.kind(), Kind::System, "{error}");
            world.allreduce_one(Op::Sum, 1u8)
        };
        assert_eq!(watched(launch, program).unwrap(), [3; 3]);
    }
}

// Failures at every collective call.

type Named = (&'static str, fn(&Comm) -> Result<()>);

/// Each collective call, short and long, with all that a rank can make different.
const CALLS: [Named; 17] = [
    ("barrier", Comm::barrier),
    ("broadcast", |world| world.broadcast(0, &mut [1u8])),
    ("broadcast long", |world| world.broadcast(1, &mut [1u8; 5_000])),
    ("gather", |world| world.gather(0, &[1u64]).map(drop)),
    ("gather long", |world| world.gather(1, &[1u64; 500]).map(drop)),
    ("gather_varied", |world| world.gather_varied(1, &vec![1u8; 100 * world.rank()]).map(drop)),
    ("scatter", |world| world.scatter(1, &vec![1u8; world.size()]).map(drop)),
    ("allgather", |world| world.allgather(&[1u8]).map(drop)),
    ("allgather long", |world| world.allgather(&[1u8; 5_000]).map(drop)),
    ("allgather_varied", |world| world.allgather_varied(&vec![1u8; 200 * world.rank()]).map(drop)),
    ("all_to_all", |world| world.all_to_all(&vec![1u8; 100 * world.size()]).map(drop)),
    ("all_to_all_varied", |world| world.all_to_all_varied(&vec![[1u8; 9]; world.size()]).map(drop)),
    ("reduce", |world| world.reduce(1, Op::Sum, &[1.5f64; 100]).map(drop)),
    ("allreduce", |world| world.allreduce_one(Op::Sum, 1u8).map(drop)),
    ("scan", |world| world.scan(Op::Max, &[1u32; 100]).map(drop)),
    ("split", |world| world.split(Some(0), -(world.rank() as i64)).map(drop)),
    ("dup", |world| world.dup().map(drop)),
];

#[test]
fn a_rank_that_fails_before_any_call_ends_it_for_all() {
    for (launch, (name, call)) in launches(4).into_iter().flat_map(|launch| CALLS.map(|call| (launch, call)))
    {
        for (who, by_panic) in [(0, false), (3, true)] {
            let program = move |world: &Comm| {
                if world.rank() == who {
                    assert!(!by_panic, "the pump is dry");
                    return Err(Error::new(Kind::Unsupported, "pump", "the pump is dry"));
                }
                // A root may be done before it could notice; the next call cannot.
                call(world).and_then(|()| world.barrier())
            };
            let error = watched(launch, program).unwrap_err();
            assert_eq!((error.kind(), error.rank()), (Kind::Program, Some(who)), "{name}: {error}");
            assert!(error.to_string().contains("the pump is dry"), "{name}: {error}");
        }
    }
}

#[test]
fn a_rank_that_returns_before_any_call_ends_it_for_all() {
    for (launch, (name, call)) in launches(4).into_iter().flat_map(|launch| CALLS.map(|call| (launch, call)))
    {
        for who in [0, 3] {
            let program = move |world: &Comm| if world.rank() == who { Ok(()) } else { call(world) };
            let error = watched(launch, program).unwrap_err();
            assert_eq!(error.kind(), Kind::Program, "{name}: {error}");
        }
    }
}

/// Checks that `world` is as good as new: its own calls and messages, and those of communicators made of it.
fn still_works(world: &Comm) -> Result<()> {
    let dup = world.dup()?;
    for comm in [world, &dup] {
        let (next, previous) =
            ((comm.rank() + 1) % comm.size(), (comm.rank() + comm.size() - 1) % comm.size());
        comm.send(next, 77, &[comm.rank()])?;
        assert_eq!(comm.receive::<usize>(previous, 77)?.0, [previous]);
        assert_eq!(comm.allreduce_one(Op::Sum, 1usize)?, comm.size());
        assert_eq!(comm.allgather(&[comm.rank()])?, (0..comm.size()).collect::<Vec<_>>());
    }
    Ok(())
}

#[test]
fn any_two_different_calls_are_a_mismatch_for_all_and_harm_nothing() {
    for launch in launches(4) {
        for (one, call) in CALLS {
            let program = move |world: &Comm| {
                for (other, another) in CALLS.into_iter().filter(|(other, _)| *other != one) {
                    let outcome = if world.rank() == 2 { call(world) } else { another(world) };
                    let error = outcome.expect_err("different calls");
                    assert_eq!(error.kind(), Kind::Mismatch, "{one} and {other}: {error}");
                    still_works(world)?;
                }
                Ok(())
            };
            watched(launch, program).unwrap();
        }
    }
}

#[test]
fn threads_of_a_rank_that_race_in_one_communicator_get_errors_at_worst() {
    for launch in launches(3) {
        let program = |world: &Comm| {
            let dup = world.dup()?;
            thread::scope(|scope| {
                // Eight bytes and their length look like the address and length of a stream.
                for len in [8, 1_000] {
                    let dup = &dup;
                    scope.spawn(move || {
                        for _ in 0..300 {
                            let _ = dup.gather_varied(0, &vec![0x41u8; len]);
                        }
                    });
                }
                // The threads may get out of step by one call: then the last one waits until a rank gives the handle up.
            });
            drop(dup);
            world.allreduce_one(Op::Sum, 1u8)
        };
        assert_eq!(watched(launch, program).unwrap(), [3; 3]);
    }
}
