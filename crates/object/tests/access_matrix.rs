//! Every access method for every category of objects, on one and on several nodes.

#[path = "cases/access_matrix.rs"]
mod cases;
#[allow(dead_code, reason = "the module is shared with other suites")]
#[path = "cases/files.rs"]
mod files;

use std::path::Path;
use std::time::{Duration, Instant};

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::Mode;
use aqueduct_object::{Error, Kind, ObjectFile, ObjectOpenOptions, ObjectView};
use cases::{methods, write_and_read};
use files::{Constant, Numbered, Trivial, Variable, some};

fn run(ranks: usize, nodes: usize, program: impl Fn(&Comm) -> Result<(), Error> + Sync) {
    Launch::threads(ranks).node_ranks(ranks.div_ceil(nodes)).run(program).unwrap();
}

fn all_methods<T: Numbered>(name: &str) {
    assert_eq!(methods().len(), 15, "each for reading and for writing");
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}/{name}", folder.path().display());
    for method in methods() {
        for (ranks, nodes) in [(1, 1), (3, 1), (4, 2)] {
            run(ranks, nodes, |world| write_and_read::<T>(world, &path, method));
        }
    }
}

#[test]
fn trivial_objects_by_every_method() {
    all_methods::<Trivial>("trivial");
}

#[test]
fn constant_objects_by_every_method() {
    all_methods::<Constant>("constant");
}

#[test]
fn variable_objects_by_every_method() {
    all_methods::<Variable>("variable");
}

/// Waits until a read is done, then overwrites the file: what is read later differs from what was written.
fn overwrite_when(world: &Comm, path: &Path, is_done: impl Fn() -> bool) -> Result<(), Error> {
    assert!(!is_done(), "the device has a latency of 100 ms");
    let begin = Instant::now();
    while !is_done() {
        assert!(begin.elapsed() < Duration::from_secs(20), "the read makes no progress before wait");
        std::thread::sleep(Duration::from_millis(5));
    }
    world.barrier()?;
    if world.rank() == 0 {
        let length = std::fs::metadata(path).unwrap().len();
        std::fs::write(path, vec![0xff; length as usize]).unwrap();
    }
    Ok(world.barrier()?)
}

/// A non-blocking read makes progress from its start: the bytes are read before `wait`, and `is_done` returns true then.
fn reads_before_wait<T: Numbered>(collective: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects");
    let name = format!("throttle=1GB/s,100ms:ufs:{}", path.display());
    run(2, 1, |world| {
        let first = world.rank() as u64;
        let file = ObjectFile::<T>::create(world, path.as_os_str())?;
        file.at(4 * first).all().write(&some::<T>(4 * first..4 * first + 4))?;
        file.close()?;
        let file = ObjectOpenOptions::new(Mode::read_only()).unchecked().open::<T>(world, &name)?;
        let objects = if collective {
            let request = file.at(first).all().start_read(6)?;
            overwrite_when(world, &path, || request.is_done())?;
            request.wait()?
        } else {
            let request = file.at(first).start_read(6)?;
            overwrite_when(world, &path, || request.is_done())?;
            request.wait()?
        };
        assert_eq!(objects, some::<T>(first..first + 6));
        file.close()
    });
}

#[test]
fn started_reads_of_variable_objects_progress_before_wait() {
    reads_before_wait::<Variable>(false);
    reads_before_wait::<Variable>(true);
}

#[test]
fn started_reads_of_constant_objects_progress_before_wait() {
    reads_before_wait::<Constant>(false);
    reads_before_wait::<Trivial>(true);
}

#[test]
fn contiguous_views_of_different_counts_do_not_overlap() {
    fn check<T: Numbered>(name: &str) {
        let counts = [3u64, 0, 5, 1];
        run(4, 2, |world| {
            let view = ObjectView::contiguous(world, counts[world.rank()])?;
            let before: u64 = counts[..world.rank()].iter().sum();
            // The same view is used for several files and several rounds.
            for part in ["a", "b"] {
                let file = ObjectFile::<T>::replace(world, format!("{name}-{part}"))?;
                file.set_view(&view)?;
                for round in 0..3 {
                    let first = 9 * round + before;
                    file.at_pointer().all().write(&some::<T>(first..first + counts[world.rank()]))?;
                }
                file.close()?;
                let file = ObjectFile::<T>::open(world, format!("{name}-{part}"))?;
                assert_eq!(file.at(0).read_vec(100)?, some::<T>(0..27));
                file.close()?;
            }
            Ok(())
        });
    }
    check::<Trivial>("memfs:contiguous-trivial");
    check::<Variable>("memfs:contiguous-variable");
}

#[test]
fn contiguous_view_that_cannot_be_counted_is_refused_on_all_ranks() {
    run(3, 1, |world| {
        let count = if world.rank() == 1 { u64::MAX / 2 } else { 1 };
        assert_eq!(ObjectView::contiguous(world, count).unwrap_err().kind(), Kind::BadArgument);
        Ok(())
    });
}

#[test]
fn patterns_are_found_by_name_and_programs_add_their_own() {
    // Round-robin from the last rank to the first.
    ObjectView::register("reversed", |comm, argument| {
        assert_eq!(argument, "x", "the text after the colon");
        let mut mask = vec!['0'; comm.size()];
        mask[comm.size() - 1 - comm.rank()] = '1';
        ObjectView::mask(&String::from_iter(mask))
    })
    .unwrap();
    for taken in ["reversed", "block", "", "with:colon"] {
        let refused = ObjectView::register(taken, |_, _| Ok(ObjectView::all())).unwrap_err();
        assert_eq!(refused.kind(), Kind::BadArgument, "{taken}");
    }
    run(3, 1, |world| {
        let rank = world.rank() as u64;
        let own = format!("contiguous:{}", rank + 2);
        for (name, view) in [
            ("all", ObjectView::all()),
            (own.as_str(), ObjectView::contiguous(world, rank + 2)?),
            ("block:10", ObjectView::block(world, 10)?),
            ("round-robin", ObjectView::round_robin(world)),
            ("cyclic:2", ObjectView::cyclic(world, 2)?),
            ("mask:110", ObjectView::mask("110")?),
        ] {
            assert_eq!(ObjectView::named(world, name)?, view, "{name}");
        }
        let file = ObjectFile::<Variable>::replace(world, "memfs:named-pattern")?;
        file.set_view(&ObjectView::named(world, "reversed:x")?)?;
        let mine: Vec<u64> = (0..4).map(|place| file.view().number(place).unwrap()).collect();
        assert_eq!(mine, [2 - rank, 5 - rank, 8 - rank, 11 - rank]);
        file.at_pointer().all().write(&some::<Variable>(mine))?;
        file.close()?;
        let file = ObjectFile::<Variable>::open(world, "memfs:named-pattern")?;
        assert_eq!(file.at(0).all().read_vec(99)?, some::<Variable>(0..12));
        file.close()?;
        // A bad argument of one rank, and an unknown name, are errors on all.
        for (bad, good) in [("block:many", "block:6"), ("cyclic:", "cyclic:2"), ("unknown", "unknown")] {
            let name = if rank == 1 { bad } else { good };
            assert_eq!(ObjectView::named(world, name).unwrap_err().kind(), Kind::BadArgument, "{bad}");
        }
        Ok(())
    });
}
