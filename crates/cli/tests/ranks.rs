//! The commands on several ranks print and write what they do on one: threads of one process, and MPI jobs.

mod sample_files;
mod test_folder;

use std::path::Path;

use aqueduct_testkit::launcher::TestLauncher;

use sample_files::{write_each_kind, write_large};
use test_folder::TestFolder;

/// Runs a command on one and on three ranks; the output must be the same.
fn same_on_any_ranks(folder: &TestFolder, words: &[&str], status: i32) -> String {
    let run = |ranks: &str| {
        let words = [words, &["-n", ranks]].concat();
        let output = folder.command(&words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {text}");
        text.into_owned()
    };
    let one = run("1");
    assert_eq!(run("3"), one, "{words:?}");
    one
}

#[test]
fn commands_on_three_ranks_print_what_they_do_on_one() {
    let folder = TestFolder::new();
    for name in write_each_kind(&folder) {
        for words in [
            &["inspect", &name, "--stats"][..],
            &["inspect", &name, "--stats", "--json"],
            &["dump", &name],
            &["verify", &name],
            &["verify", &name, "--quick"],
            &["compare", &name, &name, "--steps"],
        ] {
            same_on_any_ranks(&folder, words, 0);
        }
    }
    // Arrays of several parts, with a difference in every 300 000th value.
    write_large(&folder, "a.nc", 0.0);
    write_large(&folder, "b.nc", 0.5);
    let said = same_on_any_ranks(&folder, &["inspect", "a.nc", "--stats", "--json"], 0);
    assert!(said.contains("\"max\": 1799999.0") && said.contains("\"mean\": 899999.5"), "{said}");
    let said = same_on_any_ranks(&folder, &["compare", "a.nc", "b.nc", "--steps", "--first", "3"], 1);
    assert!(said.contains("wide: 6 of 1800000 values differ, 6 above the tolerance"), "{said}");
    assert!(said.contains("wide [0, 300000]: 300000.0 and 300000.5"), "{said}");
    same_on_any_ranks(&folder, &["compare", "a.nc", "b.nc", "--json", "--threshold", "1e-7"], 1);
    same_on_any_ranks(&folder, &["compare", "a.nc", "b.nc", "--time", "1", "--array", "steps"], 1);
    let said = same_on_any_ranks(&folder, &["dump", "a.nc", "--array", "steps", "--at", "8999"], 0);
    assert!(said.ends_with("\n1799999\n"), "{}", said.len());
    // Damage found by another rank than 0 is an error of the command.
    let bytes = std::fs::read(folder.path("a.nc")).unwrap();
    std::fs::write(folder.path("cut.nc"), &bytes[..bytes.len() - 8]).unwrap();
    same_on_any_ranks(&folder, &["verify", "cut.nc"], 1);
    same_on_any_ranks(&folder, &["verify", "--quick", "cut.nc"], 1);
    assert!(same_on_any_ranks(&folder, &["inspect", "--stats", "cut.nc"], 2).contains("cut off"));
}

#[test]
fn conversions_on_three_ranks_write_the_same_values() {
    let folder = TestFolder::new();
    write_large(&folder, "a.nc", 0.0);
    let mut targets = vec!["nc"];
    if cfg!(feature = "hdf5") {
        targets.push("h5");
    }
    for end in targets {
        let name = format!("three.{end}");
        folder.succeed(&["convert", "a.nc", &name, "-n", "3"]);
        let said = folder.succeed(&["compare", "a.nc", &name, "-n", "2"]);
        assert!(said.ends_with("no differences\n"), "{said}");
    }
    for end in ["raw", "csv", "json", "npy"] {
        let names = ["1", "3"].map(|ranks| (ranks, format!("{ranks}.{end}")));
        let bytes = names.map(|(ranks, name)| {
            folder.succeed(&["convert", "a.nc", &name, "--array", "steps", "-n", ranks]);
            std::fs::read(folder.path(&name)).unwrap()
        });
        assert!(bytes[0] == bytes[1] && !bytes[0].is_empty(), "{end}");
    }
    for name in write_each_kind(&folder) {
        if name.contains("restart") || name == "gas.cells" {
            folder.succeed(&["convert", &name, "1.cells", "-n", "1"]);
            folder.succeed(&["convert", &name, "3.cells", "-n", "3"]);
            let said = folder.succeed(&["compare", "1.cells", "3.cells"]);
            assert!(said.contains("all equal"), "{name}: {said}");
            ["1.cells", "3.cells"].iter().for_each(|name| std::fs::remove_file(folder.path(name)).unwrap());
        }
    }
}

/// The processes of an MPI job share the work; rank 0 prints.
fn commands_run_in_mpi_jobs(name: &str) {
    let program = Path::new(env!("CARGO_BIN_EXE_aqueduct"));
    let Some(launcher) = TestLauncher::find(name, program) else { return };
    let folder = TestFolder::new();
    write_large(&folder, "a.nc", 0.0);
    write_large(&folder, "b.nc", 0.5);
    let path = |name: &str| folder.path(name).to_str().unwrap().to_owned();
    let (a, b) = (path("a.nc"), path("b.nc"));
    for words in
        [&["inspect", "--stats", &a][..], &["dump", &a, "--rows", "2"], &["verify", &a], &["compare", &a, &a]]
    {
        let alone = folder.succeed(words);
        assert_eq!(launcher.succeeds(3, words, &[]), alone, "{words:?}");
    }
    let c = path("c.nc");
    launcher.succeeds(3, &["convert", &a, &c], &[]);
    assert!(folder.succeed(&["compare", "a.nc", "c.nc"]).ends_with("no differences\n"));
    let job = launcher.job(3, &["compare", &a, &b], &[]);
    assert!(!job.success && job.output.matches("arrays differ").count() == 1, "{}", job.output);
    let job = launcher.job(3, &["verify", &path("missing")], &[]);
    assert!(!job.success && job.output.matches("cannot tell").count() == 1, "{}", job.output);
    let job = launcher.job(3, &["inspect", &path("missing")], &[]);
    assert!(!job.success && job.errors.matches("aqueduct: ").count() == 1, "{}", job.errors);
}

#[test]
fn commands_run_in_jobs_of_open_mpi() {
    commands_run_in_mpi_jobs("openmpi");
}

#[test]
fn commands_run_in_jobs_of_mpich() {
    commands_run_in_mpi_jobs("mpich");
}
