//! Writing of random objects by N ranks through one view, reading by M ranks through every view, on every device, in both byte orders;
//! sending between ranks.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::Mode;
use aqueduct_object::schema::ByteOrder;
use aqueduct_object::{
    Error, FromIter, Object, ObjectCommExt, ObjectFile, ObjectOpenOptions, ObjectView, decode,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// The number of kinds of views.
const VIEWS: usize = 6;

/// Objects that can be compared and printed.
pub(crate) trait Comparable: Object + Clone + std::fmt::Debug + PartialEq {}

impl<T: Object + Clone + std::fmt::Debug + PartialEq> Comparable for T {}

/// How a file is written and read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) writers: usize,
    pub(crate) readers: usize,
    pub(crate) per_node: usize,
    view: usize,
    pub(crate) order: ByteOrder,
    checksums: bool,
    pub(crate) device: &'static str,
}

pub(crate) fn way() -> impl Strategy<Value = Way> {
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

/// A view of each kind. The views of all ranks have each of `total` objects once; `total` is not 0.
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

/// The objects of a view that is not empty.
fn seen(view: &ObjectView, total: u64) -> Vec<usize> {
    let numbers = (0..).map_while(|place| view.number(place)).take_while(|number| *number < total);
    numbers.map(|number| number as usize).collect()
}

/// The same objects on every rank: values such as an `Rc` cannot be sent to threads, their bytes can.
fn decoded<T: Object>(bytes: &[Vec<u8>]) -> Vec<T> {
    bytes.iter().map(|bytes| decode(bytes).expect("what was encoded")).collect()
}

pub(crate) fn write<T: Object>(world: &Comm, name: &str, way: &Way, bytes: &[Vec<u8>]) -> Result<(), Error> {
    let (all, total) = (decoded::<T>(bytes), bytes.len() as u64);
    let open = ObjectOpenOptions::new(Mode::read_write().create()).replace().byte_order(way.order);
    let file = if way.checksums { open } else { open.unchecked() }.open::<T>(world, name)?;
    let view = view(world, way.view, total.max(1))?;
    let mine = seen(&view, total);
    // In two parts with a commit between them; a rank with an empty view writes nothing, through the view of the whole file.
    file.set_view(&if mine.is_empty() { ObjectView::all() } else { view })?;
    let (first, second) = mine.split_at(mine.len() / 2);
    file.at_pointer().all().write(FromIter(first.iter().map(|at| &all[*at])))?;
    file.commit()?;
    file.at_pointer().all().write(FromIter(second.iter().map(|at| &all[*at])))?;
    file.close()
}

pub(crate) fn read<T: Comparable>(
    world: &Comm,
    name: &str,
    way: &Way,
    bytes: &[Vec<u8>],
) -> Result<(), Error> {
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
        assert_eq!(file.at_pointer().all().read_vec(mine.len() as u64)?, expected, "view {kind}");
        if let (Some(last), Some(number)) = (expected.last(), mine.len().checked_sub(1)) {
            assert_eq!(&file.at(number as u64).read_vec(1)?[0], last, "one by its number");
        }
    }
    file.close()
}

/// Every rank receives the objects of the others.
pub(crate) fn exchange<T: Comparable>(world: &Comm, bytes: &[Vec<u8>]) -> Result<(), Error> {
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

/// A runner of `cases` cases; it reports the smallest values that fail.
pub(crate) fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() })
}

impl Way {
    /// Ranks on nodes of `per_node` ranks.
    pub(crate) fn launch(&self, ranks: usize) -> Launch {
        Launch::threads(ranks).node_ranks(self.per_node)
    }
}
