//! Random programs: collective calls and messages in a seeded order that all ranks share.

use aqueduct_comm::{Comm, Op};

use super::{Entry, values};
use crate::rng::SeededRng;

pub(super) const CASES: &[Entry] = &[("random mixtures of calls and messages", mixture)];

const SEEDS: u64 = 4;
const STEPS: usize = 60;

fn mixture(world: &Comm) {
    for seed in 0..SEEDS {
        let mut dice = SeededRng::new(seed * 977 + 5);
        for step in 0..STEPS {
            one_step(world, &mut dice, step as u32);
        }
    }
}

fn one_step(world: &Comm, dice: &mut SeededRng, tag: u32) {
    let (rank, size) = (world.rank(), world.size());
    let count = [0, 2, 50, 70, 3_000, 100_000][dice.below(6)];
    let (root, shift) = (dice.below(size), dice.below(size));
    match dice.below(6) {
        0 => {
            let mut got = if rank == root { values(root, count) } else { vec![0; count] };
            world.broadcast(root, &mut got).unwrap();
            assert_eq!(got, values(root, count));
        }
        1 => {
            let to = (rank + shift) % size;
            let from = (rank + size - shift) % size;
            let sending = world.start_send(to, tag, values(rank, count)).unwrap();
            assert_eq!(world.receive::<u32>(from, tag).unwrap().0, values(from, count));
            sending.wait().unwrap();
        }
        2 => {
            let got = world.gather_varied(root, &values(rank, count * (rank % 2))).unwrap();
            let all = || (0..size).map(|rank| values(rank, count * (rank % 2))).collect::<Vec<_>>();
            assert_eq!(got, (rank == root).then(all));
        }
        3 => {
            let below = world.exclusive_scan_one(Op::Sum, count as u64 + rank as u64).unwrap().unwrap_or(0);
            assert_eq!(below, (0..rank as u64).map(|rank| count as u64 + rank).sum());
        }
        4 => {
            let all: Vec<u32> = (0..size).flat_map(|rank| values(rank, count)).collect();
            assert_eq!(world.allgather(&values(rank, count)).unwrap(), all);
        }
        _ => world.barrier().unwrap(),
    }
}
