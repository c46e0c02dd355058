//! Shared memory of a node.

use std::sync::atomic::Ordering;

use aqueduct_comm::{Comm, Kind};

use super::Entry;

pub(super) const CASES: &[Entry] = &[
    ("ranks of a node see each other's writes after a barrier", exchange),
    ("atomics count every rank", atomics),
    ("a region begins as zeros and keeps to its bounds", bounds),
    ("unaligned copies are exact", unaligned),
];

/// The ranks that share this one's node, this one included.
fn neighbours(world: &Comm) -> Vec<usize> {
    (0..world.size()).filter(|rank| world.node_of(*rank) == world.node_of(world.rank())).collect()
}

fn exchange(world: &Comm) {
    const PART: usize = 100_003;
    let region = world.shared_region(PART * world.size()).unwrap();
    region.write(PART * world.rank(), &vec![world.rank() as u8 + 1; PART]).unwrap();
    world.barrier().unwrap();
    for rank in neighbours(world) {
        let mut part = vec![0; PART];
        region.read(PART * rank, &mut part).unwrap();
        assert_eq!(part, vec![rank as u8 + 1; PART]);
    }
    world.barrier().unwrap();
}

fn atomics(world: &Comm) {
    let region = world.shared_region(64).unwrap();
    for _ in 0..1000 {
        region.atomic(56).unwrap().fetch_add(1, Ordering::Relaxed);
    }
    world.barrier().unwrap();
    let count = region.atomic(56).unwrap().load(Ordering::Relaxed);
    assert_eq!(count, 1000 * neighbours(world).len() as u64);
}

fn bounds(world: &Comm) {
    let region = world.shared_region(10).unwrap();
    let mut all = [1; 10];
    region.read(0, &mut all).unwrap();
    assert_eq!(all, [0; 10]);
    let outside = [
        region.write(9, &[1, 2]),
        region.write(usize::MAX, &[1]),
        region.read(11, &mut []),
        region.atomic(8).map(|_| ()),
        region.atomic(1).map(|_| ()),
    ];
    for outcome in outside {
        assert_eq!(outcome.unwrap_err().kind(), Kind::InvalidArgument);
    }
    assert!(world.shared_region(0).unwrap().is_empty());
}

fn unaligned(world: &Comm) {
    let region = world.shared_region(64 * world.size()).unwrap();
    let base = 64 * world.rank();
    for (offset, len) in (0..9).flat_map(|offset| (0..30).map(move |len| (offset, len))) {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 3 + offset + 1) as u8).collect();
        region.write(base, &[0; 64]).unwrap();
        region.write(base + offset, &bytes).unwrap();
        let mut all = [0; 64];
        region.read(base, &mut all).unwrap();
        let mut expected = [0; 64];
        expected[offset..offset + len].copy_from_slice(&bytes);
        assert_eq!(all, expected);
        let mut part = vec![0; len];
        region.read(base + offset, &mut part).unwrap();
        assert_eq!(part, bytes);
    }
}
