//! What applications need of object files: collective reads, borrowed writes, fields, indices, compaction, management.

use std::collections::{BinaryHeap, LinkedList};

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{Info, Mode};
use aqueduct_object::schema::ByteOrder;
use aqueduct_object::{
    Error, FromIter, Kind, Object, ObjectFile, ObjectOpenOptions, ObjectView, ReadRequest, compact, delete,
};

use super::cases::{Constant, Numbered, Trivial, Variable, some};

fn run(ranks: usize, program: impl Fn(&Comm) -> Result<(), Error> + Sync) {
    Launch::threads(ranks).node_ranks(if ranks > 3 { 2 } else { ranks }).run(program).unwrap();
}

#[test]
fn a_collective_read_of_variable_objects_is_one_access_of_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("interleaved");
    run(4, |world| {
        let file = ObjectOpenOptions::new(Mode::read_write().exclusive()).unchecked();
        let file = file.open::<Variable>(world, &name)?;
        file.at(1000 * world.rank() as u64)
            .all()
            .write(&some::<Variable>(1000 * world.rank() as u64..1000 * world.rank() as u64 + 1000))?;
        file.close()?;
        let rank = world.rank() as u64;
        let expected = some::<Variable>((0..1000).map(|at| 4 * at + rank));
        let options = ObjectOpenOptions::new(Mode::read_only()).hint("aqueduct_strategy", "two-phase");
        let file = options.open::<Variable>(world, &name)?;
        file.set_view(&ObjectView::round_robin(world))?;
        let before = file.counters();
        assert_eq!(file.at(0).all().read_vec(1000)?, expected);
        let done = file.counters() - before;
        let done = world.allreduce(aqueduct_comm::Op::Sum, &[done.system_calls, done.reads])?;
        assert!(done[0] <= 8, "{} system calls for 4000 objects", done[0]);
        let request = file.at(0).all().start_read(1000)?;
        let second = file.at(500).all().start_read(1000)?;
        assert_eq!(request.wait()?, expected);
        assert_eq!(second.wait()?, expected[500..], "two non-blocking collective reads at a time");
        assert_eq!(file.at(0).start_read(10)?.wait()?, expected[..10]);
        assert_eq!(file.at(0).read_vec(1000)?, expected);
        file.close()
    });
}

#[test]
fn a_failing_rank_fails_a_non_blocking_collective_read_on_all() {
    run(3, |world| {
        let file = ObjectFile::create(world, "memfs:failing-read")?;
        let mine = 5 * world.rank() as u64;
        file.at(mine).all().write(&some::<Variable>(mine..mine + 5))?;
        // Rank 0 asks for objects that it does not know of before the commit.
        let wanted = if world.rank() == 0 { 10 } else { mine };
        file.at(14).write(&some::<Variable>([14]))?;
        let outcome = file.at(wanted).all().start_read(5).and_then(ReadRequest::wait);
        assert!(outcome.is_err(), "rank {}", world.rank());
        assert!(file.at(wanted).all().read_vec(5).is_err());
        file.commit()?;
        assert_eq!(file.at(mine).all().read_vec(5)?, some::<Variable>(mine..mine + 5));
        file.close()
    });
}

fn borrowed<T: Numbered + Sync>(name: &str) {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        run(3, |world| {
            let options = ObjectOpenOptions::new(Mode::read_write().create()).replace().byte_order(order);
            let file = options.open::<T>(world, name)?;
            file.set_view(&ObjectView::contiguous(world, 9)?)?;
            let first = 9 * world.rank() as u64;
            let mine = some::<T>(first..first + 9);
            let list: LinkedList<T> = mine[6..].iter().cloned().collect();
            file.scope(|scope| {
                let left = scope.write(file.at(0).all(), &mine[..4])?;
                let right = scope.write(file.at(4), &mine[4..6])?;
                let _unwaited = scope.write(file.at(6), FromIter(list.iter()))?;
                assert_eq!(left.wait()? + right.wait()?, 6);
                Ok::<_, Error>(())
            })?;
            file.commit()?;
            file.set_view(&ObjectView::all())?;
            assert_eq!(file.at(0).all().read_vec(99)?, some::<T>(0..27));
            file.close()
        });
    }
}

#[test]
fn borrowed_objects_are_written_in_a_scope() {
    borrowed::<Trivial>("memfs:borrowed-trivial");
    borrowed::<Constant>("memfs:borrowed-constant");
    borrowed::<Variable>("memfs:borrowed-variable");
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Molecule {
    path: Vec<u16>,
    mass: f64,
    name: String,
}

fn molecule(number: u64) -> Molecule {
    Molecule { path: vec![7; number as usize % 5], mass: number as f64, name: format!("m{number}") }
}

#[test]
fn one_field_of_variable_objects_is_read_and_written_in_one_access() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        run(3, |world| {
            let name = "memfs:field-of-variable";
            let options = ObjectOpenOptions::new(Mode::read_write().create()).replace().byte_order(order);
            let file = options.open::<Molecule>(world, name)?;
            let first = 40 * world.rank() as u64;
            file.at(first).all().write(&(first..first + 40).map(molecule).collect::<Vec<_>>())?;
            file.commit()?;
            file.set_view(&ObjectView::round_robin(world))?;
            let numbers: Vec<u64> = (0..40).map(|at| 3 * at + world.rank() as u64).collect();
            let masses = file.field::<f64>("mass")?;
            let expected: Vec<f64> = numbers.iter().map(|number| *number as f64).collect();
            let before = file.counters();
            assert_eq!(masses.read(0..40)?, expected);
            assert!(file.counters().reads - before.reads <= 1, "one read for 40 objects");
            assert_eq!(masses.all().read(0..40)?, expected);
            // In place: no byte more in the file.
            let doubled: Vec<f64> = expected.iter().map(|mass| 2.0 * mass).collect();
            assert_eq!(masses.all().write(0, &doubled)?, 40);
            drop(masses);
            // Of another length: the objects are written anew.
            let names: Vec<String> = numbers.iter().map(|number| "x".repeat(*number as usize % 9)).collect();
            file.field::<String>("name")?.all().write(0, &names)?;
            file.commit()?;
            file.verify()?;
            let wanted = |number: u64| Molecule {
                mass: 2.0 * number as f64,
                name: "x".repeat(number as usize % 9),
                ..molecule(number)
            };
            file.set_view(&ObjectView::all())?;
            assert_eq!(file.at(0).read_vec(200)?, (0..120).map(wanted).collect::<Vec<_>>());
            let refused = file.field::<f64>("mass")?.write(119, &[1.0, 2.0]).unwrap_err();
            assert_eq!(refused.kind(), Kind::BadArgument, "objects after the end have no fields");
            file.close()
        });
    }
}

#[test]
fn the_index_of_many_objects_is_written_by_all_ranks() {
    // 4 x 500 objects have 65 units of index entries; in three commits, so that the area moves and is overwritten.
    for ranks in [1, 3, 4] {
        run(ranks, |world| {
            let name = "memfs:shared-index";
            let file = ObjectFile::<Variable>::replace(world, name)?;
            let rank = world.rank() as u64;
            for step in 0..3 {
                file.set_view(&ObjectView::cyclic(world, 3)?)?;
                let numbers = (500 * step..500 * step + 500).map(|place| file.view().number(place).unwrap());
                file.at(500 * step).all().write(&some::<Variable>(numbers))?;
                file.commit()?;
            }
            file.set_view(&ObjectView::all())?;
            if rank == 0 {
                file.at(700).write(&some::<Variable>([5]))?;
            }
            file.close()?;
            let file = ObjectFile::<Variable>::open(world, name)?;
            let mut all = some::<Variable>(0..file.count()?.min(1500));
            all[700] = Variable::number(5);
            assert_eq!(file.at(0).all().read_vec(all.len() as u64)?, all);
            file.verify()?;
            file.close()
        });
    }
}

#[test]
fn compaction_keeps_the_objects_and_drops_the_rest() {
    fn check<T: Numbered>(name: &str, shrinks: bool) {
        run(3, |world| {
            let file =
                ObjectOpenOptions::new(Mode::read_write().create()).replace().byte_order(ByteOrder::Big);
            let file = file.open::<T>(world, name)?;
            for number in [40, 0] {
                let first = 50 * world.rank() as u64;
                file.at(first).all().write(&some::<T>(number + first..number + first + 50))?;
            }
            file.close()?;
            let into = format!("{name}-compacted");
            let _ = world.rank() == 0 && delete(&into).is_ok();
            world.barrier()?;
            let report = compact(world, name, &into)?;
            assert_eq!(report.objects, 150);
            assert_eq!(report.after < report.before, shrinks, "{report:?}");
            let file = ObjectFile::<T>::open(world, &into)?;
            assert_eq!(file.at(0).all().read_vec(999)?, some::<T>(0..150));
            assert_eq!(file.byte_order(), ByteOrder::Big);
            file.verify()?;
            file.close()?;
            assert_eq!(compact(world, name, &into).unwrap_err().kind(), Kind::FileExists);
            Ok(())
        });
    }
    check::<Variable>("memfs:to-compact", true);
    check::<Trivial>("memfs:to-compact-trivial", false);
}

#[test]
fn objects_are_found_by_a_sorted_index() {
    run(4, |world| {
        let name = "memfs:sorted-index";
        let file = ObjectFile::<Variable>::replace(world, name)?;
        let rank = world.rank() as u64;
        // Every value twice, scattered over the ranks.
        let ids = (0..200).map(|at| (7 * (200 * rank + at) + 3) % 400);
        file.shared().all().write(&some::<Variable>(ids))?;
        assert_eq!(file.build_index::<u64>("id").unwrap_err().kind(), Kind::BadArgument, "not committed");
        file.commit()?;
        assert_eq!(file.find("id", &1u64).unwrap_err().kind(), Kind::NoSuchFile);
        file.build_index::<u64>("id")?;
        for id in 0..400 {
            let found = file.find("id", &id)?;
            assert_eq!(found.len(), 2, "value {id}");
            assert!(found[0] < found[1]);
            for number in found {
                assert_eq!(file.at(number).read_vec(1)?[0].id, id);
            }
        }
        assert_eq!(file.find("id", &400u64)?, Vec::<u64>::new());
        assert_eq!(file.field_index::<u64>("id")?.find_range(&10, &20)?.len(), 20);
        world.barrier()?;
        file.shared().all().write(&some::<Variable>([9]))?;
        file.commit()?;
        assert_eq!(file.find("id", &1u64).unwrap_err().kind(), Kind::Incomplete, "the index is old");
        file.close()
    });
}

#[test]
fn an_index_of_other_contents_is_refused() {
    fn stale(file: &ObjectFile<Variable>) {
        assert_eq!(file.find("id", &1u64).unwrap_err().kind(), Kind::Incomplete);
    }
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("indexed");
    let index = folder.path().join("indexed.id.index");
    let kept = folder.path().join("kept");
    let endings = ["", ".meta"];
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        for ending in endings {
            let path = |path: &std::path::Path| format!("{}{ending}", path.display());
            std::fs::copy(path(from), path(to)).unwrap();
        }
    };
    run(2, |world| {
        let write = |ids: std::ops::Range<u64>| {
            let file = ObjectFile::<Variable>::replace(world, &name)?;
            file.set_view(&ObjectView::block(world, 20)?)?;
            let mine = (0..10).map(|place| file.view().number(place).unwrap() + ids.start);
            file.at(0).all().write(&some::<Variable>(mine))?;
            file.commit()?;
            Ok::<_, Error>(file)
        };
        let file = write(0..20)?;
        file.build_index::<u64>("id")?;
        assert_eq!(file.find("id", &1u64)?, [1]);
        file.close()?;
        let file = ObjectFile::<Variable>::open(world, &name)?;
        assert_eq!(file.find("id", &1u64)?, [1]);
        // Known to have an index, so that another one needs no write access.
        file.build_index::<String>("name")?;
        file.close()?;
        if world.rank() == 0 {
            copy(&index, &kept);
        }
        world.barrier()?;
        // As many objects, as many bytes, the same number of commits; the index of the former file is back.
        let file = write(100..120)?;
        assert!(!index.exists(), "it is deleted with the file");
        assert_eq!(file.find("id", &1u64).unwrap_err().kind(), Kind::NoSuchFile);
        world.barrier()?;
        if world.rank() == 0 {
            copy(&kept, &index);
        }
        world.barrier()?;
        stale(&file);
        file.build_index::<String>("name")?;
        stale(&file);
        file.close()?;
        let file = ObjectFile::<Variable>::open(world, &name)?;
        stale(&file);
        file.build_index::<u64>("id")?;
        assert_eq!(file.find("id", &101u64)?, [1]);
        file.close()
    });
    delete(&name).unwrap();
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the copy of the index: {left:?}");
}

#[test]
fn the_first_index_of_a_commit_needs_write_access() {
    run(2, |world| {
        let name = "memfs:index-of-commit";
        let file = ObjectFile::<Variable>::replace(world, name)?;
        assert_eq!(file.build_index::<u64>("id").unwrap_err().kind(), Kind::BadArgument, "not committed");
        file.close()?;
        let file = ObjectFile::<Variable>::open(world, name)?;
        let refused = file.build_index::<u64>("id").unwrap_err();
        assert_eq!(refused.kind(), Kind::BadArgument, "{refused}");
        file.close()
    });
}

/// The numbers of the objects of the values, as a list of all values has them.
fn expected(values: &[u64], wanted: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut found: Vec<_> = values
        .iter()
        .zip(0u64..)
        .filter(|(value, _)| wanted(**value))
        .map(|(value, at)| (*value, at))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, at)| at).collect()
}

#[test]
fn a_search_reads_one_block_per_level_of_the_index() {
    // Sizes around those where the index gets a level more; values that fill no block, and more than one.
    for (count, values, levels) in [
        (0, 1, 1),
        (1, 1, 1),
        (511, 9, 1),
        (512, 3, 1),
        (513, 1000, 2),
        (5000, 4, 2),
        (5000, 5000, 2),
        (300_000, 30_000, 3),
    ] {
        run(3, |world| {
            let file = ObjectFile::<Trivial>::replace(world, "memfs:levels")?;
            let all: Vec<u64> = (0..count).map(|at| (at * 7919 + at / 7) % values * 2).collect();
            let view = ObjectView::block(world, count.max(1))?;
            let mine = (0..view.count_before(count)).map(|place| all[view.number(place).unwrap() as usize]);
            file.set_view(&view)?;
            file.at(0).all().write(&some::<Trivial>(mine))?;
            file.commit()?;
            file.build_index::<u64>("id")?;
            let index = file.field_index::<u64>("id")?;
            for value in [0, 1, 2, 6, values, values + 1, 2 * values - 2, 2 * values] {
                let before = index.counters();
                let found = index.find(&value)?;
                assert_eq!(found, expected(&all, |other| other == value), "{value} of {count} objects");
                let reads = (index.counters() - before).reads;
                let more = if levels > 1 { found.len() as u64 / 512 + 1 } else { 0 };
                assert!(reads <= levels - 1 + more, "{reads} reads for {value} of {count} objects");
            }
            let found = index.find_range(&3, &(values / 2))?;
            assert_eq!(found, expected(&all, |value| (3..values / 2).contains(&value)));
            file.close()
        });
    }
}

#[test]
fn files_are_managed_like_byte_files() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("managed");
    run(2, |world| {
        let file = ObjectOpenOptions::new(Mode::read_write().create()).hint("cb_nodes", "1");
        let file = file.open::<Trivial>(world, &name)?;
        assert_eq!((file.object_size(), file.mode().is_write()), (Some(24), true));
        assert_eq!(file.info().get("cb_nodes"), Some("1"));
        let mut info = Info::new();
        info.set("cb_nodes", "2");
        file.set_info(&info)?;
        file.set_view(&ObjectView::round_robin(world))?;
        assert_eq!(file.byte_offset(3)?, 24 * (6 + world.rank() as u64));
        file.preallocate(10)?;
        assert_eq!(file.count()?, 10, "the file is as long as the space");
        file.set_atomic(true)?;
        assert!(file.is_atomic());
        file.at(0).all().write(&some::<Trivial>([1, 2]))?;
        file.sync()?;
        let reader = ObjectFile::<Trivial>::open(world, &name);
        assert_eq!(reader.unwrap_err().kind(), Kind::Incomplete, "synced, but not published");
        file.close()?;
        let file = ObjectFile::<Trivial>::open(world, &name)?;
        assert_eq!(file.count()?, 10);
        file.close()?;
        if world.rank() == 0 {
            delete(&name)?;
            assert_eq!(delete(&name).unwrap_err().kind(), Kind::NoSuchFile);
        }
        world.barrier()?;
        let file = ObjectFile::<Variable>::create(world, &name)?;
        for refused in [file.preallocate(10), file.set_atomic(true)] {
            assert_eq!(refused.unwrap_err().kind(), Kind::Unsupported);
        }
        file.at(0).all().write(&some::<Variable>(if world.rank() == 0 { 0..3 } else { 0..0 }))?;
        file.commit()?;
        assert_eq!(file.byte_offset(1)?, Variable::number(0).encoded_size() as u64);
        let in_use = delete(&name).unwrap_err();
        assert_eq!(in_use.kind(), Kind::InUse);
        file.close()
    });
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "the data and its .meta");
}

#[test]
fn containers_are_filled_from_a_file() {
    run(2, |world| {
        let file = ObjectFile::replace(world, "memfs:containers")?;
        file.at(0).all().write(&[5u32, 1, 9])?;
        let mut heap = BinaryHeap::from([7]);
        assert_eq!(file.at(0).all().read_onto(9, &mut heap)?, 3);
        assert_eq!(heap.into_sorted_vec(), [1, 5, 7, 9]);
        let mut list = LinkedList::new();
        assert_eq!(file.at(1).read_onto(1, &mut list)?, 1);
        assert_eq!(list, LinkedList::from([1]));
        file.close()
    });
}
