//! `aqueduct exec`: programs run with the preload library. The exit status is that of the program, and a line says whether the library
//! took effect.
//!
//! Without MPI a test prints a notice and is skipped; with `AQUEDUCT_REQUIRE_MPI=1` it fails.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library, built by cargo beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.parent().expect("and a folder").join("libaqueduct_mpiio.so")
}

fn exec(words: &[&str]) -> (Output, String) {
    exec_with(&[], words)
}

fn exec_with(options: &[&str], words: &[&str]) -> (Output, String) {
    let mut command = Command::new("timeout");
    command
        .args(["120", env!("CARGO_BIN_EXE_aqueduct"), "exec", "--library"])
        .arg(library())
        .args(options)
        .arg("--")
        .args(words);
    let output = command.output().expect("the command starts");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, message)
}

fn compile(compiler: &str, options: &[&str], text: &str, folder: &Path) -> String {
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, text).expect("a source");
    let compiled = Command::new(compiler).args(options).arg(&source).arg("-o").arg(&program).output();
    let compiled = compiled.expect("the compiler starts");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program.to_str().expect("UTF-8").to_owned()
}

const EMPTY: &str = "int main(void) { return 0; }";
/// A program that defines MPI symbols itself, like one that is linked statically with MPI.
const OWN: &str = "int MPI_Init(int *c, char ***v) { return !c || !v; }
    int PMPI_File_open(void) { return 7; }
    int main(void) { return PMPI_File_open() - 7; }";
const OPENS: &str = "#include <mpi.h>
    int main(int argc, char **argv) {
        MPI_File file;
        MPI_Init(&argc, &argv);
        if (argc > 1 && MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file)) return 1;
        if (argc > 1 && MPI_File_close(&file)) return 2;
        return MPI_Finalize();
    }";

/// Checks that the command succeeds and reports that the library took no effect, which is an error with `--require`.
fn check_no_effect(words: &[&str], expected: &[&str]) {
    for (options, code) in [(&[][..], 0), (&["--require"], 2)] {
        let (output, message) = exec_with(options, words);
        assert_eq!(output.status.code(), Some(code), "{message}");
        for word in expected {
            assert!(message.contains(word), "{word:?} is not in: {message}");
        }
    }
}

#[test]
fn a_program_without_mpi_is_reported() {
    check_no_effect(&["/bin/true"], &["no process had a shared MPI library", "link it with"]);
}

#[test]
fn the_exit_status_is_that_of_the_program() {
    for (options, script, code) in [
        (&[][..], "exit 7", 7),
        (&["--require"], "exit 7", 7),
        (&[], "kill -9 $$", 128 + 9),
        (&["--compare"], "exit 3", 3),
    ] {
        let (output, message) = exec_with(options, &["/bin/sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{script}: {message}");
        assert!(message.contains("the library took no effect"), "{message}");
    }
    let (output, message) = exec(&["/nowhere/program"]);
    assert!(output.status.code() == Some(2) && message.contains("starting /nowhere/program"), "{message}");
}

/// Each run finds what the run before has left in the page cache, so that the order of both must alternate.
#[test]
fn compared_runs_alternate() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let script = format!(
        "case \"$LD_PRELOAD\" in *aqueduct*) echo with;; *) echo without;; esac >> {}",
        log.display()
    );
    let options = ["--compare", "--rounds", "4"];
    let (output, message) = exec_with(&options, &["/bin/sh", "-c", &script]);
    assert!(output.status.success(), "{message}");
    let order = std::fs::read_to_string(&log).expect("a log");
    let order: Vec<&str> = order.lines().collect();
    assert_eq!(order, ["without", "with", "with", "without", "without", "with", "with", "without"]);
    assert!(message.contains("medians of 4 runs in turn"), "{message}");
}

/// No process on this machine loads the library, as on a launching host without ranks.
#[test]
fn an_unknown_effect_on_other_machines_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("cc", &["-static"], EMPTY, folder.path());
    let launcher = folder.path().join("launch");
    std::fs::write(&launcher, format!("#!{program}\n")).expect("a script");
    std::fs::set_permissions(&launcher, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    let expected = ["not known whether the library took effect", "other machines"];
    check_no_effect(&[launcher.to_str().expect("UTF-8")], &expected);
}

#[test]
fn a_program_with_static_mpi_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("cc", &[], OWN, folder.path());
    check_no_effect(&[&program], &[program.as_str(), "statically", "link it with the shared MPI library"]);
}

#[test]
fn a_static_program_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("cc", &["-static"], EMPTY, folder.path());
    check_no_effect(&[&program], &[program.as_str(), "is linked statically", "without -static"]);
}

#[test]
fn a_launcher_that_may_not_pass_variables_is_reported() {
    check_no_effect(&["/usr/bin/env", "-i", "/bin/sh", "-c", "exit 0"], &["shared MPI library"]);
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("cc", &["-static"], EMPTY, folder.path());
    // The command does not show the static program: only the script names it.
    let script = folder.path().join("launch");
    std::fs::write(&script, format!("#!{program}\n")).expect("a script");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    check_no_effect(&[script.to_str().expect("UTF-8")], &["the launcher may not pass LD_PRELOAD on"]);
}

#[test]
fn the_library_takes_effect_under_both_launchers() {
    for name in ["openmpi", "mpich"] {
        let compiler = format!("mpicc.{name}");
        if Command::new(&compiler).arg("-show").output().is_err() {
            assert!(
                std::env::var_os("AQUEDUCT_REQUIRE_MPI").is_none(),
                "{compiler} is required but not installed"
            );
            eprintln!("skipped: {compiler} is not installed");
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let program = compile(&compiler, &[], OPENS, folder.path());
        let path = folder.path().join("out").to_str().expect("UTF-8").to_owned();
        let launcher = format!("mpirun.{name}");
        let many: &[&str] = if name == "openmpi" { &["--oversubscribe", "--allow-run-as-root"] } else { &[] };
        let command = [&[launcher.as_str()], many, &["-n", "2", program.as_str()]].concat();
        let (output, message) = exec(&[command.as_slice(), &[path.as_str()]].concat());
        assert!(
            output.status.success() && message.contains("the library took effect: it handled files"),
            "{message}"
        );
        let trace = folder.path().join("trace");
        let options = ["--require", "--report", trace.to_str().expect("UTF-8")];
        let (output, message) = exec_with(&options, &[command.as_slice(), &[path.as_str()]].concat());
        assert!(output.status.success() && message.contains("on 2 ranks"), "{message}");
        let page = std::fs::read_to_string(trace.join("report.html")).expect("a page");
        assert!(
            page.contains(&path) && page.contains(if name == "mpich" { "MPICH" } else { "Open MPI" }),
            "{message}"
        );
        let (output, message) = exec(&command);
        assert!(
            output.status.success()
                && message.contains("no process on this machine opened a file through MPI"),
            "{message}"
        );
    }
}
