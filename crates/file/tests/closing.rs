//! Closing: errors that a file system reports only then reach all ranks. A rank can close a file without the other ranks when the program
//! ends, with limited waits.

mod timeout;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{Class, Error, Kind, Mode, OpenOptions, Result};
use timeout::with_timeout;

fn write_and_close(world: &Comm, name: &str) -> Result<()> {
    let file = OpenOptions::new().read(true).write(true).create(true).open(world, name)?;
    file.at(100 * world.rank() as u64).write(&[7u8; 100])?;
    file.close()
}

#[test]
fn an_error_of_closing_on_one_rank_fails_on_all() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, expected) in [("quota", Class::Quota), ("nospace", Class::NoSpace), ("io", Class::Io)] {
        let name = format!("fault=rank=1,close={kind}@#1:ufs:{}", folder.path().join(kind).display());
        let classes = Launch::threads(3).run(|world| {
            let error = write_and_close(world, &name).expect_err("closing fails on rank 1");
            assert_eq!(error.operation(), "close");
            if world.rank() != 1 {
                assert_eq!(error.rank(), Some(1));
            }
            // The file is closed nevertheless: it can be deleted and opened again.
            world.barrier().unwrap();
            write_and_close(world, &format!("ufs:{}", folder.path().join(kind).display()))?;
            Ok::<_, Error>(error.class())
        });
        assert_eq!(classes.unwrap(), [expected; 3]);
    }
}

/// A library that replaces close(2): files with this name are closed, and a quota is reported.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int close(int fd) {
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    long outcome = syscall(SYS_close, fd);
    if (length > 0) {
        path[length] = 0;
        if (strstr(path, "over-quota")) { errno = EDQUOT; return -1; }
    }
    return (int) outcome;
}
"#;
const CHILD: &str = "AQUEDUCT_TEST_CLOSE_CHILD";

fn close_under_the_shim(folder: &Path) {
    for (device, direct) in
        [("ufs:", "false"), ("uring:", "false"), ("ufs:", "true"), ("trace=/dev/null:crash:ufs:", "false")]
    {
        let name = format!("{device}{}", folder.join("over-quota").display());
        let outcome = Launch::threads(2).run(|world| {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .hint("aqueduct_direct", direct)
                .open(world, &name)?;
            file.at(0).all().write(&[7u8; 5000])?;
            file.sync()?;
            let error = file.close().expect_err("close(2) reports a quota");
            assert_eq!((error.kind(), error.class()), (Kind::Quota, Class::Quota), "{error}");
            Ok::<_, Error>(())
        });
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn errors_of_the_system_call_are_reported() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return close_under_the_shim(Path::new(&folder));
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (source, library) = (folder.path().join("shim.c"), folder.path().join("shim.so"));
    std::fs::write(&source, SHIM).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "errors_of_the_system_call_are_reported", "--nocapture"]);
    let status = child.env("LD_PRELOAD", library).env(CHILD, folder.path()).status();
    assert!(status.unwrap().success());
}

/// Long enough to see that it was waited, short enough for a test.
const LIMIT: Duration = Duration::from_millis(300);

#[test]
fn a_wait_for_a_collective_operation_without_the_other_ranks_is_limited() {
    with_timeout("a file left open", || {
        let ranks = Launch::threads(2).node_ranks(1).run(|world| {
            let mode = Mode::read_write().create().delete_on_close();
            let file = OpenOptions::from(mode).open(world, "memfs:closing-alone")?;
            if world.rank() == 0 {
                let request = file.at(0).all().start_write(vec![1u8; 1000])?;
                let split = file.at(1000).all().begin_write(vec![1u8; 1000])?;
                let start = Instant::now();
                assert!(split.end_within(LIMIT).is_none());
                let deadline = Instant::now() + LIMIT;
                assert!(file.finish_alone(deadline).is_err());
                file.close_alone()?;
                assert!(start.elapsed() >= LIMIT && start.elapsed() < 20 * LIMIT, "{:?}", start.elapsed());
                assert!(!request.is_done());
            } else {
                // Stays until the other one has given up: a rank that ends would end its wait.
                std::thread::sleep(4 * LIMIT);
                file.close_alone()?;
            }
            Ok::<_, aqueduct_file::Error>(())
        });
        assert!(ranks.is_ok(), "{ranks:?}");
    });
}

#[test]
fn closing_alone_returns_what_the_device_reports() {
    Launch::threads(2)
        .run(|world| {
            let folder = std::env::temp_dir();
            let name = format!(
                "fault=rank=1,close=quota@#1+:{}/closing-alone-{}",
                folder.display(),
                std::process::id()
            );
            let files = [
                OpenOptions::new().read(true).write(true).create(true).open(world, &name)?,
                OpenOptions::new().read(true).write(true).open(world, &name)?,
            ];
            for (number, file) in files.into_iter().enumerate() {
                file.finish_alone(Instant::now() + LIMIT)?;
                let closed = if number == 0 { file.close_alone() } else { file.close_at_exit() };
                let expected = (world.rank() == 1).then_some(Class::Quota);
                assert_eq!(closed.err().map(|error| error.class()), expected);
            }
            world.barrier().expect("all ranks are here");
            if world.rank() == 0 {
                aqueduct_file::delete(name.split_once("+:").map_or("", |(_, path)| path))?;
            }
            Ok::<_, aqueduct_file::Error>(())
        })
        .expect("all ranks succeed");
}
