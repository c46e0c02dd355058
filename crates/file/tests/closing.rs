//! What closing reports: errors that a file system reports only then reach all ranks.

use std::path::Path;
use std::process::Command;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{Class, Error, Kind, OpenOptions, Result};

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
            // The file is closed all the same: it can be deleted, and opened anew.
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
