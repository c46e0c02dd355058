//! Output files are equal to the byte on any number of ranks, for slabs and pencils, in every output mode, under each MPI library.

use std::fs;
use std::path::Path;
use std::process::Command;

use aqueduct_testkit::launcher::TestLauncher;

/// Raw and reduced quantities, at the sensor and in the whole grid.
const QUANTITIES: [&str; 9] = [
    "--p_raw",
    "--p_rms",
    "--p_max",
    "--u_min",
    "--p_max_all",
    "--p_final",
    "--u_raw",
    "--u_non_staggered_raw",
    "--I_avg",
];

/// A simulation: a built-in one, its sensor, and what else differs.
struct EqualBytesCase {
    name: &'static str,
    scenario: &'static [&'static str],
}

const CASES: [EqualBytesCase; 4] = [
    EqualBytesCase { name: "points", scenario: &["tissue", "--grid", "24x26x25", "--sensor", "points:150"] },
    EqualBytesCase { name: "boxes", scenario: &["tissue", "--grid", "24x25x24", "--sensor", "boxes:4x7"] },
    // Fewer planes than ranks.
    EqualBytesCase { name: "thin", scenario: &["ball", "--grid", "20x14x3", "--sensor", "whole"] },
    EqualBytesCase { name: "plane", scenario: &["plane", "--grid", "36x13x1", "--sensor", "points:40"] },
];

fn words<'w>(case: &EqualBytesCase, output: &'w str, more: &[&'w str]) -> Vec<&'w str> {
    let mut words = vec!["--scenario"];
    words.extend(case.scenario);
    words.extend(["--steps", "9", "-s", "3", "--verbose", "0", "-o", output]);
    words.extend(QUANTITIES);
    words.extend(more);
    words
}

fn output_file(folder: &Path, case: &EqualBytesCase, label: &str, ending: &str) -> String {
    folder.join(format!("{}-{label}.{ending}", case.name)).display().to_string()
}

/// The bytes of the output of a run on threads.
fn run(folder: &Path, case: &EqualBytesCase, ending: &str, more: &[&str]) -> Vec<u8> {
    let label: String = more.concat().replace('-', "");
    let file = output_file(folder, case, &label, ending);
    // Files state the same date and times.
    let mut command = Command::new(env!("CARGO_BIN_EXE_wave"));
    command.args(words(case, &file, more)).env("AQUEDUCT_MPI", "none").env("SOURCE_DATE_EPOCH", "1");
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{} {more:?}: {errors}", case.name);
    fs::read(file).unwrap()
}

#[test]
fn outputs_are_the_same_on_any_number_of_ranks_and_in_every_mode() {
    let folder = tempfile::tempdir().unwrap();
    for case in &CASES {
        let expected = run(folder.path(), case, "h5", &["-n", "1", "--mode", "blocking"]);
        let others: [&[&str]; 10] = [
            &["-n", "2", "--decomposition", "pencil", "--mode", "thread"],
            &["-n", "3", "--decomposition", "slab", "--mode", "leaders"],
            &["-n", "4", "--decomposition", "pencil", "--mode", "blocking"],
            &["-n", "5", "--decomposition", "slab", "--mode", "thread", "--memory", "4000"],
            &["-n", "5", "--decomposition", "pencil", "--mode", "leaders", "--group", "2"],
            &["-n", "6", "--decomposition", "pencil", "--durable-every", "2"],
            &["-n", "7", "--decomposition", "slab"],
            &["-n", "7", "--decomposition", "pencil", "--mode", "thread", "--buffers", "3"],
            &["-n", "4", "--mode", "servers"],
            &["-n", "7", "--mode", "servers", "--servers", "2"],
        ];
        for more in others {
            let found = run(folder.path(), case, "h5", more);
            assert!(found == expected, "{} {more:?}: other bytes", case.name);
        }
    }
}

#[test]
fn netcdf_and_compressed_files_are_the_same_on_any_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    for case in &CASES[..2] {
        let expected = run(folder.path(), case, "nc", &["-n", "1"]);
        for more in [&["-n", "3", "--mode", "thread"][..], &["-n", "4", "--mode", "servers"]] {
            assert!(run(folder.path(), case, "nc", more) == expected, "{} {more:?}", case.name);
        }
    }
}

fn same_under(launcher: &str) {
    let program = Path::new(env!("CARGO_BIN_EXE_wave"));
    let Some(launcher) = TestLauncher::find(launcher, program) else { return };
    let folder = tempfile::tempdir().unwrap();
    for case in [&CASES[0], &CASES[2]] {
        let expected = run(folder.path(), case, "h5", &["-n", "1"]);
        let jobs: [(usize, &[&str]); 2] =
            [(3, &["--decomposition", "pencil", "--mode", "thread"]), (5, &["--mode", "blocking"])];
        for (ranks, more) in jobs {
            let file = output_file(folder.path(), case, &format!("mpi{ranks}"), "h5");
            launcher.succeeds(ranks, &words(case, &file, more), &[("SOURCE_DATE_EPOCH", "1")]);
            assert!(fs::read(file).unwrap() == expected, "{} on {ranks} ranks: other bytes", case.name);
        }
    }
}

#[test]
fn open_mpi_writes_the_same_bytes() {
    same_under("openmpi");
}

#[test]
fn mpich_writes_the_same_bytes() {
    same_under("mpich");
}
