//! Objects in files: every way of access, every category, any number of ranks.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{Mode, Whence};
use aqueduct_object::schema::ByteOrder;
use aqueduct_object::{Each, Error, Kind, Object, ObjectFile, ObjectOpen, ObjectView, One};

#[derive(Object, Clone, Debug, PartialEq)]
struct Trivial {
    id: u64,
    position: [f64; 2],
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Constant {
    flag: bool,
    id: u64,
    inner: (u16, Box<f32>),
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Variable {
    id: u64,
    name: String,
    path: Vec<[f32; 2]>,
}

trait Numbered: Object + Clone + std::fmt::Debug + PartialEq + Send {
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

fn some<T: Numbered>(numbers: impl IntoIterator<Item = u64>) -> Vec<T> {
    numbers.into_iter().map(T::number).collect()
}

fn run(ranks: usize, program: impl Fn(&Comm) -> Result<(), Error> + Sync) {
    let nodes = if ranks > 3 { 2 } else { ranks };
    Launch::threads(ranks).node_ranks(nodes).run(program).unwrap();
}

/// All ways of writing: object `n` of the file is number `n`, 12 objects per rank.
fn write_all_ways<T: Numbered>(world: &Comm, name: &str, order: ByteOrder) -> Result<u64, Error> {
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let file =
        ObjectOpen::new(Mode::read_write().create()).anew().byte_order(order).open::<T>(world, name)?;
    let mine = |first: u64, count: u64| some::<T>(first..first + count);
    // One block of two objects per rank and way.
    let block = |way: u64| way * 2 * size + 2 * rank;
    let objects = mine(block(0), 2);
    assert_eq!(file.at(block(0)).write(&objects)?, 2);
    file.seek(block(1) as i64, Whence::Start)?;
    file.next().all().write(Each(mine(block(1), 2).iter()))?;
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
    file.shared().all().write(One(&T::number(12 * size + rank)))?;
    file.close()?;
    Ok(13 * size)
}

fn read_all_ways<T: Numbered>(world: &Comm, name: &str, total: u64) -> Result<(), Error> {
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
    assert_eq!(file.next().read_vec(5)?, [T::number(total - 1)]);
    assert_eq!(file.position(), total + 4, "pointers advance by what was asked for");
    file.close()
}

fn ways<T: Numbered>(name: &str) {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for (writers, readers) in [(1, 3), (3, 1), (2, 4), (4, 2)] {
            run(writers, |world| write_all_ways::<T>(world, name, order).map(drop));
            run(readers, |world| read_all_ways::<T>(world, name, 13 * writers as u64));
        }
    }
}

#[test]
fn trivial_objects_in_all_ways() {
    ways::<Trivial>("memfs:files-trivial");
}

#[test]
fn constant_objects_in_all_ways() {
    ways::<Constant>("memfs:files-constant");
}

#[test]
fn variable_objects_in_all_ways() {
    ways::<Variable>("memfs:files-variable");
}

#[test]
fn the_operating_systems_files_too() {
    let folder = tempfile::tempdir().unwrap();
    for device in ["ufs", "uring"] {
        let name = format!("{device}:{}/a", folder.path().display());
        run(3, |world| write_all_ways::<Variable>(world, &name, ByteOrder::Little).map(drop));
        run(2, |world| read_all_ways::<Variable>(world, &name, 39));
        run(2, |world| write_all_ways::<Trivial>(world, &name, ByteOrder::Little).map(drop));
        run(3, |world| read_all_ways::<Trivial>(world, &name, 26));
    }
}

/// Every view of rank `r` of `size`, and what it sees of 60 objects.
fn views(world: &Comm) -> Vec<ObjectView> {
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

fn through_views<T: Numbered>(name: &str) {
    for kind in 0..7 {
        run(3, |world| {
            let view = views(world).swap_remove(kind);
            let seen = (0..20).filter_map(|place| view.number(place)).take_while(|number| *number < 60);
            let seen: Vec<u64> = seen.collect();
            let file = ObjectFile::<T>::create(world, name)?;
            file.set_view(&view)?;
            // Each rank its own number of objects, in two calls.
            let (first, second) = seen.split_at(world.rank() + 1);
            file.next().all().write(&some::<T>(first.iter().copied()))?;
            file.next().all().write(&some::<T>(second.iter().copied()))?;
            file.close()
        });
        for readers in [1, 2, 3] {
            run(readers, |world| {
                let file = ObjectFile::<T>::open(world, name)?;
                let count = file.count()?;
                for view in views(world) {
                    file.set_view(&view)?;
                    let numbers: Vec<u64> =
                        (0..file.seen()?).filter_map(|place| view.number(place)).collect();
                    assert!(numbers.iter().all(|number| *number < count));
                    // Objects that no rank wrote cannot be read where sizes differ; here only the mask and the shifted view leave some out.
                    if kind == 4 || kind == 5 {
                        continue;
                    }
                    assert_eq!(file.next().all().read_vec(60)?, some::<T>(numbers));
                }
                file.close()
            });
        }
    }
}

#[test]
fn views_over_objects_of_constant_size() {
    through_views::<Trivial>("memfs:views-trivial");
    through_views::<Constant>("memfs:views-constant");
}

#[test]
fn views_over_objects_of_variable_size() {
    through_views::<Variable>("memfs:views-variable");
}

#[test]
fn overwriting_in_place_and_anew() {
    fn overwrite<T: Numbered>(world: &Comm, name: &str) -> Result<(), Error> {
        let file = ObjectFile::<T>::create(world, name)?;
        file.at(50 * world.rank() as u64).all().write(&some::<T>(0..50))?;
        file.close()?;
        let file = ObjectOpen::new(Mode::read_write()).open::<T>(world, name)?;
        if world.rank() == 1 {
            file.at(3).write(&some::<T>([1000, 1001]))?;
        }
        file.close()?;
        let file = ObjectFile::<T>::open(world, name)?;
        let expected = [0, 1, 2, 1000, 1001, 5];
        assert_eq!(file.at(0).read_vec(6)?, some::<T>(expected));
        assert_eq!(file.count()?, 50 * world.size() as u64);
        file.close()
    }
    run(2, |world| overwrite::<Trivial>(world, "memfs:over-trivial"));
    run(2, |world| overwrite::<Variable>(world, "memfs:over-variable"));
}

#[test]
fn fields_alone() {
    run(3, |world| {
        let (rank, name) = (world.rank() as u64, "memfs:fields");
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let open = ObjectOpen::new(Mode::read_write().create()).anew().byte_order(order);
            let file = open.open::<Constant>(world, name)?;
            file.at(100 * rank).all().write(&some::<Constant>(100 * rank..100 * rank + 100))?;
            let ids = file.field::<u64>("id")?;
            assert_eq!(ids.offset(), Some(1));
            assert_eq!(
                ids.read_all(50 * rank..50 * rank + 70)?,
                (50 * rank..50 * rank + 70).collect::<Vec<_>>()
            );
            assert_eq!(file.field::<f32>("inner.1")?.read(299..400)?, [299.0]);
            assert_eq!(ids.write(10 * rank, &[7, 8])?, 2);
            assert!(ids.write(299, &[7, 8]).is_err(), "only of objects that are there");
            world.barrier()?;
            let changed = file.at(10 * rank).read_vec(3)?;
            assert_eq!(changed.iter().map(|object| object.id).collect::<Vec<_>>(), [7, 8, 10 * rank + 2]);
            assert_eq!(changed[1].inner.0, 10 * rank as u16 + 1, "the rest stays");
            file.set_view(&ObjectView::round_robin(world))?;
            let tags = file.field::<u16>("inner.0")?.read_all(0..100)?;
            assert!(tags.iter().zip(0..).all(|(tag, place)| u64::from(*tag) == 3 * place + rank));
            for (path, kind) in [("nothing", Kind::BadArgument), ("flag", Kind::WrongType)] {
                assert_eq!(file.field::<u64>(path).err().map(|error| error.kind()), Some(kind));
            }
            drop((ids, tags));
            file.close()?;
        }
        Ok(())
    });
    run(2, |world| {
        let file = ObjectFile::<Variable>::create(world, "memfs:fields-variable")?;
        file.at(10 * world.rank() as u64).all().write(&some::<Variable>(0..10))?;
        file.commit()?;
        let names = file.field::<String>("name")?.read_all(3..6)?;
        assert_eq!(names, ["nnn", "nnnn", "nnnnn"]);
        let paths = file.field::<Vec<[f32; 2]>>("path")?;
        assert_eq!(paths.read(12..13)?, [vec![[2.0, 1.0]; 2]]);
        assert_eq!(paths.write(0, &[vec![]]).unwrap_err().kind(), Kind::Unsupported);
        drop(paths);
        file.close()
    });
}

#[test]
fn raw_files_are_plain_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("raw");
    run(2, |world| {
        let file = ObjectOpen::new(Mode::read_write().create()).raw().open::<u32>(world, &path)?;
        file.set_view(&ObjectView::round_robin(world))?;
        file.next().all().write(&vec![world.rank() as u32; 3])?;
        file.close()
    });
    let numbers = [0u32, 1, 0, 1, 0, 1];
    assert_eq!(std::fs::read(&path).unwrap(), numbers.map(u32::to_le_bytes).concat());
    assert!(!folder.path().join("raw.meta").exists());
    run(3, |world| {
        let file = ObjectOpen::new(Mode::read_only()).raw().open::<[u32; 2]>(world, &path)?;
        assert_eq!((file.count()?, file.at(1).read_vec(9)?), (3, vec![[0, 1]; 2]));
        file.close()?;
        let refused = ObjectOpen::new(Mode::read_only()).raw().open::<Variable>(world, &path);
        assert_eq!(refused.unwrap_err().kind(), Kind::Unsupported);
        let error = ObjectFile::<u32>::open(world, &path).unwrap_err();
        assert_eq!(error.kind(), Kind::NoMeta);
        Ok(())
    });
}

#[test]
fn append_and_set_count() {
    run(2, |world| {
        let name = "memfs:append";
        let file = ObjectFile::<u64>::create(world, name)?;
        file.shared().all().write(&[world.rank() as u64])?;
        file.close()?;
        for round in 1..4 {
            let file = ObjectOpen::new(Mode::read_write().append()).open::<u64>(world, name)?;
            file.shared().all().write(&[10 * round + world.rank() as u64])?;
            file.close()?;
        }
        let file = ObjectOpen::new(Mode::read_write()).open::<u64>(world, name)?;
        assert_eq!(file.at(0).read_vec(99)?, [0, 1, 10, 11, 20, 21, 30, 31]);
        file.set_count(3)?;
        file.close()?;
        let file = ObjectFile::<u64>::open(world, name)?;
        assert_eq!(file.at(0).all().read_vec(99)?, [0, 1, 10]);
        file.close()
    });
}

#[test]
fn misuse_is_an_error_on_all_ranks() {
    run(2, |world| {
        let name = "memfs:misuse";
        let file = ObjectFile::<u64>::create(world, name)?;
        file.set_view(&ObjectView::mask("00")?)?;
        assert_eq!(
            file.at(0).all().write(&[1]).unwrap_err().kind(),
            Kind::BadArgument,
            "a view that sees nothing"
        );
        file.set_view(&ObjectView::all())?;
        let outcome = file.at(if world.rank() == 0 { 0 } else { u64::MAX - 1 }).all().write(&[1, 2]);
        assert_eq!(outcome.unwrap_err().kind(), Kind::BadArgument);
        assert!(file.at(0).begin_write(vec![1]).is_err());
        file.at(0).all().write(&[5])?;
        file.close()?;
        let file = ObjectFile::<u64>::open(world, name)?;
        assert!(file.at(0).write(&[1]).is_err() && file.commit().is_err());
        file.close()?;
        assert_eq!(ObjectFile::<()>::create(world, "memfs:empty").unwrap_err().kind(), Kind::Unsupported);
        let open = ObjectOpen::new(Mode::read_write().exclusive());
        assert_eq!(
            open.open::<u64>(world, name).unwrap_err().file_kind(),
            Some(aqueduct_file::Kind::FileExists)
        );
        let missing = ObjectFile::<u64>::open(world, "memfs:nothing-here").unwrap_err();
        assert_eq!(
            missing.file_kind().or(Some(aqueduct_file::Kind::NoSuchFile)),
            Some(aqueduct_file::Kind::NoSuchFile)
        );
        Ok(())
    });
}
