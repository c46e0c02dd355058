//! Cases for messages of objects on any transport: every call, every category, unequal counts, wrong types.

use std::collections::{BTreeMap, VecDeque};

use aqueduct_comm::{Comm, MessageSource};
use aqueduct_object::{Error, FromIter, Kind, Object, ObjectCommExt, Single};

#[derive(Object, Clone, Copy, Debug, PartialEq)]
struct Trivial {
    a: u32,
    b: f32,
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Constant {
    tag: u8,
    value: Box<f64>,
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Variable {
    name: String,
    values: Vec<Trivial>,
}

trait Numbered: Object + Clone + std::fmt::Debug + PartialEq {
    fn number(number: usize) -> Self;
}

impl Numbered for Trivial {
    fn number(number: usize) -> Self {
        Self { a: number as u32, b: number as f32 / 2.0 }
    }
}

impl Numbered for Constant {
    fn number(number: usize) -> Self {
        Self { tag: number as u8, value: Box::new(number as f64) }
    }
}

impl Numbered for Variable {
    fn number(number: usize) -> Self {
        Self { name: "x".repeat(number % 5), values: (0..number % 3).map(Trivial::number).collect() }
    }
}

impl Numbered for () {
    fn number(_number: usize) -> Self {}
}

fn some<T: Numbered>(rank: usize, count: usize) -> Vec<T> {
    (0..count).map(|at| T::number(100 * rank + at)).collect()
}

fn messages<T: Numbered>(world: &Comm) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let mine = some::<T>(rank, rank + 2);
    let theirs = some::<T>(previous, previous + 2);
    // A vector, a part of it, one object, and an iterator.
    world.send_objects(next, 1, &mine)?;
    world.send_objects(next, 1, &mine[1..])?;
    world.send_objects(next, 1, Single(&mine[0]))?;
    let map: BTreeMap<usize, T> = mine.iter().cloned().enumerate().collect();
    world.send_objects(next, 1, FromIter(map.range(1..).map(|(_, object)| object)))?;
    world.send_objects::<T>(next, 1, &[])?;
    // A new vector, an existing slice, one object, a container that is extended.
    let (got, status) = world.receive_objects::<T>(previous, 1)?;
    assert_eq!((&got, status.source), (&theirs, previous));
    assert_eq!(status.bytes, theirs.iter().map(T::encoded_size).sum::<usize>());
    let mut room = vec![T::number(7); previous + 4];
    assert_eq!(world.receive_objects_into(previous, 1, &mut room)?.0, previous + 1);
    assert_eq!(room[..=previous], theirs[1..]);
    assert_eq!(room[previous + 1], T::number(7), "objects after them are unchanged");
    assert_eq!(world.receive_object::<T>(previous, 1)?.0, theirs[0]);
    let mut grows = VecDeque::from([T::number(9)]);
    assert_eq!(world.receive_objects_onto(previous, 1, &mut grows)?.0, previous + 1);
    assert_eq!((&grows[0], &grows[1]), (&T::number(9), &theirs[1]));
    assert_eq!(world.receive_objects::<T>(MessageSource::Rank(previous), 1)?.0, []);
    // Non-blocking.
    let first = world.start_receive_objects::<T>(previous, 2)?;
    let mut second = world.start_receive_objects::<T>(MessageSource::Any, 3)?;
    let sending = world.start_send_objects(next, 2, &mine)?;
    world.start_send_objects(next, 3, Single(&mine[1]))?.wait()?;
    assert_eq!(first.wait()?.0, theirs);
    let got = loop {
        if let Some((got, _)) = second.test()? {
            break got;
        }
    };
    assert_eq!(got, [theirs[1].clone()]);
    sending.wait()?;
    Ok(())
}

fn collectives<T: Numbered>(world: &Comm) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let mine = some::<T>(rank, rank);
    let all: Vec<Vec<T>> = (0..size).map(|rank| some(rank, rank)).collect();
    for root in 0..size {
        let mut object = T::number(rank);
        world.broadcast_object(root, &mut object)?;
        assert_eq!(object, T::number(root));
        let mut objects = some::<T>(rank, 2 * rank + 1);
        world.broadcast_objects(root, &mut objects)?;
        assert_eq!(objects, some::<T>(root, 2 * root + 1));
        assert_eq!(world.gather_objects(root, &mine)?, (rank == root).then(|| all.clone()));
        let parts: &[Vec<T>] = if rank == root { &all } else { &[] };
        assert_eq!(world.scatter_objects(root, parts)?, all[rank]);
    }
    assert_eq!(world.allgather_objects(FromIter(mine.iter()))?, all);
    let parts: Vec<Vec<T>> = (0..size).map(|to| some(10 * rank + to, (rank + to) % 3)).collect();
    let sent: Vec<Vec<T>> = (0..size).map(|from| some(10 * from + rank, (rank + from) % 3)).collect();
    assert_eq!(world.all_to_all_objects(&parts)?, sent);
    Ok(())
}

fn reductions(world: &Comm) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let joined = |mut left: Variable, right: Variable| {
        left.name.push_str(&right.name);
        left
    };
    let mine = Variable { name: rank.to_string(), values: vec![] };
    let names: String = (0..size).map(|rank| rank.to_string()).collect();
    assert_eq!(world.allreduce_object(mine.clone(), joined)?.name, names, "in rank order");
    let last = world.reduce_object(size - 1, mine.clone(), joined)?;
    assert_eq!(last.map(|object| object.name), (rank == size - 1).then_some(names));
    let pair = [Trivial::number(rank), Trivial::number(1)];
    let sums = world.reduce_objects(0, &pair, |x, y| Trivial { a: x.a + y.a, b: x.b + y.b })?;
    let total = (size * (size - 1) / 2) as u32;
    assert_eq!(sums.map(|sums| (sums[0].a, sums[1].a)), (rank == 0).then_some((total, size as u32)));
    Ok(())
}

fn slices(world: &Comm) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let joined = |left: String, right: String| left + &right;
    let names = |ranks: std::ops::Range<usize>, at: usize| -> String {
        ranks
            .map(|rank| [rank.to_string(), at.to_string(), " ".to_owned()].join("."))
            .collect::<Vec<_>>()
            .concat()
    };
    let mine: Vec<String> = (0..3).map(|at| names(rank..rank + 1, at)).collect();
    let upto = |end: usize| (0..3).map(|at| names(0..end, at)).collect::<Vec<_>>();
    let mut calls = 0;
    let counted = |left: String, right: String| {
        calls += 1;
        left + &right
    };
    assert_eq!(world.allreduce_objects(&mine, counted)?, upto(size), "in rank order");
    // A tree: no rank combines more than ⌈log₂ ranks⌉ times.
    assert!(calls <= 3 * size.next_power_of_two().trailing_zeros(), "{calls} calls on rank {rank}");
    assert_eq!(world.scan_objects(&mine, joined)?, upto(rank + 1));
    assert_eq!(world.exclusive_scan_objects(&mine, joined)?, (rank > 0).then(|| upto(rank)));
    for root in 0..size {
        assert_eq!(world.reduce_objects(root, &mine, joined)?, (rank == root).then(|| upto(size)));
    }
    assert!(world.scan_objects::<u8>(&[], u8::wrapping_add)?.is_empty());
    Ok(())
}

fn non_blocking<T: Numbered>(world: &Comm) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let mine = some::<T>(rank, rank + 1);
    let all: Vec<Vec<T>> = (0..size).map(|rank| some(rank, rank + 1)).collect();
    let parts: Vec<Vec<T>> = (0..size).map(|to| some(10 * rank + to, (rank + to) % 3)).collect();
    let sent: Vec<Vec<T>> = (0..size).map(|from| some(10 * from + rank, (rank + from) % 3)).collect();
    // All are in progress at the same time, and end in another order.
    let broadcasts: Vec<_> =
        (0..size).map(|root| world.start_broadcast_objects(root, &mine)).collect::<Result<_, Error>>()?;
    let gather = world.start_gather_objects(size - 1, &mine)?;
    let scatter = world.start_scatter_objects(0, &parts)?;
    let exchange = world.start_all_to_all_objects(&parts)?;
    let mut allgather = world.start_allgather_objects(FromIter(mine.iter()))?;
    while !allgather.test()? {
        std::thread::yield_now();
    }
    assert_eq!(allgather.wait()?, all);
    assert_eq!(exchange.wait()?, sent);
    assert_eq!(scatter.wait()?[0], some::<T>(rank, rank % 3), "part of rank 0");
    let gathered = gather.wait()?;
    assert_eq!(gathered == all, rank == size - 1 || size == 1);
    for (root, broadcast) in broadcasts.into_iter().enumerate() {
        assert_eq!(broadcast.wait()?[root], all[root]);
    }
    Ok(())
}

/// Trivial objects are sent as they are: the bytes of a message are those of the objects, and between threads a vector moves.
fn messages_without_a_copy(world: &Comm) -> Result<(), Error> {
    if cfg!(target_endian = "big") {
        // There every object is encoded: messages are little-endian.
        return Ok(());
    }
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let mine = some::<Trivial>(rank, 1000);
    let address = mine.as_ptr() as usize;
    let before = world.traffic();
    let sending = world.start_send_vec(next, 4, mine)?;
    assert_eq!(world.traffic().bytes - before.bytes, 8000, "nothing but the objects");
    let (got, status) = world.receive_objects::<Trivial>(previous, 4)?;
    assert_eq!((got == some::<Trivial>(previous, 1000), status.bytes), (true, 8000));
    sending.wait()?;
    world.start_send(next, 5, vec![address as u64])?.wait()?;
    let sent_from = world.receive::<u64>(previous, 5)?.0[0];
    if world.is_one_process() {
        assert_eq!(got.as_ptr() as u64, sent_from, "the vector itself: no copy");
    }
    // Other types may be given away too.
    world.start_send_vec(next, 6, some::<Variable>(rank, 3))?.wait()?;
    assert_eq!(world.receive_objects::<Variable>(previous, 6)?.0, some::<Variable>(previous, 3));
    Ok(())
}

fn wrong_types(world: &Comm) -> Result<(), Error> {
    let (next, previous) =
        ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
    world.send_objects(next, 1, Single(&Trivial::number(1)))?;
    let error = world.receive_objects::<Variable>(previous, 1).unwrap_err();
    assert_eq!(error.kind(), Kind::WrongType);
    let text = error.to_string();
    assert!(text.contains("sent as Trivial and received as Variable") && text.contains("tag 1"), "{text}");
    world.send(next, 2, &[1.0f64; 9]).unwrap();
    let error = world.receive_objects::<Trivial>(previous, 2).unwrap_err();
    assert!(error.to_string().contains("not an object"), "{error}");
    world.send_objects(next, 3, &some::<Trivial>(0, 3))?;
    world.send_objects(next, 3, &some::<Trivial>(0, 3))?;
    assert_eq!(
        world.receive_objects_into(previous, 3, &mut [Trivial::number(0)]).unwrap_err().kind(),
        Kind::BadArgument
    );
    assert_eq!(world.receive_object::<Trivial>(previous, 3).unwrap_err().kind(), Kind::BadArgument);
    if world.size() > 1 {
        // Every rank gets the error, and the next call works.
        let outcome = if world.rank() == 1 {
            world.allgather_objects(Single(&Trivial::number(1))).map(drop)
        } else {
            world.allgather_objects(Single(&1u64)).map(drop)
        };
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("rank 0 passes u64, rank 1 Trivial"), "{text}");
        let error = world.reduce_objects(0, &vec![1u8; world.rank()], u8::wrapping_add).unwrap_err();
        assert_eq!(error.kind(), Kind::BadArgument);
    }
    Ok(())
}

/// All cases.
pub(crate) fn all(world: &Comm) -> Result<(), Error> {
    messages::<Trivial>(world)?;
    messages::<Constant>(world)?;
    messages::<Variable>(world)?;
    collectives::<Trivial>(world)?;
    collectives::<Constant>(world)?;
    collectives::<Variable>(world)?;
    collectives::<()>(world)?;
    reductions(world)?;
    slices(world)?;
    non_blocking::<Trivial>(world)?;
    non_blocking::<Variable>(world)?;
    messages_without_a_copy(world)?;
    wrong_types(world)
}
