//! Random values of about forty types of all kinds: encoded and decoded; written by N ranks through one view and read by M ranks through every
//! view, on every device, in both byte orders; sent around.

#[path = "random/kinds.rs"]
mod kinds;
#[path = "random/values.rs"]
mod values;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::Mode;
use aqueduct_object::schema::ByteOrder;
use aqueduct_object::{
    Category, Each, Error, Object, ObjectFile, ObjectOpen, ObjectView, Talk, decode, encode,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use kinds::{Any, Generic, Grid, Held, Outer, Padded, Point};
use values::Random;

/// At most so many objects in a file.
const MOST: usize = 24;
/// So many files of each type.
const FILES: u32 = 60;
/// So many kinds of views.
const VIEWS: usize = 6;

/// How a file is written and read.
#[derive(Clone, Copy, Debug)]
struct Way {
    writers: usize,
    readers: usize,
    per_node: usize,
    view: usize,
    order: ByteOrder,
    checksums: bool,
    device: &'static str,
}

fn way() -> impl Strategy<Value = Way> {
    let order = prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)];
    let device = prop_oneof![3 => Just("memfs:"), 1 => Just("ufs:"), 1 => Just("uring:")];
    (1..=4usize, 1..=4usize, 1..=4usize, 0..VIEWS, order, any::<bool>(), device).prop_map(
        |(writers, readers, per_node, view, order, checksums, device)| Way {
            writers,
            readers,
            per_node,
            view,
            order,
            checksums,
            device,
        },
    )
}

/// A view of each kind, which together see each of `total` objects once, where `total` is not 0.
fn view(world: &Comm, kind: usize, total: u64) -> Result<ObjectView, Error> {
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let mine = |object: u64| object % 5 % size == rank;
    Ok(match kind {
        0 => ObjectView::block(world, total)?,
        1 => ObjectView::round_robin(world),
        2 => ObjectView::cyclic(world, 3)?,
        3 => ObjectView::pattern(5, mine)?,
        4 => ObjectView::bools(&(0..5).map(mine).collect::<Vec<_>>())?,
        _ => ObjectView::mask(&(0..5).map(|at| if mine(at) { '1' } else { '0' }).collect::<String>())?,
    })
}

/// The objects that a view sees of all, where it is not blind.
fn seen(view: &ObjectView, total: u64) -> Vec<usize> {
    let numbers = (0..).map_while(|place| view.number(place)).take_while(|number| *number < total);
    numbers.map(|number| number as usize).collect()
}

/// The same on every rank: values such as those behind an `Rc` cannot be handed over, their bytes can.
fn decoded<T: Object>(bytes: &[Vec<u8>]) -> Vec<T> {
    bytes.iter().map(|bytes| decode(bytes).expect("what was encoded")).collect()
}

fn write<T: Object>(world: &Comm, name: &str, way: &Way, bytes: &[Vec<u8>]) -> Result<(), Error> {
    let (all, total) = (decoded::<T>(bytes), bytes.len() as u64);
    let open = ObjectOpen::new(Mode::read_write().create()).anew().byte_order(way.order);
    let file = if way.checksums { open } else { open.unchecked() }.open::<T>(world, name)?;
    let view = view(world, way.view, total.max(1))?;
    let mine = seen(&view, total);
    // In two parts with a commit in between; a rank that sees nothing writes nothing, through the whole file.
    file.set_view(&if mine.is_empty() { ObjectView::all() } else { view })?;
    let (first, second) = mine.split_at(mine.len() / 2);
    file.next().all().write(Each(first.iter().map(|at| &all[*at])))?;
    file.commit()?;
    file.next().all().write(Each(second.iter().map(|at| &all[*at])))?;
    file.close()
}

fn read<T: Random>(world: &Comm, name: &str, way: &Way, bytes: &[Vec<u8>]) -> Result<(), Error> {
    let (all, total) = (decoded::<T>(bytes), bytes.len() as u64);
    let file = ObjectFile::<T>::open(world, name)?;
    assert_eq!((file.count()?, file.byte_order()), (total, way.order));
    assert_eq!(file.schema().hash(), T::schema().hash());
    assert_eq!(file.at(0).all().read_vec(total + 3)?, all);
    for kind in 0..VIEWS {
        let view = view(world, kind, total.max(1))?;
        let mine = seen(&view, total);
        file.set_view(&if mine.is_empty() { ObjectView::all() } else { view })?;
        let expected: Vec<T> = mine.iter().map(|at| all[*at].clone()).collect();
        assert_eq!(file.next().all().read_vec(mine.len() as u64)?, expected, "view {kind}");
        if let (Some(last), Some(number)) = (expected.last(), mine.len().checked_sub(1)) {
            assert_eq!(&file.at(number as u64).read_vec(1)?[0], last, "one by its number");
        }
    }
    file.close()
}

/// Every rank gets what the others have.
fn talk<T: Random>(world: &Comm, bytes: &[Vec<u8>]) -> Result<(), Error> {
    let all = decoded::<T>(bytes);
    let part = |rank: usize| all.iter().skip(rank).step_by(world.size()).cloned().collect::<Vec<T>>();
    let parts: Vec<Vec<T>> = (0..world.size()).map(part).collect();
    assert_eq!(world.allgather_objects(&parts[world.rank()])?, parts);
    let (next, previous) =
        ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
    let sending = world.start_send_objects(next, 1, &parts[world.rank()])?;
    assert_eq!(world.receive_objects::<T>(previous, 1)?.0, parts[previous]);
    sending.wait()?;
    Ok(())
}

/// So many cases of one type; a failure is shown with the smallest values that fail.
fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() })
}

fn comes_back<T: Random>(kind: &str, cases: u32) {
    let outcome = runner(cases).run(&T::random(), |value| {
        let bytes = encode(&value);
        prop_assert_eq!(bytes.len(), value.encoded_size());
        prop_assert_eq!(T::SIZE.unwrap_or(bytes.len()), bytes.len());
        prop_assert_eq!(T::SIZE.is_none(), T::CATEGORY == Category::Variable);
        let back = decode::<T>(&bytes);
        prop_assert_eq!(back.as_ref(), Ok(&value));
        // A part of it is an error, and so is more.
        let half = decode::<T>(&bytes[..bytes.len() / 2]);
        prop_assert!(bytes.is_empty() || half.is_err(), "half of it: {:?}", half);
        prop_assert!(decode::<T>(&[&bytes[..], &[0]].concat()).is_err());
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{kind}: {error}"));
}

fn in_files<T: Random>(kind: &str) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outcome = runner(FILES).run(&(vec(T::random(), 0..MOST), way()), |(values, way)| {
        let bytes: Vec<Vec<u8>> = values.iter().map(encode).collect();
        let name = format!("{}{}", way.device, folder.path().join("objects").display());
        let launch = |ranks: usize| Launch::threads(ranks).node_ranks(way.per_node);
        let written = launch(way.writers).run(|world| write::<T>(world, &name, &way, &bytes));
        prop_assert!(written.is_ok(), "writing: {}", written.unwrap_err());
        let read = launch(way.readers).run(|world| {
            read::<T>(world, &name, &way, &bytes)?;
            talk::<T>(world, &bytes)
        });
        prop_assert!(read.is_ok(), "reading: {}", read.unwrap_err());
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{kind}: {error}"));
}

#[test]
fn values_come_back_from_their_bytes() {
    comes_back::<Any>("any", 20_000);
    comes_back::<Grid>("trivial", 200);
    comes_back::<Outer>("constant", 200);
    comes_back::<Vec<Any>>("lists", 1_000);
}

#[test]
fn trivial_objects_in_files() {
    in_files::<Point>("trivial");
    in_files::<Generic<f64, u64, 3>>("trivial and generic");
}

#[test]
fn constant_objects_in_files() {
    in_files::<Outer>("constant");
    in_files::<Held>("behind pointers");
    in_files::<Generic<Padded, bool, 2>>("constant and generic");
}

#[test]
fn variable_objects_in_files() {
    in_files::<Any>("any");
}
