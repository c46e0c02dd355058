//! Erroneous programs: ranks that leave, drop handles, pass invalid arguments, make different calls and race. No rank may wait forever.
//!
//! Every program runs with a timeout.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use aqueduct_comm::{
    Comm, Error, ExchangedArray, Kind, Launch, MessageSource, Op, ReceiveRequest, Result, wait_any,
};
use aqueduct_testkit::rng::SeededRng;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs `program` on every rank, and panics if it takes too long.
fn watched<T: Send + 'static>(
    launch: Launch,
    program: impl Fn(&Comm) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let (done, outcome) = mpsc::channel();
    thread::spawn(move || done.send(launch.run(program)));
    outcome.recv_timeout(TIMEOUT).expect("the ranks finish in time")
}

/// One node, several nodes, nodes of one rank.
fn launches(ranks: usize) -> [Launch; 3] {
    let all = Launch::threads(ranks);
    [all.clone(), all.clone().node_ranks(2), all.node_ranks(1)]
}

/// The launches on which different calls are detected: all of them in debug builds, otherwise one node.
fn compared(ranks: usize) -> Vec<Launch> {
    let all = launches(ranks);
    if cfg!(debug_assertions) { all.to_vec() } else { all[..1].to_vec() }
}

// Messages.

#[test]
fn the_message_of_a_dropped_receive_goes_to_the_next_receive() {
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
fn dropped_receives_keep_the_order_of_messages() {
    let program = |world: &Comm| {
        let receives: Vec<ReceiveRequest<u8>> =
            (0..3).map(|_| world.start_receive(world.rank(), 1)).collect::<Result<_>>()?;
        for number in 1..=4u8 {
            world.send(world.rank(), 1, &[number])?;
        }
        drop(receives);
        (0..4).map(|_| Ok(world.receive::<u8>(MessageSource::Any, 1)?.0[0])).collect::<Result<Vec<u8>>>()
    };
    assert_eq!(watched(Launch::threads(1), program).unwrap(), [[1, 2, 3, 4]]);
}

#[test]
fn dropping_the_first_receive_keeps_the_order_of_the_others() {
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
fn wait_any_fails_when_all_its_senders_have_left() {
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
fn every_wait_for_a_rank_that_has_returned_fails() {
    type Wait = fn(&Comm) -> Result<()>;
    let waits: [Wait; 5] = [
        |world| world.receive::<u8>(0, 1).map(drop),
        |world| world.probe(0, 1).map(drop),
        |world| world.receive_into(0, 1, &mut [0u8]).map(drop),
        |world| wait_any(&mut vec![world.start_receive::<u8>(0, 1)?]).map(drop),
        |world| world.receive::<u8>(MessageSource::Any, 1).map(drop),
    ];
    for (launch, wait) in launches(3).into_iter().flat_map(|launch| waits.map(|wait| (launch.clone(), wait)))
    {
        let program = move |world: &Comm| {
            let outcome = if world.rank() == 0 { Ok(()) } else { wait(world) };
            Ok(outcome.err().map(|error| error.kind()))
        };
        let failed = Some(Kind::RankFailed);
        // A receive from any rank fails only when all have left; the last two ranks would wait for each other.
        if wait as usize != waits[4] as usize {
            assert_eq!(watched(launch.clone(), program).unwrap(), [None, failed, failed]);
        }
    }
}

// Handles.

#[test]
fn calls_on_a_communicator_fail_after_a_rank_has_returned_it() {
    for launch in launches(4) {
        let program = |world: &Comm| {
            let dup = world.dup()?;
            if world.rank() == 3 {
                return Ok(Some(dup));
            }
            assert_eq!(dup.barrier().unwrap_err().kind(), Kind::RankFailed);
            Ok(None)
        };
        watched(launch.clone(), program).unwrap();
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
fn a_region_that_is_too_large_is_an_error_on_every_rank() {
    for launch in launches(3) {
        let program = |world: &Comm| {
            let error = world.shared_region(1 << 60).unwrap_err();
            assert_eq!(error.kind(), Kind::System, "{error}");
            world.allreduce_one(Op::Sum, 1u8)
        };
        assert_eq!(watched(launch.clone(), program).unwrap(), [3; 3]);
    }
}

// Failures at every collective call.

type Named = (&'static str, fn(&Comm) -> Result<()>);

/// Each collective call, with short and long data, different roots and arguments.
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

/// Rank 2 drops a communicator and fails. The other ranks fail because of that, before rank 2 has returned: `run` returns the error of rank 2.
#[test]
fn run_returns_the_original_error_not_an_induced_one() {
    for late in [false, true] {
        let reported = AtomicBool::new(false);
        let error = Launch::threads(3)
            .run(|world| {
                let comm = world.dup().unwrap();
                if world.rank() != 2 {
                    let induced = comm.barrier().unwrap_err();
                    reported.store(true, Ordering::Release);
                    return Err::<(), _>(format!("rank {}: {induced}", world.rank()));
                }
                drop(comm);
                while !reported.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                if late {
                    // The other ranks have failed before it returns.
                    world.barrier().unwrap_err();
                }
                Err("the disk is full".to_owned())
            })
            .unwrap_err();
        assert_eq!(error.rank(), Some(2), "{error}");
        assert!(error.to_string().contains("the disk is full"), "{error}");
    }
}

#[test]
fn a_rank_that_fails_before_any_call_ends_it_for_all() {
    for (launch, (name, call)) in
        launches(4).into_iter().flat_map(|launch| CALLS.map(|call| (launch.clone(), call)))
    {
        for (who, by_panic) in [(0, false), (3, true)] {
            let program = move |world: &Comm| {
                if world.rank() == who {
                    assert!(!by_panic, "no input");
                    return Err(Error::new(Kind::Unsupported, "read", "no input"));
                }
                // A root may be done before it could notice; the next call cannot.
                call(world).and_then(|()| world.barrier())
            };
            let error = watched(launch.clone(), program).unwrap_err();
            assert_eq!((error.kind(), error.rank()), (Kind::Program, Some(who)), "{name}: {error}");
            assert!(error.to_string().contains("no input"), "{name}: {error}");
        }
    }
}

#[test]
fn a_rank_that_returns_before_any_call_ends_it_for_all() {
    for (launch, (name, call)) in
        launches(4).into_iter().flat_map(|launch| CALLS.map(|call| (launch.clone(), call)))
    {
        for who in [0, 3] {
            let program = move |world: &Comm| if world.rank() == who { Ok(()) } else { call(world) };
            let outcome = watched(launch.clone(), program).map_err(|error| error.kind());
            // Between nodes where calls are not compared, a call that needs nothing of that rank succeeds.
            assert!(outcome == Err(Kind::Program) || !cfg!(debug_assertions), "{name}: {outcome:?}");
        }
    }
}

/// Checks calls and messages of `world` and of a communicator made from it.
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
fn any_two_different_calls_are_a_mismatch_on_all_ranks_and_later_calls_work() {
    for launch in compared(4) {
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
            watched(launch.clone(), program).unwrap();
        }
    }
}

#[test]
fn racing_threads_of_a_rank_on_one_communicator_get_errors_or_results() {
    for launch in launches(3) {
        let program = |world: &Comm| {
            let dup = world.dup()?;
            thread::scope(|scope| {
                // Eight bytes and their length have the size of the address and length of a bulk exchange.
                for len in [8, 1_000] {
                    let dup = &dup;
                    scope.spawn(move || {
                        for _ in 0..300 {
                            let _ = dup.gather_varied(0, &vec![0x41u8; len]);
                        }
                    });
                }
                // The threads may get out of step by one call: then the last one waits until a rank drops the handle.
            });
            drop(dup);
            world.allreduce_one(Op::Sum, 1u8)
        };
        assert_eq!(watched(launch.clone(), program).unwrap(), [3; 3]);
    }
}

// Odd topologies against a model.

/// The values of rank `member` of the world.
fn part(member: usize, len: usize) -> Vec<u64> {
    (0..len).map(|at| (member * 1_000 + at * 7) as u64).collect()
}

/// Every collective call on `comm`, whose ranks are `members` of the world, compared with values computed locally.
fn model(comm: &Comm, members: &[usize], len: usize) -> Result<()> {
    let (me, size) = (comm.rank(), comm.size());
    let parts: Vec<Vec<u64>> = members.iter().map(|member| part(*member, len + member % 3)).collect();
    let equal: Vec<Vec<u64>> = members.iter().map(|member| part(*member, len)).collect();
    let sum = |ranks: usize| {
        let add = |at: usize| equal[..ranks].iter().map(|part| part[at]).sum();
        (0..len).map(add).collect::<Vec<u64>>()
    };
    assert_eq!(comm.allgather(&equal[me])?, equal.concat());
    assert_eq!(comm.allgather_varied(&parts[me])?, parts);
    assert_eq!(comm.allreduce(Op::Sum, &equal[me])?, sum(size));
    assert_eq!(comm.scan(Op::Sum, &equal[me])?, sum(me + 1));
    assert_eq!(comm.exclusive_scan(Op::Sum, &equal[me])?, (me > 0).then(|| sum(me)));
    for root in [0, size / 2, size - 1] {
        let at_root = me == root;
        assert_eq!(comm.gather(root, &equal[me])?, at_root.then(|| equal.concat()));
        assert_eq!(comm.gather_varied(root, &parts[me])?, at_root.then(|| parts.clone()));
        assert_eq!(comm.reduce(root, Op::Sum, &equal[me])?, at_root.then(|| sum(size)));
        assert_eq!(comm.scatter_varied(root, if at_root { &parts[..] } else { &[] })?, parts[me]);
        assert_eq!(comm.broadcast_vec(root, parts[me].clone())?, parts[root]);
    }
    let for_rank = |from: usize, to: usize| part(members[from], (members[to] + len) % 50);
    let mine: Vec<_> = (0..size).map(|to| for_rank(me, to)).collect();
    let expected: Vec<_> = (0..size).map(|from| for_rank(from, me)).collect();
    assert_eq!(comm.all_to_all_varied(&mine)?, expected);
    let mine: Vec<u64> = (0..size).flat_map(|to| vec![(me * size + to) as u64; len]).collect();
    let expected: Vec<u64> = (0..size).flat_map(|from| vec![(from * size + me) as u64; len]).collect();
    assert_eq!(comm.all_to_all(&mine)?, expected);
    Ok(())
}

#[test]
fn collective_calls_of_groups_in_any_order_over_any_nodes_match_the_model() {
    for (ranks, per_node) in [(7, 7), (7, 1), (7, 2), (7, 3), (9, 4), (8, 5)] {
        let program = move |world: &Comm| {
            for seed in 0..12 {
                // All ranks use the same random numbers.
                let mut rng = SeededRng::new(seed);
                let colours: Vec<usize> = (0..ranks).map(|_| rng.below(3)).collect();
                let keys: Vec<i64> =
                    (0..ranks).map(|rank| [-(rank as i64), rng.below(4) as i64][seed as usize % 2]).collect();
                let me = world.rank();
                let part = world.split(Some(colours[me] as u32), keys[me])?.expect("a colour");
                let mut members: Vec<usize> =
                    (0..ranks).filter(|rank| colours[*rank] == colours[me]).collect();
                members.sort_by_key(|rank| (keys[*rank], *rank));
                model(&part, &members, [0, 1, 40, 700][rng.below(4)])?;
                let reversed = part.split(Some(0), -(part.rank() as i64))?.expect("a colour");
                members.reverse();
                model(&reversed, &members, 3)?;
                let region = part.shared_region(8 * ranks)?;
                region.write(8 * me, &[me as u8 + 1; 8])?;
                part.barrier()?;
                for member in members.into_iter().filter(|member| world.node_of(*member) == world.node_of(me))
                {
                    let mut bytes = [0; 8];
                    region.read(8 * member, &mut bytes)?;
                    assert_eq!(bytes, [member as u8 + 1; 8]);
                }
            }
            Ok(())
        };
        watched(Launch::threads(ranks).node_ranks(per_node), program).unwrap();
    }
}

#[test]
fn a_failure_anywhere_in_a_random_program_is_returned_by_run() {
    for seed in 0..60 {
        let mut rng = SeededRng::new(seed);
        let (ranks, per_node, steps) = (2 + rng.below(5), 1 + rng.below(3), 40);
        let (who, when, how) = (rng.below(ranks), rng.below(steps), rng.below(3));
        let program = move |world: &Comm| {
            let mut rng = SeededRng::new(seed);
            let dup = world.dup()?;
            for step in 0..steps {
                let comm = if rng.below(2) == 0 { world } else { &dup };
                let (_, call) = CALLS[rng.below(CALLS.len())];
                if world.rank() == who && step == when {
                    match how {
                        0 => panic!("no input"),
                        1 => return Err(Error::new(Kind::Unsupported, "read", "no input")),
                        _ => return Ok(()),
                    }
                }
                call(comm)?;
            }
            Ok(())
        };
        let outcome = watched(Launch::threads(ranks).node_ranks(per_node), program);
        if how == 2 && !cfg!(debug_assertions) {
            continue;
        }
        let error = outcome.unwrap_err();
        assert!(how == 2 || error.to_string().contains("no input"), "seed {seed}: {error}");
        assert!(how == 2 || error.rank() == Some(who), "seed {seed}: {error}");
    }
}

// Arguments.

#[test]
fn zero_sized_values_are_accepted() {
    let program = |world: &Comm| {
        let nothing = [(), ()];
        world.gather(0, &nothing)?;
        world.allgather(&nothing)?;
        world.broadcast(0, &mut [(), ()])?;
        world.send(world.rank(), 1, &nothing)?;
        world.receive::<()>(world.rank(), 1).map(drop)
    };
    watched(Launch::threads(2), program).unwrap();
}

#[test]
fn invalid_arguments_of_a_rank_fail_the_call_on_all_ranks() {
    let calls: [Named; 6] = [
        ("all_to_all_varied_into", |world| {
            let (send, mut receive) = ([1u8; 3], [0u8; 3]);
            let counts = if world.rank() == 0 { [1, 1, 2] } else { [1; 3] };
            let array = ExchangedArray {
                send: &send,
                send_counts: &counts,
                receive: &mut receive,
                receive_counts: &[1; 3],
            };
            world.all_to_all_varied_into(&mut [array])
        }),
        ("all_to_all", |world| {
            world.all_to_all(&vec![0u8; 3 * world.size() + usize::from(world.rank() == 0)]).map(drop)
        }),
        ("all_to_all_varied", |world| {
            world.all_to_all_varied(&vec![[1u8]; 3 + usize::from(world.rank() == 0)]).map(drop)
        }),
        ("broadcast", |world| world.broadcast(if world.rank() == 0 { 99 } else { 0 }, &mut [1u8])),
        ("allgather_into", |world| {
            world.allgather_into(&[1u8], &mut vec![0; 3 + usize::from(world.rank() == 0)])
        }),
        ("subgroup", |world| world.subgroup(if world.rank() == 0 { &[0, 0] } else { &[0, 1] }).map(drop)),
    ];
    for (launch, (name, call)) in
        compared(3).into_iter().flat_map(|launch| calls.map(|call| (launch.clone(), call)))
    {
        let program = move |world: &Comm| {
            let error = call(world).expect_err(name);
            let expected = if world.rank() == 0 { Kind::InvalidArgument } else { Kind::Mismatch };
            assert_eq!(error.kind(), expected, "{error}");
            // Rank 0 continues with messages that need the other ranks to have left the call.
            world.send((world.rank() + 1) % 3, 5, &[1u8])?;
            world.receive::<u8>((world.rank() + 2) % 3, 5)?;
            still_works(world)
        };
        watched(launch.clone(), program).unwrap();
    }
}
