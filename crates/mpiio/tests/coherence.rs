//! Ranks whose nodes have page caches of their own: each rank has its own mount of one FUSE file system, which locks do not make coherent.
//!
//! It needs root, `unshare` and `bindfs`; elsewhere a notice is printed, and `AQUEDUCT_REQUIRE_MOUNTS=1` makes that a failure.

mod launch;

use std::process::Command;

use launch::{Job, MPICH, OPEN_MPI, compile, preload_library};

/// Mounts the folder `$0` at `$1` for this process alone, and runs the rest with the library.
const MOUNT: &str = "mount=$1; bindfs \"$0\" \"$mount\" || exit 3; shift; LD_PRELOAD=$LIBRARY \"$@\"; status=$?; \
                     umount \"$mount\"; exit $status";

fn can_mount() -> bool {
    let succeeds = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let can = succeeds(Command::new("unshare").args(["--mount", "true"]))
        && succeeds(Command::new("bindfs").arg("--version"));
    if !can {
        let required = std::env::var_os("AQUEDUCT_REQUIRE_MOUNTS").is_some();
        assert!(!required, "bindfs cannot be mounted here, and is required");
        eprintln!("skipped: needs root, unshare and bindfs");
    }
    can
}

#[test]
fn ranks_read_the_writes_of_other_nodes_with_separate_page_caches() {
    run_on_separate_mounts("coherence.c");
}

#[test]
fn ranks_see_the_size_set_by_another_node() {
    run_on_separate_mounts("growth.c");
}

fn run_on_separate_mounts(source: &str) {
    if !can_mount() {
        return;
    }
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, source, &[]) else { continue };
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (data, mount) = (path("data"), path("mount"));
        for folder in [&data, &mount] {
            std::fs::create_dir(folder).expect("a folder");
        }
        let file = format!("{mount}/out");
        let words = ["unshare", "--mount", "sh", "-c", MOUNT, &data, &mount];
        let words = [&words[..], &[program.path.to_str().expect("UTF-8"), &file]].concat();
        let library = preload_library();
        let variables = [("AQUEDUCT_NODE_RANKS", "1"), ("LIBRARY", library.to_str().expect("UTF-8"))];
        let output = Job { mpi, ranks: 3, preloaded: false, variables: &variables }.run(&words);
        assert!(output.success, "{}: {}", mpi.name, output.text());
        for rank in 0..3 {
            assert!(output.printed.contains(&format!("{rank} wrong 0")), "{}: {}", mpi.name, output.text());
        }
    }
}
