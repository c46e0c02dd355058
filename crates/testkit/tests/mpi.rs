//! The conformance suite under real launchers: Open MPI and MPICH as Debian ships them, and the MPI 5 wheels where they are given.
//!
//! A launcher that is not installed is skipped, and said so; `AQUEDUCT_REQUIRE_MPI=1` makes that a failure.

use std::path::Path;
use std::process::Command;

use aqueduct_testkit::launcher::TestLauncher;

const PROGRAM: &str = env!("CARGO_BIN_EXE_conformance");

fn launcher(name: &str) -> Option<TestLauncher> {
    TestLauncher::find(name, Path::new(PROGRAM))
}

fn suite(name: &str, ranks: std::ops::RangeInclusive<usize>) {
    let Some(launcher) = launcher(name) else { return };
    for ranks in ranks {
        let output = launcher.succeeds(ranks, &["suite"], &[]);
        assert!(output.contains(&format!("cases passed on {ranks} ranks of 1 nodes")), "{output}");
    }
}

fn suite_between_nodes(name: &str) {
    let Some(launcher) = launcher(name) else { return };
    for (ranks, per_node, nodes) in [(3, "1", 3), (4, "2", 2)] {
        let output = launcher.succeeds(ranks, &["suite"], &[("AQUEDUCT_NODE_RANKS", per_node)]);
        assert!(output.contains(&format!("cases passed on {ranks} ranks of {nodes} nodes")), "{output}");
    }
}

/// The conformance suite of the file engine with these ranks and ranks per node.
fn judge_files(name: &str, suite: &str, jobs: &[(usize, &str)]) {
    let Some(launcher) = launcher(name) else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().to_str().expect("a path of the build");
    for (ranks, per_node) in jobs {
        let output = launcher.succeeds(*ranks, &[suite, path], &[("AQUEDUCT_NODE_RANKS", per_node)]);
        assert!(output.contains(&format!("file cases passed on {ranks} ranks")), "{output}");
    }
}

fn files(name: &str) {
    judge_files(name, "file", &[(1, ""), (2, ""), (3, ""), (4, "")]);
}

/// Files in the memory of the node, shared by processes; on several nodes they are refused, and a job that was killed keeps none open.
fn files_in_memory(name: &str) {
    let Some(launcher) = launcher(name) else { return };
    let file = format!("test-{name}-{}", std::process::id());
    for ranks in [2, 4] {
        let output = launcher.succeeds(ranks, &["memory", &file], &[]);
        assert!(output.contains(&format!("file cases passed on {ranks} ranks")), "{output}");
    }
    let job = launcher.job(2, &["memory", &file], &[("AQUEDUCT_NODE_RANKS", "1")]);
    assert!(!job.success && job.errors.contains("tunnel:"), "{}", job.errors);
    let job = launcher.job(2, &["abort-in-memory", &file], &[]);
    assert!(!job.success && job.output.contains("InUse"), "{} {}", job.output, job.errors);
    let memory = aqueduct_device::NodeMemFs::new(None);
    let left =
        || memory.files().unwrap().into_iter().filter(|left| left.name.to_string_lossy().starts_with(&file));
    assert_eq!(left().count(), 1, "only the file of the killed job");
    // The launcher ends before the last rank.
    for _ in 0..1000 {
        if left().all(|file| !file.open) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    aqueduct_file::delete(format!("memfs:{file}")).unwrap();
    assert_eq!(left().count(), 0);
}

fn buffered_files(name: &str) {
    judge_files(name, "buffered", &[(2, ""), (3, "")]);
}

fn files_between_nodes(name: &str) {
    judge_files(name, "file", &[(2, "1"), (3, "2"), (4, "2")]);
}

/// Where the shared pointer has no thread to serve it.
fn files_of_one_thread(name: &str) {
    let Some(launcher) = launcher(name) else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().to_str().expect("a path of the build");
    for (ranks, per_node, level) in [(2, "1", "single"), (3, "1", "funneled"), (5, "2", "funneled")] {
        let variables = [("AQUEDUCT_NODE_RANKS", per_node), ("AQUEDUCT_MPI_THREADS", level)];
        launcher.succeeds(ranks, &["suite"], &variables);
        let output = launcher.succeeds(ranks, &["file", path], &variables);
        assert!(output.contains(&format!("file cases passed on {ranks} ranks")), "{output}");
    }
}

fn inject_faults(name: &str, per_node: &str) {
    let Some(launcher) = launcher(name) else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().to_str().expect("a path of the build");
    let output = launcher.succeeds(2, &["faults", path], &[("AQUEDUCT_NODE_RANKS", per_node)]);
    assert!(output.contains("faults survived on 2 ranks"), "{output}");
}

fn faults(name: &str) {
    inject_faults(name, "");
}

fn faults_between_nodes(name: &str) {
    inject_faults(name, "1");
}

/// A rank that fails ends the job, with its message and a status that says so.
fn failure(name: &str) {
    let Some(launcher) = launcher(name) else { return };
    for way in ["panic", "error"] {
        let job = launcher.job(3, &[way, "1"], &[]);
        assert!(!job.success, "{way} went unnoticed: {}", job.output);
        assert!(job.errors.contains("rank 1 failed"), "{}", job.errors);
        assert!(job.errors.contains("no input"), "{}", job.errors);
    }
    let job = launcher.job(3, &["leave", "2"], &[]);
    assert!(!job.success, "a rank that left went unnoticed: {}", job.output);
    assert!(job.errors.contains("different collective calls"), "{}", job.errors);
}

/// A wait for a rank that has returned fails, and a message without a receive does not block the end.
fn ends(name: &str) {
    let Some(launcher) = launcher(name) else { return };
    for (way, per_node) in ["silent", "keep"].into_iter().flat_map(|way| ["", "1"].map(|nodes| (way, nodes)))
    {
        let job = launcher.job(2, &[way, "0"], &[("AQUEDUCT_NODE_RANKS", per_node)]);
        assert!(!job.success, "{way} went unnoticed: {}", job.output);
        assert!(job.errors.contains("rank 0 of the world has left the program"), "{way}: {}", job.errors);
    }
    for per_node in ["", "1"] {
        launcher.succeeds(2, &["unreceived"], &[("AQUEDUCT_NODE_RANKS", per_node)]);
    }
    let job = launcher.job(2, &["twice"], &[]);
    assert!(!job.success && job.errors.contains("call `run` once"), "{}", job.errors);
}

fn thread_levels(name: &str) {
    let Some(launcher) = launcher(name) else { return };
    for level in ["single", "funneled", "serialized", "multiple"] {
        let variables = [("AQUEDUCT_MPI_THREADS", level)];
        launcher.succeeds(2, &["suite"], &variables);
        let output = launcher.succeeds(1, &["facts"], &variables);
        assert!(output.contains("thread level: Some("), "{output}");
    }
    let output = launcher.succeeds(1, &["facts"], &[]);
    assert!(output.contains("thread level: Some(Multiple)"), "{output}");
    launcher.succeeds(3, &["threads"], &[]);
    let level = launcher.succeeds(1, &["facts"], &[("AQUEDUCT_MPI_THREADS", "single")]);
    if !level.contains("Multiple") && !level.contains("Serialized") {
        for program in ["threads", "worker"] {
            let job = launcher.job(2, &[program], &[("AQUEDUCT_MPI_THREADS", "single")]);
            assert!(job.errors.contains("only the thread that started the program"), "{}", job.errors);
        }
    }
}

fn host(name: &str) {
    let Some(launcher) = launcher(name) else { return };
    let library = launcher.library.to_str().expect("a path of the test bed");
    let output = launcher.succeeds(2, &["host", library], &[]);
    assert!(output.contains("cases passed on 2 ranks"), "{output}");
}

fn large(name: &str) {
    let Some(launcher) = launcher(name) else { return };
    launcher.succeeds(2, &["large"], &[]);
}

macro_rules! on {
    ($($module:ident: $($test:ident $($argument:expr)?),*;)*) => {$(
        mod $module {
            $(#[test]
            fn $test() {
                super::$test(stringify!($module), $($argument)?);
            })*
        }
    )*};
}

on! {
    openmpi: suite 1..=5, suite_between_nodes, files, files_in_memory, buffered_files, files_between_nodes, files_of_one_thread, faults,
        faults_between_nodes, failure, ends, thread_levels, host, large;
    mpich: suite 1..=5, suite_between_nodes, files, files_in_memory, buffered_files, files_between_nodes, files_of_one_thread, faults,
        faults_between_nodes, failure, ends, thread_levels, host, large;
    standard: suite 1..=4, suite_between_nodes, files, buffered_files, files_between_nodes, failure, ends,
        thread_levels, host, large;
    openmpi5: suite 1..=3, failure, host;
    mpich5: suite 1..=3, failure, host;
}

#[test]
fn the_error_of_a_missing_mpi_names_the_libraries_tried() {
    let outcome =
        Command::new(PROGRAM).arg("facts").env("AQUEDUCT_MPI", "/nowhere/libmpi.so").output().unwrap();
    let errors = String::from_utf8_lossy(&outcome.stderr);
    assert!(!outcome.status.success());
    assert!(errors.contains("/nowhere/libmpi.so") && errors.contains("AQUEDUCT_MPI"), "{errors}");
}

#[test]
fn hints_come_from_files_that_the_environment_names() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, romio) = (folder.path().join("ours"), folder.path().join("romio"));
    std::fs::write(&ours, "# of the site\ncb_buffer_size 65536\ncb_nodes 7\naqueduct_buffer 1MiB\n").unwrap();
    std::fs::write(&romio, "cb_buffer_size 1\nstriping_unit 4096\n").unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("hints").env("AQUEDUCT_RANKS", "2").env("AQUEDUCT_HINTS", &ours).env("ROMIO_HINTS", &romio);
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    // The program's over ours over ROMIO's.
    for line in ["cb_nodes = 3", "cb_buffer_size = 65536", "striping_unit = 4096"] {
        assert!(output.lines().any(|found| found == line), "{line} in {output}");
    }
    assert!(!output.contains("aqueduct_buffer"), "a site does not buffer files of programs: {output}");
    let missing = Command::new(PROGRAM)
        .arg("hints")
        .env("AQUEDUCT_HINTS", folder.path().join("none"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&missing.stderr);
    assert!(missing.status.success() && errors.matches("cannot be read").count() == 1, "{errors}");
}

#[test]
fn without_a_launcher_ranks_are_threads() {
    let mut command = Command::new(PROGRAM);
    let outcome =
        command.arg("suite").env("AQUEDUCT_RANKS", "3").env_remove("AQUEDUCT_MPI").output().unwrap();
    let output = String::from_utf8_lossy(&outcome.stdout);
    assert!(output.contains("on 3 ranks of 1 nodes by threads of one process"), "{output}");
    for wrong in ["0", "-1", "many"] {
        let outcome = Command::new(PROGRAM).arg("facts").env("AQUEDUCT_RANKS", wrong).output().unwrap();
        let errors = String::from_utf8_lossy(&outcome.stderr);
        assert!(!outcome.status.success() && errors.contains("AQUEDUCT_RANKS"), "{errors}");
    }
}
