//! Remote counters, for transports without server threads.

use aqueduct_comm::{Comm, Kind, RemoteCounter, ThreadLevel, forbid_mpi_on_thread};

use super::Entry;

pub(super) const CASES: &[Entry] = &[
    ("a counter returns every number once, whatever its owner does", once),
    ("counters are independent, and their slots are reused after all ranks have dropped them", places),
    ("a part of the ranks has no counter, and background threads may not use one", limits),
];

const ROUNDS: u64 = 200;

/// A counter; none, on all ranks, only where there need not be one.
fn counter(world: &Comm, start: u64) -> Option<RemoteCounter> {
    let counter = world.remote_counter(start).expect("a counter, or none");
    match world.thread_level() {
        None | Some(ThreadLevel::Multiple) => assert!(counter.is_none(), "threads can serve"),
        Some(ThreadLevel::Single | ThreadLevel::Funneled) => {
            assert!(counter.is_some(), "no thread can serve");
        }
        // It depends on whose program this is.
        Some(ThreadLevel::Serialized) => (),
    }
    counter
}

fn once(world: &Comm) {
    let Some(counter) = counter(world, 5) else { return };
    if world.rank() == 0 {
        // The first rank has the number, and does something else.
        (1..world.size()).for_each(|rank| drop(world.receive::<u8>(rank, 1).expect("a rank has counted")));
    }
    let mut mine: Vec<u64> = (0..ROUNDS).map(|_| counter.add(1).expect("a number")).collect();
    assert!(mine.is_sorted());
    if world.rank() > 0 {
        world.send(0, 1, &[0u8]).expect("a message");
    }
    let total = ROUNDS * world.size() as u64;
    let mut all = world.allgather(&mine).expect("all numbers");
    all.sort_unstable();
    assert_eq!(all, (5..5 + total).collect::<Vec<_>>());
    // Steps of any size, also backwards.
    world.barrier().expect("all have counted");
    mine = vec![counter.add(u64::MAX).expect("a number")];
    let mut all = world.allgather(&mine).expect("all numbers");
    all.sort_unstable();
    assert_eq!(all, (5 + total - world.size() as u64 + 1..=5 + total).collect::<Vec<_>>());
}

fn places(world: &Comm) {
    let Some(first) = counter(world, 1) else { return };
    let rest: Vec<RemoteCounter> = (2..5).map(|start| counter(world, start).expect("another")).collect();
    world.barrier().expect("all are made");
    // One rank swaps one of them, and the others see that and no change of the others.
    if world.rank() == world.size() - 1 {
        assert_eq!(rest[1].swap(1 << 40).expect("what it was"), 3);
    }
    world.barrier().expect("it is changed");
    let now: Vec<u64> = std::iter::once(&first).chain(&rest).map(|one| one.add(0).expect("it")).collect();
    assert_eq!(now, [1, 2, 1 << 40, 4]);
    // The first rank keeps one that the others leave: nobody may get its place.
    let kept = (world.rank() == 0).then_some(first);
    for start in 100..300 {
        let next = counter(world, start).expect("places do not run out");
        assert_eq!(next.add(0).expect("it"), start);
        world.barrier().expect("all have looked");
    }
    assert!(kept.is_none_or(|kept| kept.add(0).expect("it") == 1), "its place was given away");
}

fn limits(world: &Comm) {
    let some = world.split(Some(u32::from(world.rank() == 0)), 0).expect("a part").expect("each has one");
    if world.size() > 1 {
        assert!(some.remote_counter(0).expect("none").is_none());
    }
    let Some(counter) = counter(world, 7) else { return };
    let count = || {
        forbid_mpi_on_thread();
        counter.add(1).map_err(|error| (error.kind(), error.to_string()))
    };
    let refused = std::thread::scope(|scope| scope.spawn(count).join().expect("a thread")).unwrap_err();
    assert_eq!(refused.0, Kind::ThreadLevel, "{}", refused.1);
    world.barrier().expect("all have tried");
    assert_eq!(counter.add(0).expect("it"), 7);
}
