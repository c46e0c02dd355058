//! Objects in files: every access method, every category, several numbers of ranks.

#[path = "cases/applications.rs"]
mod applications;
#[path = "cases/files.rs"]
mod cases;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::Mode;
use aqueduct_object::schema::ByteOrder;
use aqueduct_object::{Error, Kind, ObjectFile, ObjectOpenOptions, ObjectView};
use cases::{Constant, Numbered, Trivial, VIEWS, Variable, read_all_ways, some, write_all_ways};

fn run(ranks: usize, program: impl Fn(&Comm) -> Result<(), Error> + Sync) {
    let nodes = if ranks > 3 { 2 } else { ranks };
    Launch::threads(ranks).node_ranks(nodes).run(program).unwrap();
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
fn trivial_objects_by_all_methods() {
    ways::<Trivial>("memfs:files-trivial");
}

#[test]
fn constant_objects_by_all_methods() {
    ways::<Constant>("memfs:files-constant");
}

#[test]
fn variable_objects_by_all_methods() {
    ways::<Variable>("memfs:files-variable");
}

#[test]
fn objects_in_files_of_the_operating_system() {
    let folder = tempfile::tempdir().unwrap();
    for device in ["ufs", "uring"] {
        let name = format!("{device}:{}/a", folder.path().display());
        run(3, |world| write_all_ways::<Variable>(world, &name, ByteOrder::Little).map(drop));
        run(2, |world| read_all_ways::<Variable>(world, &name, 39));
        run(2, |world| write_all_ways::<Trivial>(world, &name, ByteOrder::Little).map(drop));
        run(3, |world| read_all_ways::<Trivial>(world, &name, 26));
    }
}

fn through_views<T: Numbered>(name: &str) {
    for (kind, writers) in (0..VIEWS).flat_map(|kind| [(kind, 3), (kind, 4)]) {
        run(writers, |world| cases::write_through_view::<T>(world, name, kind));
        for readers in [1, 2, 3] {
            run(readers, |world| cases::read_through_views::<T>(world, name, kind));
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
fn objects_are_overwritten_in_place_or_at_the_end() {
    fn overwrite<T: Numbered>(world: &Comm, name: &str) -> Result<(), Error> {
        let file = ObjectFile::<T>::create(world, name)?;
        file.at(50 * world.rank() as u64).all().write(&some::<T>(0..50))?;
        file.close()?;
        let file = ObjectOpenOptions::new(Mode::read_write()).open::<T>(world, name)?;
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
fn one_field_is_read_and_written() {
    run(3, |world| {
        let (rank, name) = (world.rank() as u64, "memfs:fields");
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let open = ObjectOpenOptions::new(Mode::read_write().create()).replace().byte_order(order);
            let file = open.open::<Constant>(world, name)?;
            file.at(100 * rank).all().write(&some::<Constant>(100 * rank..100 * rank + 100))?;
            let ids = file.field::<u64>("id")?;
            assert_eq!(ids.offset(), Some(1));
            assert_eq!(
                ids.all().read(50 * rank..50 * rank + 70)?,
                (50 * rank..50 * rank + 70).collect::<Vec<_>>()
            );
            assert_eq!(file.field::<f32>("inner.1")?.read(299..400)?, [299.0]);
            assert_eq!(ids.write(10 * rank, &[7, 8])?, 2);
            assert!(ids.write(299, &[7, 8]).is_err(), "objects after the end of the file have no fields");
            world.barrier()?;
            let changed = file.at(10 * rank).read_vec(3)?;
            assert_eq!(changed.iter().map(|object| object.id).collect::<Vec<_>>(), [7, 8, 10 * rank + 2]);
            assert_eq!(changed[1].inner.0, 10 * rank as u16 + 1, "other fields keep their values");
            file.set_view(&ObjectView::round_robin(world))?;
            let tags = file.field::<u16>("inner.0")?.all().read(0..100)?;
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
        let names = file.field::<String>("name")?.all().read(3..6)?;
        assert_eq!(names, ["nnn", "nnnn", "nnnnn"]);
        let paths = file.field::<Vec<[f32; 2]>>("path")?;
        assert_eq!(paths.read(12..13)?, [vec![[2.0, 1.0]; 2]]);
        drop(paths);
        file.close()
    });
}

#[test]
fn raw_files_are_plain_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("raw");
    run(2, |world| {
        let file = ObjectOpenOptions::new(Mode::read_write().create()).raw().open::<u32>(world, &path)?;
        file.set_view(&ObjectView::round_robin(world))?;
        file.at_pointer().all().write(&vec![world.rank() as u32; 3])?;
        file.close()
    });
    let numbers = [0u32, 1, 0, 1, 0, 1];
    assert_eq!(std::fs::read(&path).unwrap(), numbers.map(u32::to_le_bytes).concat());
    assert!(!folder.path().join("raw.meta").exists());
    run(3, |world| {
        let file = ObjectOpenOptions::new(Mode::read_only()).raw().open::<[u32; 2]>(world, &path)?;
        assert_eq!((file.count()?, file.at(1).read_vec(9)?), (3, vec![[0, 1]; 2]));
        file.close()?;
        let refused = ObjectOpenOptions::new(Mode::read_only()).raw().open::<Variable>(world, &path);
        assert_eq!(refused.unwrap_err().kind(), Kind::Unsupported);
        let error = ObjectFile::<u32>::open(world, &path).unwrap_err();
        assert_eq!(error.kind(), Kind::NoMetadata);
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
            let file = ObjectOpenOptions::new(Mode::read_write().append()).open::<u64>(world, name)?;
            file.shared().all().write(&[10 * round + world.rank() as u64])?;
            file.close()?;
        }
        let file = ObjectOpenOptions::new(Mode::read_write()).open::<u64>(world, name)?;
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
        assert_eq!(file.at(0).all().write(&[1]).unwrap_err().kind(), Kind::BadArgument, "the view is empty");
        file.set_view(&ObjectView::all())?;
        let outcome = file.at(if world.rank() == 0 { 0 } else { u64::MAX - 1 }).all().write(&[1, 2]);
        assert_eq!(outcome.unwrap_err().kind(), Kind::BadArgument);
        file.at(0).all().write(&[5])?;
        file.close()?;
        let file = ObjectFile::<u64>::open(world, name)?;
        assert!(file.at(0).write(&[1]).is_err() && file.commit().is_err());
        file.close()?;
        assert_eq!(ObjectFile::<()>::create(world, "memfs:empty").unwrap_err().kind(), Kind::Unsupported);
        let open = ObjectOpenOptions::new(Mode::read_write().exclusive());
        assert_eq!(open.open::<u64>(world, name).unwrap_err().kind(), Kind::FileExists);
        let missing = ObjectFile::<u64>::open(world, "memfs:nothing-here").unwrap_err();
        assert_eq!(missing.kind(), Kind::NoSuchFile);
        Ok(())
    });
}

#[test]
fn changes_of_a_file_opened_unchecked_have_checksums() {
    fn change<T: Numbered>(name: &str) {
        run(2, |world| {
            let (first, more) = (world.rank() as u64 * 4000, 8000 + world.rank() as u64 * 4000);
            let file = ObjectFile::<T>::create(world, name)?;
            file.at(first).all().write(&some::<T>(first..first + 4000))?;
            file.close()?;
            let file = ObjectOpenOptions::new(Mode::read_write()).unchecked().open::<T>(world, name)?;
            file.at(first + 1000).all().write(&some::<T>(0..10))?;
            file.at(more).all().write(&some::<T>(more..more + 4000))?;
            file.close()?;
            let file = ObjectFile::<T>::open(world, name)?;
            file.verify()?;
            assert_eq!(file.at(first + 1000).all().read_vec(10)?, some::<T>(0..10));
            assert_eq!(file.at(more).all().read_vec(4000)?, some::<T>(more..more + 4000));
            file.close()
        });
    }
    change::<Trivial>("memfs:files-unchecked-trivial");
    change::<Variable>("memfs:files-unchecked-variable");
}

#[test]
fn a_file_says_who_created_it() {
    run(3, |world| {
        let name = "memfs:files-provenance";
        let file = ObjectFile::<Trivial>::create(world, name)?;
        file.at_pointer().all().write(&some::<Trivial>(0..2))?;
        file.close()?;
        let written_by = ObjectOpenOptions::open_dyn(world, name)?.written_by().unwrap();
        assert!(written_by.program.starts_with("files"), "{written_by:?}");
        assert_eq!((written_by.ranks, written_by.version.as_str()), (3, env!("CARGO_PKG_VERSION")));
        Ok(())
    });
}
