//! Collective calls, compared with what each rank computes for itself.

use aqueduct_comm::{Comm, Number, Op, Traffic};

use super::{Entry, LENGTHS, values};

pub(super) const CASES: &[Entry] = &[
    ("no rank leaves a barrier before all have entered it", barrier),
    ("broadcast gives every rank the root's values", broadcast),
    ("broadcast_vec gives every rank the root's length too", broadcast_vec),
    ("gather puts all values in rank order at the root", gather),
    ("gather_varied keeps each rank's length", gather_varied),
    ("gather_into fills the buffers of the right length", gather_into),
    ("scatter distributes equal parts", scatter),
    ("scatter_varied distributes parts of any length", scatter_varied),
    ("allgather gives all values to all", allgather),
    ("allgather_varied keeps each rank's length", allgather_varied),
    ("all_to_all transposes", all_to_all),
    ("all_to_all_varied transposes parts of any length", all_to_all_varied),
    ("route sends few parts to few ranks", route),
    ("what is sent is counted", traffic),
    ("reductions of integers", reduce_integers),
    ("reductions of floats are the same bits everywhere", reduce_floats),
    ("reductions by a custom merge", reduce_merged),
    ("scans are reductions of the ranks below", scans),
    ("many small reductions in a row", many_small),
];

fn roots(world: &Comm) -> impl Iterator<Item = usize> + use<> {
    let last = world.size() - 1;
    [0, last / 2, last].into_iter()
}

fn barrier(world: &Comm) {
    let arrived = world.shared_region(8).unwrap();
    let counter = arrived.atomic(0).unwrap();
    let neighbours = (0..world.size()).filter(|rank| world.node_of(*rank) == world.node_of(world.rank()));
    let neighbours = neighbours.count() as u64;
    for round in 1..=50 {
        counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        world.barrier().unwrap();
        assert!(counter.load(std::sync::atomic::Ordering::SeqCst) >= round * neighbours);
    }
}

fn broadcast(world: &Comm) {
    for (root, count) in roots(world).flat_map(|root| LENGTHS.map(|count| (root, count))) {
        let mut got = if world.rank() == root { values(root, count) } else { vec![0; count] };
        world.broadcast(root, &mut got).unwrap();
        assert_eq!(got, values(root, count));
    }
}

fn broadcast_vec(world: &Comm) {
    for root in roots(world) {
        let mine = values(world.rank(), 10 * world.rank() + 3);
        assert_eq!(world.broadcast_vec(root, mine).unwrap(), values(root, 10 * root + 3));
    }
}

fn gather(world: &Comm) {
    for (root, count) in roots(world).flat_map(|root| LENGTHS.map(|count| (root, count))) {
        let got = world.gather(root, &values(world.rank(), count)).unwrap();
        let all = || (0..world.size()).flat_map(|rank| values(rank, count)).collect::<Vec<_>>();
        assert_eq!(got, (world.rank() == root).then(all));
    }
}

/// A length that differs by rank: some none, some long.
fn uneven(rank: usize) -> usize {
    [0, 3, 90_000, 58, 1][rank % 5]
}

fn gather_varied(world: &Comm) {
    for root in roots(world) {
        let got = world.gather_varied(root, &values(world.rank(), uneven(world.rank()))).unwrap();
        let all = || (0..world.size()).map(|rank| values(rank, uneven(rank))).collect::<Vec<_>>();
        assert_eq!(got, (world.rank() == root).then(all));
    }
}

fn gather_into(world: &Comm) {
    for root in roots(world) {
        // The place of the last rank is too long.
        let length = |rank: usize| uneven(rank) + usize::from(rank + 1 == world.size());
        let mut places: Vec<Vec<u32>> = (0..world.size()).map(|rank| vec![7; length(rank)]).collect();
        let mut into: Vec<&mut [u32]> = places.iter_mut().map(Vec::as_mut_slice).collect();
        let into = if world.rank() == root { &mut into[..] } else { &mut [] };
        let given = world.gather_into(root, &values(world.rank(), uneven(world.rank())), into).unwrap();
        if world.rank() == root {
            assert_eq!(given, (0..world.size()).map(uneven).collect::<Vec<_>>());
            let last = places.pop().unwrap();
            assert!(last.iter().all(|value| *value == 7));
            assert_eq!(
                places,
                (0..world.size() - 1).map(|rank| values(rank, uneven(rank))).collect::<Vec<_>>()
            );
        } else {
            assert_eq!(given, []);
        }
    }
}

fn scatter(world: &Comm) {
    for (root, count) in roots(world).flat_map(|root| LENGTHS.map(|count| (root, count))) {
        let all = values(root, count * world.size());
        let given = if world.rank() == root { &all[..] } else { &[] };
        let mine = &all[world.rank() * count..(world.rank() + 1) * count];
        assert_eq!(world.scatter(root, given).unwrap(), mine);
    }
}

fn scatter_varied(world: &Comm) {
    for root in roots(world) {
        let parts: Vec<Vec<u32>> = (0..world.size()).map(|rank| values(rank, uneven(rank))).collect();
        let given = if world.rank() == root { &parts[..] } else { &[] };
        assert_eq!(world.scatter_varied(root, given).unwrap(), parts[world.rank()]);
    }
}

fn allgather(world: &Comm) {
    for count in LENGTHS {
        let all: Vec<u32> = (0..world.size()).flat_map(|rank| values(rank, count)).collect();
        assert_eq!(world.allgather(&values(world.rank(), count)).unwrap(), all);
    }
}

fn allgather_varied(world: &Comm) {
    let all: Vec<_> = (0..world.size()).map(|rank| values(rank, uneven(rank))).collect();
    assert_eq!(world.allgather_varied(&values(world.rank(), uneven(world.rank()))).unwrap(), all);
}

fn all_to_all(world: &Comm) {
    for count in LENGTHS {
        let part = |from: usize, to: usize| values(from * 100 + to, count);
        let mine: Vec<u32> = (0..world.size()).flat_map(|to| part(world.rank(), to)).collect();
        let expected: Vec<u32> = (0..world.size()).flat_map(|from| part(from, world.rank())).collect();
        assert_eq!(world.all_to_all(&mine).unwrap(), expected);
    }
}

fn all_to_all_varied(world: &Comm) {
    let part = |from: usize, to: usize| values(from * 100 + to, uneven(from + 2 * to));
    let mine: Vec<_> = (0..world.size()).map(|to| part(world.rank(), to)).collect();
    let expected: Vec<_> = (0..world.size()).map(|from| part(from, world.rank())).collect();
    assert_eq!(world.all_to_all_varied(&mine).unwrap(), expected);
}

fn route(world: &Comm) {
    // Rank r has something for r + 1 and 3 r, often nothing, sometimes twice for the same rank.
    let size = world.size();
    let parts = |from: usize, round: usize| {
        let part = |to: usize, at: usize| {
            let bytes = values(from * 10 + at, uneven(from + round)).into_iter().map(|value| value as u8);
            (to % size, bytes.collect::<Vec<u8>>())
        };
        if from % 3 == round { vec![] } else { vec![part(from + 1, 0), part(3 * from, 1), part(3 * from, 2)] }
    };
    for round in 0..4 {
        let came = world.route(&parts(world.rank(), round)).unwrap();
        let all = (0..size).flat_map(|from| parts(from, round).into_iter().map(move |part| (from, part)));
        let mine = all.filter(|(_, (to, _))| *to == world.rank());
        assert_eq!(came, mine.map(|(from, (_, bytes))| (from, bytes)).collect::<Vec<_>>());
    }
    assert!(world.route(&[]).unwrap().is_empty());
}

fn traffic(world: &Comm) {
    let comm = world.dup().unwrap();
    assert_eq!(comm.traffic(), Traffic::default());
    let last = comm.size() - 1;
    if comm.rank() == 0 {
        comm.start_send(last, 1, vec![1u32; 100]).unwrap().wait().unwrap();
    }
    if comm.rank() == last {
        comm.receive::<u32>(0, 1).unwrap();
    }
    let sent = u64::from(comm.rank() == 0);
    assert_eq!(comm.traffic(), Traffic { messages: sent, bytes: 400 * sent });
    let before = comm.traffic().messages;
    comm.route(&[]).unwrap();
    let steps = u64::from(comm.node_count().next_power_of_two().trailing_zeros());
    let leads = comm.ranks_of_node(comm.node_of(comm.rank()))[0] == comm.rank();
    assert_eq!(comm.traffic().messages - before, if leads { steps } else { 0 });
}

const OPS: [Op; 5] = [Op::Sum, Op::Min, Op::Max, Op::And, Op::Or];

/// The reduction of ranks `0..ranks`, in rank order.
fn model<T: Number>(op: Op, ranks: usize, of: impl Fn(usize) -> Vec<T>) -> Vec<T> {
    let combine = |a: &T, b: &T| {
        let mut result = [*a];
        T::fold(op, &mut result, &[*b]);
        result[0]
    };
    let fold = |sum: Vec<T>, next: Vec<T>| sum.iter().zip(&next).map(|(a, b)| combine(a, b)).collect();
    (1..ranks).map(&of).fold(of(0), fold)
}

fn reduce_integers(world: &Comm) {
    reduce_all::<u8>(world, |value| value as u8);
    reduce_all::<i16>(world, |value| value as i16);
    reduce_all::<u32>(world, |value| value);
    reduce_all::<i64>(world, |value| i64::from(value) * -3_000_000_019);
    reduce_all::<u64>(world, |value| u64::from(value) << 31 | 5);
}

fn reduce_all<T: Number + PartialEq>(world: &Comm, make: impl Fn(u32) -> T) {
    for (count, op) in LENGTHS.into_iter().flat_map(|count| OPS.map(|op| (count, op))) {
        let of = |rank: usize| values(rank, count).into_iter().map(&make).collect::<Vec<_>>();
        let expected = model(op, world.size(), of);
        assert_eq!(world.allreduce(op, &of(world.rank())).unwrap(), expected);
        let root = count % world.size();
        let got = world.reduce(root, op, &of(world.rank())).unwrap();
        assert_eq!(got, (world.rank() == root).then_some(expected));
    }
}

fn reduce_floats(world: &Comm) {
    let of = |rank: usize| values(rank, 500).into_iter().map(|v| f64::from(v).sqrt()).collect::<Vec<_>>();
    for op in [Op::Sum, Op::Min, Op::Max] {
        let got = world.allreduce(op, &of(world.rank())).unwrap();
        for (got, expected) in got.iter().zip(model(op, world.size(), of)) {
            assert!((got - expected).abs() <= 1e-12 * expected.abs(), "{got} is not {expected}");
        }
        let mut roots = got.clone();
        world.broadcast(0, &mut roots).unwrap();
        assert!(got.iter().zip(&roots).all(|(mine, roots)| mine.to_bits() == roots.to_bits()));
    }
    // NaN counts only where all are NaN.
    let last = world.size() - 1;
    let mine = if world.rank() == last { 1.0 } else { f32::NAN };
    assert_eq!(world.allreduce_one(Op::Max, mine).unwrap().to_bits(), 1f32.to_bits());
    assert!(world.allreduce_one(Op::Min, f32::NAN).unwrap().is_nan());
}

fn reduce_merged(world: &Comm) {
    // A minimum, a sum and the last of all in one element, many times.
    let of = |rank: usize, count: usize| {
        let element = |value: u32| [u64::from(value), u64::from(value), u64::from(value)];
        values(rank, count).into_iter().map(element).collect::<Vec<_>>()
    };
    let merge = |a: &mut [u64; 3], b: &[u64; 3]| *a = [a[0].min(b[0]), a[1] + b[1], a[2].max(b[2])];
    for count in LENGTHS {
        let mut expected = of(0, count);
        for rank in 1..world.size() {
            expected.iter_mut().zip(&of(rank, count)).for_each(|(a, b)| merge(a, b));
        }
        assert_eq!(world.allreduce_with(&of(world.rank(), count), merge).unwrap(), expected);
    }
}

fn scans(world: &Comm) {
    for (count, op) in LENGTHS.into_iter().flat_map(|count| OPS.map(|op| (count, op))) {
        let of = |rank: usize| values(rank, count);
        let mine = of(world.rank());
        assert_eq!(world.scan(op, &mine).unwrap(), model(op, world.rank() + 1, of));
        let below = (world.rank() > 0).then(|| model(op, world.rank(), of));
        assert_eq!(world.exclusive_scan(op, &mine).unwrap(), below);
    }
    let start = world.exclusive_scan_one(Op::Sum, 10u64).unwrap();
    assert_eq!(start.unwrap_or(0), 10 * world.rank() as u64);
}

fn many_small(world: &Comm) {
    let ranks: u64 = (0..world.size() as u64).sum();
    for round in 0..500u64 {
        let sum = world.allreduce_one(Op::Sum, world.rank() as u64 + round).unwrap();
        assert_eq!(sum, ranks + round * world.size() as u64);
    }
}
