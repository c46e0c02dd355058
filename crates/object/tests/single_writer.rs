//! One writer per object file, and files that exist.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::Mode;
use aqueduct_object::{Error, ObjectFile, ObjectOpenOptions, repair};

/// Where a child process writes its object file.
const CHILD: &str = "AQUEDUCT_TEST_OBJECT_WRITER";

fn run(ranks: usize, program: impl Fn(&Comm) -> Result<(), Error> + Sync) {
    Launch::threads(ranks).run(program).unwrap();
}

fn assert_in_use(name: &str, outcome: Result<(), Error>) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), aqueduct_file::Kind::InUse, "{error}");
    let shown = error.to_string();
    assert!(shown.contains(&format!("{name:?}")) && shown.contains("close it there first"), "{shown}");
}

#[test]
fn second_writer_of_an_object_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("objects").display().to_string();
    run(2, |world| {
        let first = ObjectFile::create(world, &name)?;
        first.at(4 * world.rank() as u64).all().write(&[1u32, 2, 3, 4])?;
        first.commit()?;
        assert_in_use(&name, ObjectFile::<u32>::replace(world, &name).map(drop));
        assert_in_use(&name, ObjectFile::<u32>::create(world, &name).map(drop));
        assert_in_use(&name, ObjectOpenOptions::new(Mode::read_write()).open::<u32>(world, &name).map(drop));
        assert_in_use(&name, repair::<u32>(world, &name).map(drop));
        // Readers can open the file, which is unchanged.
        let reader = ObjectFile::<u32>::open(world, &name)?;
        assert_eq!(reader.at(0).read_vec(9)?, [1, 2, 3, 4, 1, 2, 3, 4]);
        reader.close()?;
        first.close()?;
        let second = ObjectOpenOptions::new(Mode::read_write()).open::<u32>(world, &name)?;
        assert_in_use(&name, ObjectFile::<u32>::replace(world, &name).map(drop));
        drop(second);
        world.barrier()?;
        ObjectFile::<u32>::replace(world, &name)?.close()
    });
}

#[test]
fn existing_files_are_refused_unless_they_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects");
    run(2, |world| {
        let file = ObjectFile::create(world, &path)?;
        file.at(0).all().write(if world.rank() == 0 { &[5u32, 6][..] } else { &[] })?;
        file.close()?;
        let error = ObjectFile::<u32>::create(world, &path).unwrap_err();
        assert_eq!(error.kind(), aqueduct_file::Kind::FileExists, "{error}");
        assert!(error.to_string().contains("`ObjectOpenOptions::replace`"), "{error}");
        let file = ObjectFile::<u32>::open(world, &path)?;
        assert_eq!(file.at(0).read_vec(9)?, [5, 6]);
        file.close()?;
        let file = ObjectFile::<u32>::replace(world, &path)?;
        assert_eq!(file.count()?, 0);
        file.close()
    });
    let other = folder.path().join("thesis.tex");
    std::fs::write(&other, "years of work").unwrap();
    run(2, |world| {
        let error = ObjectFile::<u32>::create(world, &other).unwrap_err();
        assert_eq!(error.kind(), aqueduct_file::Kind::FileExists, "{error}");
        Ok(())
    });
    assert_eq!(std::fs::read(&other).unwrap(), b"years of work");
    assert!(!folder.path().join("thesis.tex.meta").exists());
}

#[test]
fn unknown_device_is_named_with_the_file() {
    run(2, |world| {
        let created = ObjectFile::<u32>::create(world, "s3:bucket/run").map(drop);
        let replaced = ObjectFile::<u32>::replace(world, "s3:bucket/run").map(drop);
        for error in [created, replaced].map(Result::unwrap_err) {
            let shown = error.to_string();
            assert!(
                shown.contains("\"s3:bucket/run\"") && shown.contains("unknown prefix \"s3\""),
                "{shown}"
            );
            assert!(!shown.contains(".meta"), "{shown}");
        }
        Ok(())
    });
}

/// The writer that `lock_of_a_killed_writer_is_free_again` starts and kills.
#[test]
fn child_writer() {
    let Ok(name) = std::env::var(CHILD) else { return };
    run(1, |world| {
        let file = ObjectFile::create(world, &name)?;
        file.at(0).write(&[1u32])?;
        file.commit()?;
        println!("\nwriting");
        std::io::stdout().flush().unwrap();
        std::thread::sleep(std::time::Duration::from_secs(60));
        file.close()
    });
}

#[test]
fn lock_of_a_killed_writer_is_free_again() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("objects").display().to_string();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_writer", "--nocapture"])
        .env(CHILD, &name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("writing")), "the child has ended");
    run(2, |world| {
        assert_in_use(&name, ObjectFile::<u32>::replace(world, &name).map(drop));
        Ok(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    run(2, |world| {
        let file = ObjectOpenOptions::new(Mode::read_write()).open::<u32>(world, &name)?;
        assert_eq!(file.at(0).read_vec(2)?, [1]);
        file.close()
    });
}
