//! Communicators made from communicators.

use aqueduct_comm::{Comm, Kind, Op};

use super::Entry;

pub(super) const CASES: &[Entry] = &[
    ("a dup is the same group with separate messages", dup),
    ("split groups by colour and orders by key", split),
    ("ranks without a colour take no part", no_colour),
    ("a subgroup has the order it was given", subgroup),
    ("comm_self is not collective and sends to itself", alone),
    ("split_by_node groups ranks that share a node", by_node),
    ("interleaved groups work at the same time, and their children", nested),
    ("clones are the same communicator", clones),
    ("many communicators can be made and dropped", many),
];

fn dup(world: &Comm) {
    let dup = world.dup().unwrap();
    assert_eq!((dup.rank(), dup.size()), (world.rank(), world.size()));
    let next = (world.rank() + 1) % world.size();
    let previous = (world.rank() + world.size() - 1) % world.size();
    world.send(next, 1, &[1u8]).unwrap();
    dup.send(next, 1, &[2u8]).unwrap();
    assert_eq!(dup.receive::<u8>(previous, 1).unwrap().0, [2]);
    assert_eq!(world.receive::<u8>(previous, 1).unwrap().0, [1]);
}

fn split(world: &Comm) {
    let (rank, size) = (world.rank(), world.size());
    let part = world.split(Some((rank % 3) as u32), -(rank as i64)).unwrap().unwrap();
    let mut members: Vec<usize> = (0..size).filter(|other| other % 3 == rank % 3).collect();
    members.reverse();
    assert_eq!(part.size(), members.len());
    assert_eq!(members[part.rank()], rank);
    assert_eq!(part.allgather(&[rank]).unwrap(), members);
    assert_eq!(part.allreduce_one(Op::Sum, rank).unwrap(), members.iter().sum::<usize>());
}

fn no_colour(world: &Comm) {
    let odd = world.rank() % 2 == 1;
    let part = world.split(odd.then_some(7), 0).unwrap();
    assert_eq!(part.as_ref().map(Comm::size), odd.then_some(world.size() / 2));
    if let Some(part) = part {
        part.barrier().unwrap();
    }
}

fn alone(world: &Comm) {
    // Not collective: odd ranks make none here.
    if world.rank().is_multiple_of(2) {
        let (one, other) = (world.comm_self(), world.comm_self());
        assert_eq!((one.rank(), one.size(), one.node_count()), (0, 1, 1));
        one.send(0, 3, &[1u8]).unwrap();
        other.send(0, 3, &[2u8]).unwrap();
        assert_eq!(other.receive::<u8>(0, 3).unwrap().0, [2]);
        assert_eq!(one.receive::<u8>(0, 3).unwrap().0, [1]);
        assert_eq!(one.dup().unwrap().allgather(&[7u8]).unwrap(), [7]);
    }
    // And nobody's numbers have changed.
    assert_eq!(world.dup().unwrap().allreduce_one(Op::Sum, 1usize).unwrap(), world.size());
}

fn subgroup(world: &Comm) {
    let last = world.size() - 1;
    let chosen: Vec<usize> = if last == 0 { vec![0] } else { vec![last, 0] };
    let part = world.subgroup(&chosen).unwrap();
    assert_eq!(part.is_some(), chosen.contains(&world.rank()));
    if let Some(part) = part {
        assert_eq!(part.allgather(&[world.rank()]).unwrap(), chosen);
    }
    assert_eq!(world.subgroup(&[0, 0]).unwrap_err().kind(), Kind::InvalidArgument);
    assert_eq!(world.subgroup(&[world.size()]).unwrap_err().kind(), Kind::InvalidArgument);
}

fn by_node(world: &Comm) {
    let node = world.split_by_node().unwrap();
    let mine = world.node_of(world.rank());
    let members: Vec<usize> = (0..world.size()).filter(|rank| world.node_of(*rank) == mine).collect();
    assert_eq!(node.allgather(&[world.rank()]).unwrap(), members);
    assert_eq!(node.node_count(), 1);
    assert_eq!(world.allreduce_one(Op::Max, mine).unwrap() + 1, world.node_count());
}

fn nested(world: &Comm) {
    let parity = world.split(Some((world.rank() % 2) as u32), 0).unwrap().unwrap();
    let half = parity.split(Some((parity.rank() % 2) as u32), 0).unwrap().unwrap();
    for round in 0..20 {
        let sum = half.allreduce_one(Op::Sum, round).unwrap();
        assert_eq!(sum, round * half.size());
        let sums = parity.allgather(&[round * parity.rank()]).unwrap();
        assert_eq!(sums, (0..parity.size()).map(|rank| round * rank).collect::<Vec<_>>());
        let all = world.scan(Op::Sum, &[1u64, round as u64]).unwrap();
        assert_eq!(all, [world.rank() as u64 + 1, (round * (world.rank() + 1)) as u64]);
    }
}

fn clones(world: &Comm) {
    let clone = world.clone();
    let next = (world.rank() + 1) % world.size();
    clone.send(next, 31, &[5u8]).unwrap();
    let previous = (world.rank() + world.size() - 1) % world.size();
    assert_eq!(world.receive::<u8>(previous, 31).unwrap().0, [5]);
}

fn many(world: &Comm) {
    for _ in 0..50 {
        let dup = world.dup().unwrap();
        assert_eq!(dup.allreduce_one(Op::Sum, 1usize).unwrap(), world.size());
    }
}
