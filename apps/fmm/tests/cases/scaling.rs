//! `aqueduct bench scaling` of this program: on a device with so many bytes per second for each client, the time of I/O decreases with the number of ranks
//! with `together` and not with `master`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use aqueduct_testkit::launcher::program_beside;

/// The seconds of I/O of each way and number of ranks.
fn io_times(csv: &str) -> HashMap<(String, u64), f64> {
    let rows = csv.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    rows.map(|row| ((row[0].to_owned(), row[1].parse().unwrap()), row[4].parse().unwrap())).collect()
}

#[test]
fn together_scales_and_master_does_not() {
    let Some(aqueduct) = program_beside(Path::new(env!("CARGO_BIN_EXE_fmm")), "aqueduct") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (config, csv, plots) = (path("few.cfg"), path("times.csv"), path("fmm"));
    fs::write(&config, "packets 2000\nrelay 1\n").unwrap();
    let target = format!("throttle=1MB/s each:ufs:{}", path("{way}-{ranks}"));
    let bench = ["bench", "scaling", "--ranks", "1,4", "--csv", &csv, "--svg", &plots, "--"];
    let program = [env!("CARGO_BIN_EXE_fmm"), &config, "--steps", "2", "--every", "1", "--rows", "0"];
    let options = ["--io", "{master,together}", "-o", &target];
    let output =
        Command::new(aqueduct).args(bench).args(program).args(options).env("AQUEDUCT_MPI", "none").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let times = io_times(&fs::read_to_string(csv).unwrap());
    let ratio = |way: &str| times[&(way.to_owned(), 1)] / times[&(way.to_owned(), 4)];
    assert!(ratio("together") > 2.0, "together: {times:?}");
    assert!(ratio("master") < 1.5, "master: {times:?}");
    for name in ["speedup", "times"] {
        let plot = fs::read_to_string(format!("{plots}-{name}.svg")).unwrap();
        assert!(plot.contains("master") && plot.contains("together"), "{name}");
    }
}
