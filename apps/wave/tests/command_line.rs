//! The command line: invalid options and invalid input files are errors that name the reason; a run that does not fit into memory is refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use aqueduct_testkit::external_tools::{output_of, python};
use aqueduct_testkit::rng::SeededRng;

fn wave(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wave"));
    command
        .args(words)
        .env("AQUEDUCT_MPI", "none")
        .env("AQUEDUCT_RANKS", "2")
        .current_dir(folder)
        .output()
        .unwrap()
}

fn refused(folder: &Path, words: &[&str], reason: &str) {
    let output = wave(folder, words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {errors}");
    assert!(errors.contains(reason), "{words:?} should say {reason:?}: {errors}");
}

#[test]
fn invalid_commands_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    refused(folder, &["--nonsense"], "--nonsense");
    refused(folder, &["-g", "0"], "GPU");
    refused(folder, &["-i", "missing.h5", "-o", "out.h5"], "missing.h5");
    refused(folder, &["--scenario", "ball", "--grid", "4000x4000x4000"], "GiB");
    refused(folder, &["--scenario", "tissue", "--grid", "4"], "24 points");
    refused(folder, &["--sensor", "slice:q"], "slice:x");
    assert!(wave(folder, &["--version"]).status.success());
}

#[test]
fn a_built_in_simulation_runs_and_reports_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let words = [
        "--scenario",
        "ball",
        "--grid",
        "32",
        "--steps",
        "20",
        "-o",
        "ball.h5",
        "--pictures",
        "ball",
        "--report",
        "ball.json",
    ];
    let output = wave(folder.path(), &words);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("error against the exact solution"), "{text}");
    for file in ["ball.h5", "ball-x.png", "ball-z.png", "ball.json"] {
        assert!(folder.path().join(file).exists(), "{file}");
    }
}

/// The name of a dataset occurs in the file once; changing a letter of it makes it another dataset.
#[test]
fn an_input_without_a_dataset_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    let input = fs::read(folder.path().join("input.h5")).unwrap();
    for name in ["c_ref", "rho0_sgy", "pml_x_alpha", "p_source_index", "sensor_mask_index"] {
        let wanted = [name.as_bytes(), b"\0"].concat();
        let mut changed = input.clone();
        let places: Vec<usize> = (0..input.len() - wanted.len())
            .filter(|at| input[*at..].starts_with(&wanted) && (*at == 0 || input[at - 1] == 0))
            .collect();
        assert!(!places.is_empty(), "{name}");
        places.iter().for_each(|at| changed[at + wanted.len() - 2] = b'~');
        fs::write(folder.path().join("changed.h5"), changed).unwrap();
        refused(folder.path(), &["-i", "changed.h5", "-o", "out.h5"], name);
    }
}

fn make(folder: &Path) {
    let words = ["make", "tissue", "input.h5", "--grid", "24", "--steps", "3", "--sensor", "points:40"];
    let made = wave(folder, &words);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn mutated_inputs_are_errors_or_run_but_never_crash() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    let input = fs::read(folder.path().join("input.h5")).unwrap();
    let count = std::env::var("AQUEDUCT_MUTATIONS").map_or(40, |count| count.parse().unwrap());
    let mut rng = SeededRng::new(11);
    for _ in 0..count {
        let mut changed = input.clone();
        for _ in 0..=rng.below(3) {
            // Mostly the metadata and small values, which are at the beginning and at the end.
            let near = if rng.below(2) == 0 { rng.below(8192) } else { input.len() - 1 - rng.below(16384) };
            let value = [0, 1, 0x7f, 0x80, 0xff, rng.below(256) as u8][rng.below(6)];
            changed[near.min(input.len() - 1)] = value;
        }
        fs::write(folder.path().join("changed.h5"), changed).unwrap();
        let output =
            wave(folder.path(), &["-i", "changed.h5", "-o", "out.h5", "--benchmark", "2", "--verbose", "0"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{:?}: {errors}", output.status);
        assert!(!errors.contains("panicked"), "{errors}");
    }
}

/// A table of files that are invalid in one place: each is refused with the dataset and the reason.
#[test]
fn invalid_inputs_are_refused_with_dataset_and_reason() {
    let Some(python) = python("h5py") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command.args(["-W", "ignore", "tests/programs/hostile_inputs.py", env!("CARGO_BIN_EXE_wave")]);
    println!("{}", output_of(command.arg(folder.path()).env("AQUEDUCT_MPI", "none")));
}

#[test]
fn outputs_are_compared_by_the_aqueduct_program() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, steps: &str| {
        let words = ["--grid", "16", "--steps", steps, "-o", name, "--verbose", "0"];
        assert!(wave(folder.path(), &words).status.success());
    };
    make("one.h5", "9");
    make("same.h5", "9");
    make("other.h5", "8");
    let beside = Path::new(env!("CARGO_BIN_EXE_wave")).with_file_name("aqueduct");
    if !beside.exists() {
        println!("skipped: aqueduct is not beside wave");
        return;
    }
    let verify = |file: &str| wave(folder.path(), &["verify", file, "--against", "one.h5"]);
    let same = verify("same.h5");
    assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stderr));
    assert!(String::from_utf8_lossy(&same.stdout).contains("no differences"));
    assert_eq!(verify("other.h5").status.code(), Some(1));
}
