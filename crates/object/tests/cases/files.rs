//! Cases for object files on any transport and device: every access method, category and view.

use aqueduct_comm::Comm;
use aqueduct_file::{Mode, Whence};
use aqueduct_object::schema::ByteOrder;
use aqueduct_object::{Error, FromIter, Object, ObjectFile, ObjectOpenOptions, ObjectView, Single};

/// The number of kinds of views.
pub(crate) const VIEWS: usize = 7;

#[derive(Object, Clone, Debug, PartialEq)]
pub(crate) struct Trivial {
    pub(crate) id: u64,
    position: [f64; 2],
}

#[derive(Object, Clone, Debug, PartialEq)]
pub(crate) struct Constant {
    flag: bool,
    pub(crate) id: u64,
    pub(crate) inner: (u16, Box<f32>),
}

#[derive(Object, Clone, Debug, PartialEq)]
pub(crate) struct Variable {
    pub(crate) id: u64,
    name: String,
    path: Vec<[f32; 2]>,
}

/// An object that is made from its number.
pub(crate) trait Numbered: Object + Clone + std::fmt::Debug + PartialEq + Send {
    fn number(number: u64) -> Self;
}

impl Numbered for Trivial {
    fn number(number: u64) -> Self {
        Self { id: number, position: [number as f64, -0.5] }
    }
}

impl Numbered for Constant {
    fn number(number: u64) -> Self {
        Self { flag: number.is_multiple_of(3), id: number, inner: (number as u16, Box::new(number as f32)) }
    }
}

impl Numbered for Variable {
    fn number(number: u64) -> Self {
        let name = "n".repeat(number as usize % 7);
        Self { id: number, name, path: vec![[number as f32, 1.0]; number as usize % 4] }
    }
}

/// The objects of these numbers.
pub(crate) fn some<T: Numbered>(numbers: impl IntoIterator<Item = u64>) -> Vec<T> {
    numbers.into_iter().map(T::number).collect()
}

/// All methods of writing: object `n` of the file is number `n`, 12 objects per rank.
pub(crate) fn write_all_ways<T: Numbered>(world: &Comm, name: &str, order: ByteOrder) -> Result<u64, Error> {
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let file = ObjectOpenOptions::new(Mode::read_write().create())
        .replace()
        .byte_order(order)
        .open::<T>(world, name)?;
    let mine = |first: u64, count: u64| some::<T>(first..first + count);
    // One block of two objects per rank and method.
    let block = |way: u64| way * 2 * size + 2 * rank;
    let objects = mine(block(0), 2);
    assert_eq!(file.at(block(0)).write(&objects)?, 2);
    file.seek(block(1) as i64, Whence::Start)?;
    file.at_pointer().all().write(FromIter(mine(block(1), 2).iter()))?;
    let request = file.at(block(2)).start_write(mine(block(2), 2))?;
    assert_eq!(request.wait()?, mine(block(2), 2), "the request gives the objects back");
    let request = file.at(block(3)).all().start_write(mine(block(3), 2))?;
    request.wait()?;
    file.seek_shared(4 * 2 * size)?;
    file.shared().all().write(&mine(block(4), 2))?;
    let split = file.at(block(5)).all().begin_write(mine(block(5), 2))?;
    assert!(file.at(0).all().read_vec(1).is_err(), "no other collective operation meanwhile");
    split.end()?;
    file.commit()?;
    file.verify()?;
    // Appended after the commit.
    file.seek_shared(6 * 2 * size)?;
    file.shared().all().write(Single(&T::number(12 * size + rank)))?;
    file.close()?;
    Ok(13 * size)
}

pub(crate) fn read_all_ways<T: Numbered>(world: &Comm, name: &str, total: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let file = ObjectFile::<T>::open(world, name)?;
    assert_eq!(file.count()?, total);
    let all = some::<T>(0..total);
    assert_eq!(file.at(0).read_vec(total + 5)?, all, "less at the end of the file");
    let part = total.div_ceil(size);
    let mine = &all[(rank * part).min(total) as usize..((rank + 1) * part).min(total) as usize];
    assert_eq!(file.at(rank * part).all().read_vec(part)?, mine);
    let mut room = some::<T>(vec![0; 4]);
    assert_eq!(file.at(total - 2).all().read(&mut room)?, 2);
    assert_eq!((&room[..2], &room[2]), (&all[total as usize - 2..], &T::number(0)));
    assert_eq!(file.at(rank).start_read(3)?.wait()?, all[rank as usize..rank as usize + 3]);
    assert_eq!(file.at(rank).all().start_read(3)?.wait()?, all[rank as usize..rank as usize + 3]);
    assert_eq!(file.at(2).all().begin_read(rank)?.end()?, all[2..2 + rank as usize]);
    assert_eq!(file.shared().all().read_vec(2)?, all[2 * rank as usize..2 * rank as usize + 2]);
    let one = file.shared().read_vec(1)?;
    assert!(all[2 * size as usize..3 * size as usize].contains(&one[0]), "each once, in any order");
    file.seek(-1, Whence::End)?;
    assert_eq!(file.at_pointer().read_vec(5)?, [T::number(total - 1)]);
    assert_eq!(file.position(), total + 4, "pointers advance by what was asked for");
    file.close()
}

/// A view of each kind.
pub(crate) fn views(world: &Comm) -> Vec<ObjectView> {
    let (rank, size) = (world.rank() as u64, world.size());
    let mask: String = (0..size).map(|at| if at == world.rank() { "110" } else { "000" }).collect();
    let bools: Vec<bool> = (0..2 * size).map(|at| at / 2 == world.rank()).collect();
    vec![
        ObjectView::contiguous(world, 60 / size as u64).unwrap(),
        ObjectView::block(world, 60).unwrap(),
        ObjectView::round_robin(world),
        ObjectView::cyclic(world, 2).unwrap(),
        ObjectView::mask(&mask).unwrap(),
        ObjectView::bools(&bools).unwrap().starting_at(5),
        ObjectView::pattern(4 * size as u64, |object| object % size as u64 == rank).unwrap(),
    ]
}

/// Writes 60 objects through a view of this kind.
pub(crate) fn write_through_view<T: Numbered>(world: &Comm, name: &str, kind: usize) -> Result<(), Error> {
    let view = views(world).swap_remove(kind);
    let seen = (0..60).filter_map(|place| view.number(place)).take_while(|number| *number < 60);
    let seen: Vec<u64> = seen.collect();
    let file = ObjectFile::<T>::replace(world, name)?;
    file.set_view(&view)?;
    // Each rank has its own number of objects, in two calls.
    let (first, second) = seen.split_at(world.rank() + 1);
    file.at_pointer().all().write(&some::<T>(first.iter().copied()))?;
    file.at_pointer().all().write(&some::<T>(second.iter().copied()))?;
    file.close()
}

/// Reads through every view what was written through a view of this kind.
pub(crate) fn read_through_views<T: Numbered>(world: &Comm, name: &str, kind: usize) -> Result<(), Error> {
    let file = ObjectFile::<T>::open(world, name)?;
    let count = file.count()?;
    for view in views(world) {
        file.set_view(&view)?;
        let numbers: Vec<u64> = (0..file.count_in_view()?).filter_map(|place| view.number(place)).collect();
        assert!(numbers.iter().all(|number| *number < count));
        // Objects of variable size that were not written cannot be read; the mask and the shifted view leave some out.
        if kind == 4 || kind == 5 {
            continue;
        }
        assert_eq!(file.at_pointer().all().read_vec(60)?, some::<T>(numbers));
    }
    file.close()
}
