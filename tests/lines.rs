//! The numbers of lines in `docs/objects.md`, with this library and in plain MPI-IO, are those of the example programs.

use std::path::Path;
use std::process::Command;

const OURS: &str = include_str!("../examples/objects.rs");
const PLAIN: &str = include_str!("../examples/objects.c");
const DOCUMENT: &str = include_str!("../docs/objects.md");

/// The lines between the marks of each task; blank ones and single braces do not count.
fn lines(source: &str) -> Vec<usize> {
    let tasks = source.split("lines: ").skip(1).filter_map(|task| task.split_once(" end"));
    let counts = |line: &&str| !matches!(line.trim(), "" | "{" | "}" | "//" | "/*");
    tasks.map(|(task, _)| task.lines().skip(1).filter(counts).count()).take(5).collect()
}

#[test]
fn line_counts_of_the_document_are_correct() {
    let rows = DOCUMENT.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let number = |word: &str| word.trim().parse::<usize>().expect("a number of lines");
    let documented: Vec<(usize, usize)> = rows
        .take_while(|line| line.starts_with('|'))
        .map(|row| row.split('|').collect::<Vec<_>>())
        .map(|words| (number(words[2]), number(words[3])))
        .collect();
    let counted: Vec<(usize, usize)> = lines(OURS).into_iter().zip(lines(PLAIN)).collect();
    assert_eq!((documented.len(), documented), (5, counted));
}

/// Compiles the program in C with an MPI library and runs it on three ranks. Skipped with a message if there is none.
fn plain(implementation: &str, launch: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("objects");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/objects.c");
    let mut compile = Command::new(format!("mpicc.{implementation}"));
    let Ok(compiled) = compile.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source).output()
    else {
        assert!(std::env::var_os("AQUEDUCT_REQUIRE_MPI").is_none(), "{implementation} is missing");
        eprintln!("skipped: {implementation} is not installed");
        return;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut run = Command::new("timeout");
    run.args(["120", &format!("mpirun.{implementation}")]).args(launch).args(["-n", "3"]).arg(&program);
    run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let done = run.arg(folder.path()).output().expect("the launcher starts");
    let printed = String::from_utf8_lossy(&done.stdout);
    assert_eq!(
        printed.trim(),
        "all five read back what they wrote",
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn the_c_program_runs_under_openmpi() {
    plain("openmpi", &["--oversubscribe"]);
}

#[test]
fn the_c_program_runs_under_mpich() {
    plain("mpich", &[]);
}
