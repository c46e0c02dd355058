//! Programs under valgrind's memcheck with the library preloaded: it accesses no memory that is not its own, and loses none. What MPI and UCX do is theirs.
//!
//! By default one process without a launcher; `AQUEDUCT_VALGRIND=all` (`cargo xtask valgrind`) runs several programs with two ranks under
//! both MPIs. A missing valgrind or MPI is said and skipped; `AQUEDUCT_REQUIRE_MPI=1` makes that a failure.

mod launch;

use std::path::Path;
use std::process::Command;

use launch::{MPICH, Mpi, OPEN_MPI, compile, is_missing, launcher, preload_library};

const OPTIONS: [&str; 6] = [
    // Valgrind runs one thread at a time: one that polls MPI would keep the others from their turn.
    "--fair-sched=try",
    "--leak-check=full",
    "--show-leak-kinds=definite",
    "--undef-value-errors=no",
    "--num-callers=30",
    "--child-silent-after-fork=yes",
];

/// What memcheck says of the library: paragraphs that name an error and a function of ours.
fn complaints(log: &str) -> Vec<String> {
    // Each line begins with the number of the process.
    let lines = log.lines().map(|line| line.splitn(3, "==").nth(2).unwrap_or(line).trim());
    let text = lines.collect::<Vec<_>>().join("\n");
    let errors = [
        "Invalid ",
        "definitely lost in loss record",
        "Mismatched free",
        "Source and destination overlap",
        "Process terminating",
    ];
    let is_ours = |paragraph: &&str| {
        paragraph.contains("aqueduct") && errors.iter().any(|error| paragraph.contains(error))
    };
    text.split("\n\n").filter(is_ours).map(ToOwned::to_owned).collect()
}

/// Runs a program and returns what memcheck says of the library.
fn check(mpi: Mpi, ranks: Option<usize>, program: &Path, variables: &[(&str, &str)], words: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("permissions");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "280"]);
    if let Some(ranks) = ranks {
        command.arg(launcher(mpi).expect("asked for before"));
        if mpi.name == OPEN_MPI.name {
            command.args(["--oversubscribe", "--allow-run-as-root"]);
        }
        command.arg("-n").arg(ranks.to_string());
    }
    // The library is for the program alone, not for the launcher or valgrind.
    command
        .arg("valgrind")
        .arg("--trace-children=yes")
        .arg(format!("--log-file={}/%p.log", folder.path().display()));
    command.args(OPTIONS).arg("env").arg(format!("LD_PRELOAD={}", preload_library().display()));
    command.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
    command.arg(program).arg(folder.path().join("out")).args(words);
    let output = command.output().expect("the command starts");
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let case = format!("{} {ranks:?} {} {variables:?}: {text}", mpi.name, program.display());
    assert!(output.status.success(), "{case}");
    let entries =
        std::fs::read_dir(folder.path()).expect("the folder").map(|entry| entry.expect("an entry").path());
    let logs = entries.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let logs: Vec<String> = logs.map(|path| std::fs::read_to_string(path).expect("a log")).collect();
    assert!(logs.iter().filter(|log| log.contains("ERROR SUMMARY")).count() >= ranks.unwrap_or(1), "{case}");
    let found: Vec<String> = logs.iter().flat_map(|log| complaints(log)).collect();
    assert!(found.is_empty(), "{case}\n{}", found.join("\n\n"));
}

fn is_there() -> bool {
    let there =
        Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    !is_missing("valgrind", there)
}

#[test]
fn valgrind_reports_no_error_of_the_library_in_one_process() {
    let Some(program) = is_there().then(|| compile(MPICH, "unusual.c", &["-ldl"])).flatten() else { return };
    check(MPICH, None, &program.path, &[("AQUEDUCT_BUFFER", "1MiB")], &["lbowmhecf"]);
}

#[test]
fn valgrind_reports_no_error_of_the_library_between_ranks() {
    if std::env::var_os("AQUEDUCT_VALGRIND").is_none_or(|value| value != "all") || !is_there() {
        eprintln!("skipped: AQUEDUCT_VALGRIND=all runs it");
        return;
    }
    for mpi in [OPEN_MPI, MPICH] {
        for (source, words) in
            [("unusual.c", "lbowmhecf"), ("mixed.c", ""), ("walk.c", ""), ("shapes.c", ""), ("lost.c", "")]
        {
            let Some(program) = compile(mpi, source, &["-ldl"]) else { return };
            for nodes in ["8", "1"] {
                let faulty =
                    [("AQUEDUCT_BUFFER", "1MiB"), ("AQUEDUCT_DEVICE", "fault=write=nospace@#1+,rank=0")];
                let variables = [("AQUEDUCT_NODE_RANKS", nodes)];
                let variables = if source == "lost.c" { &faulty[..] } else { &variables };
                let words: Vec<&str> = Some(words).filter(|words| !words.is_empty()).into_iter().collect();
                check(mpi, Some(2), &program.path, variables, &words);
            }
        }
    }
}

#[test]
fn reports_about_the_library_are_separated_from_others() {
    let log = "==1== Memcheck\n==1== \n==1== Invalid read of size 8\n==1==    at 0x1: aqueduct_file::f (x.rs:1)\n==1== \n\
               ==1== Invalid write\n==1==    at 0x2: ucp_f\n==1== \n\
               ==1== 36 bytes in 1 blocks are definitely lost in loss record 1 of 2\n==1==    by 0x3: aqueduct_comm::g\n==1== \n";
    let found = complaints(log);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("Invalid read") && found[1].starts_with("36 bytes"), "{found:?}");
}
