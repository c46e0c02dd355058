//! Hot regions are written through mapped pages, correctly even if the file is truncated or changed by others.

use std::os::unix::fs::FileExt;
use std::path::Path;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{File, OpenOptions, Result};

const MINE: usize = 300_000;

/// What a rank writes in a step.
fn values(rank: usize, step: usize) -> Vec<u8> {
    (0..MINE).map(|at| (at * 7 + rank * 31 + step * 3) as u8).collect()
}

fn write(file: &File, world: &Comm, step: usize) -> Result<()> {
    let at = (world.rank() * MINE) as u64;
    match step % 3 {
        0 => file.at(at).write(&values(world.rank(), step))?,
        1 => file.at(at).all().write(&values(world.rank(), step))?,
        _ => file.at(at).start_write(values(world.rank(), step))?.wait()?.1,
    };
    Ok(())
}

/// Every rank looks at what the next one wrote.
fn check(file: &File, world: &Comm, step: usize) -> Result<()> {
    file.sync()?;
    let next = (world.rank() + 1) % world.size();
    let mut back = vec![0; MINE];
    file.at((next * MINE) as u64).read(&mut back)?;
    assert_eq!(back, values(next, step), "step {step}");
    file.sync()
}

/// Whether files of a folder keep their room, so that their pages are worth mapping: on tmpfs they do.
fn with_tmpfs(program: impl Fn(&str)) {
    if Path::new("/dev/shm").is_dir() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        program(&format!("ufs:{}", folder.path().join("a").display()));
    }
}

#[test]
fn repeated_overwrites_are_correct() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("ufs:{}", folder.path().join("a").display());
    for ranks in [1, 2, 3] {
        let program = |world: &Comm| {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .delete_on_close(true)
                .open(world, &name)?;
            for step in 0..40 {
                match step {
                    12 => file.set_size(0)?,
                    20 => file.set_size(50_000)?,
                    25 => file.set_atomic(true)?,
                    30 => file.set_atomic(false)?,
                    _ => {}
                }
                write(&file, world, step)?;
                check(&file, world, step)?;
            }
            file.close()
        };
        Launch::threads(ranks).run(program).unwrap();
    }
}

#[test]
fn repeatedly_written_regions_are_mapped() {
    with_tmpfs(|name| {
        let program = |world: &Comm| {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .delete_on_close(true)
                .open(world, name)?;
            for step in 0..30 {
                file.at((world.rank() * MINE) as u64).write(&values(world.rank(), step))?;
                // After that it is tried, and the cheaper way taken, which may be either.
                assert_eq!(file.counters().copied > 0, step >= 4, "step {step}");
            }
            check(&file, world, 29)?;
            file.close()
        };
        Launch::threads(2).run(program).unwrap();
    });
}

#[test]
fn a_repeated_read_is_one_system_call() {
    with_tmpfs(|name| {
        let program = |world: &Comm| {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .delete_on_close(true)
                .open(world, name)?;
            let at = (world.rank() * MINE) as u64;
            for step in 0..30 {
                // Not through the engine, so that nothing is copied but what is read.
                let path = name.strip_prefix("ufs:").unwrap();
                let other = std::fs::OpenOptions::new().write(true).open(path).unwrap();
                other.write_all_at(&values(world.rank(), step), at).unwrap();
                let mut back = vec![0; MINE];
                assert_eq!(file.at(at).read(&mut back)?.bytes(), MINE as u64);
                assert!(back == values(world.rank(), step), "step {step}");
                assert_eq!((file.counters().copied, file.counters().system_calls), (0, step as u64 + 1));
            }
            file.close()
        };
        Launch::threads(2).run(program).unwrap();
    });
}

#[test]
fn repeated_reads_end_at_the_end_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let program = |world: &Comm| {
        let file = OpenOptions::new().read(true).write(true).create(true).open(world, &path)?;
        for step in 0..60 {
            // Another program's doing: it is cut, grown and written between the reads.
            let len = [MINE, MINE / 3, 0, MINE - 1, 4096][step % 5];
            std::fs::write(&path, &values(0, step)[..len]).unwrap();
            let mut back = vec![0; MINE];
            assert_eq!(file.at(0).read(&mut back)?.bytes(), len as u64, "step {step}");
            assert!(back[..len] == values(0, step)[..len], "step {step}");
            assert!(back[len..].iter().all(|byte| *byte == 0), "step {step}");
        }
        file.close()
    };
    Launch::threads(1).run(program).unwrap();
}

#[test]
fn hints_disable_mapped_access() {
    with_tmpfs(|name| {
        for hint in [("aqueduct_map", "false"), ("aqueduct_strategy", "list")] {
            let program = |world: &Comm| {
                let open = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .delete_on_close(true)
                    .hint(hint.0, hint.1);
                let file = open.open(world, name)?;
                for step in 0..30 {
                    file.at(0).write(&values(0, step))?;
                    file.at(0).read(&mut vec![0u8; MINE])?;
                }
                assert_eq!((file.counters().copied, file.counters().system_calls), (0, 60));
                file.close()
            };
            Launch::threads(1).run(program).unwrap();
        }
    });
}

#[test]
fn truncation_between_steps_does_not_affect_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let name = format!("ufs:{}", path.display());
    let program = |world: &Comm| {
        let file = OpenOptions::new().read(true).write(true).create(true).open(world, &name)?;
        for step in 0..30 {
            if step % 7 == 6 {
                std::fs::OpenOptions::new()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .set_len(step as u64 * 1000)
                    .unwrap();
            }
            file.at(0).write(&values(0, step))?;
            assert!(std::fs::read(&path).unwrap() == values(0, step), "step {step}");
        }
        file.close()
    };
    Launch::threads(1).run(program).unwrap();
}
