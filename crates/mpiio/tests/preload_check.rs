//! The interposition library where it cannot work: it reports the reason and the remedy, and the program runs without it.

mod launch;

use std::path::{Path, PathBuf};
use std::process::Command;

use launch::{Job, MPICH, OPEN_MPI, compile_with, preload_library};

/// The output of a program, and the messages of it and the library.
fn run(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> (String, String) {
    let output = Command::new("timeout")
        .arg("60")
        .arg(program)
        .args(arguments)
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{printed}{said}");
    (printed, said)
}

/// Compiles a program with the plain compiler.
fn plain(folder: &Path, source: &str, options: &[&str]) -> PathBuf {
    let program = folder.join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&program).args(options).output();
    let compiled = compiled.expect("the compiler starts");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

fn assert_says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn a_program_without_mpi_gets_an_error_and_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let preload = preload_library();
    let program = plain(folder.path(), "alone.c", &[preload.to_str().expect("UTF-8")]);
    let library_path = preload.parent().expect("a folder").to_str().expect("UTF-8");
    let (printed, said) = run(&program, &[], &[("LD_LIBRARY_PATH", library_path)]);
    assert_eq!(printed, "returned 16\n");
    assert_says(&said, &["MPI_File_open", "no MPI library loaded", "link the program with a shared MPI"]);
}

#[test]
fn a_static_mpi_is_detected_with_and_without_exported_symbols() {
    let preload = preload_library();
    for options in [&["-DOWN"][..], &["-DOWN", "-rdynamic"]] {
        let folder = tempfile::tempdir().expect("a folder");
        let program = plain(folder.path(), "alone.c", options);
        let notes = folder.path().join("notes");
        std::fs::write(&notes, "").expect("a file");
        let variables = [
            ("LD_PRELOAD", preload.to_str().expect("UTF-8")),
            ("AQUEDUCT_NOTES", notes.to_str().expect("UTF-8")),
        ];
        let (printed, said) = run(&program, &[], &variables);
        assert_eq!(printed, "returned 7\n", "its own MPI serves it");
        assert_says(&said, &["linked into it statically", "link it with the shared MPI library"]);
        let notes = std::fs::read_to_string(&notes).expect("notes");
        assert!(notes.lines().any(|line| line.starts_with("static ")), "{notes}");
    }
}

#[test]
fn programs_that_have_nothing_to_do_with_mpi_are_left_alone() {
    let preload = preload_library();
    let (_, said) = run(Path::new("/bin/true"), &[], &[("LD_PRELOAD", preload.to_str().expect("UTF-8"))]);
    assert_eq!(said, "");
}

#[test]
fn a_library_loaded_after_mpi_is_reported() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile_with(mpi, "late.c", &[], &["-ldl"]) else { return };
        let (program, preload) = (program.path.to_str().expect("UTF-8"), preload_library());
        let preload = preload.to_str().expect("UTF-8");
        for global in [&[][..], &["global"]] {
            let words = [&[program, preload], global].concat();
            let output = Job { mpi, ranks: 1, preloaded: false, variables: &[] }.run(&words);
            assert!(output.success && output.printed.contains("done"), "{}", output.text());
            assert_says(&output.said, &["will not be used", "libmp", "LD_PRELOAD"]);
        }
        // In time, it says nothing.
        let output = Job { mpi, ranks: 1, preloaded: true, variables: &[] }.run(&[program]);
        assert!(output.success && !output.said.contains("aqueduct"), "{}", output.text());
    }
}

#[test]
fn a_library_linked_after_mpi_is_reported() {
    let preload = preload_library();
    let folder = preload.parent().expect("a folder").to_str().expect("UTF-8").to_owned();
    let run_path = format!("-Wl,-rpath,{folder}");
    for mpi in [OPEN_MPI, MPICH] {
        // Wrappers put MPI last; named before, it stays there.
        let library = if mpi.name == "mpich" { "-lmpich" } else { "-lmpi" };
        let paths = format!("-L/usr/lib/x86_64-linux-gnu/{}/lib", mpi.name);
        let preload = preload.to_str().expect("UTF-8");
        let behind = [paths.as_str(), "-Wl,--no-as-needed", library, preload, run_path.as_str()];
        let Some(program) = compile_with(mpi, "late.c", &[], &behind) else { return };
        let words = [program.path.to_str().expect("UTF-8")];
        let output = Job { mpi, ranks: 1, preloaded: false, variables: &[] }.run(&words);
        assert!(output.success && output.printed.contains("done"), "{}", output.text());
        assert_says(&output.said, &["loaded behind", "will not be used", "-laqueduct_mpiio -lmpi"]);
        // Linked in front of MPI, it serves.
        let front = [preload, run_path.as_str()];
        let Some(program) = compile_with(mpi, "late.c", &front, &[]) else { return };
        let job = Job { mpi, ranks: 1, preloaded: false, variables: &[("AQUEDUCT_VERBOSE", "1")] };
        let output = job.run(&[program.path.to_str().expect("UTF-8")]);
        assert!(output.success, "{}", output.text());
        assert_says(&output.said, &["serves MPI_File_*"]);
    }
}
