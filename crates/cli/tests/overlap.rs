//! `aqueduct bench overlap`: every mode and region, verified; the table, the CSV file and the timeline.

use std::process::{Command, Output};

const MODES: [&str; 5] = ["blocking", "thread", "leaders", "servers", "auto"];

fn overlap(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
    command.args(["bench", "overlap"]).args(arguments).output().unwrap()
}

#[test]
fn every_region_is_verified_in_every_mode() {
    for region in ["whole", "slice", "cuboids", "transversal"] {
        for ranks in ["1", "2", "4", "7"] {
            let file = format!("memfs:overlap-{region}-{ranks}");
            let given = ["-n", ranks, "--grid", "9x10x11", "-i", "3", "--data", "2", "--write", "2"];
            let loads = ["--cpu", "1.5", "--copies", "10kB", "--broadcasts", "1kB", "--buffers", "3"];
            let done = overlap(&[&given[..], &loads, &["--region", region, "--file", &file]].concat());
            let text = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success(), "{file}: {text}{}", String::from_utf8_lossy(&done.stderr));
            assert!(text.contains("all values of all steps verified"), "{text}");
            for mode in MODES {
                let row = text.lines().any(|line| line.starts_with(&format!("{mode:<9} ")));
                assert_eq!(row, mode != "servers" || ranks != "1", "{file}, {mode}: {text}");
            }
        }
    }
}

#[test]
fn files_of_arrays_are_verified_in_every_mode() {
    for format in ["hdf5", "netcdf"] {
        for region in
            [&["--region", "whole"][..], &["--region", "cuboids", "--cuboids", "20", "--box-size", "2x3x2"]]
        {
            let file = format!("memfs:overlap-{format}-{}", region[1]);
            let given = [
                "-n", "4", "--grid", "9x10x11", "-i", "3", "--data", "2", "--format", format, "--file", &file,
            ];
            let done = overlap(&[&given[..], region, &["--durable-every", "2"]].concat());
            let text = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success(), "{file}: {text}{}", String::from_utf8_lossy(&done.stderr));
            assert!(text.contains("all values of all steps verified"), "{text}");
        }
    }
}

#[test]
fn the_csv_file_and_the_timeline_are_written() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (csv, svg, file) = (path("runs.csv"), path("runs.svg"), path("data"));
    // Steps of 32 kB in buffers of 3 kB.
    let given = ["-n", "4", "--grid", "16", "-i", "4", "--repeat", "2", "--memory", "18kB"];
    let done = overlap(&[&given[..], &["--csv", &csv, "--svg", &svg, "--file", &file]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let runs = std::fs::read_to_string(csv).unwrap();
    assert_eq!(runs.lines().count(), 11, "{runs}");
    let columns = runs.lines().next().unwrap().split(',').count();
    assert!(runs.lines().all(|line| line.split(',').count() >= columns), "{runs}");
    let drawing = std::fs::read_to_string(svg).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.ends_with("</svg>\n"));
    assert!(MODES.iter().all(|mode| drawing.contains(&format!(">{mode}: "))), "{drawing}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "the files of the runs are deleted");
}

#[test]
fn invalid_arguments_are_errors() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("mine");
    std::fs::write(folder.path().join("mine-thread"), "existing").unwrap();
    let file = file.to_str().unwrap();
    let check_error = |arguments: &[&str], words: &str| {
        let done = overlap(&[&["-n", "2", "--modes", "thread"], arguments].concat());
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && text.contains(words), "{text}");
    };
    check_error(&["--grid", "8", "--file", file], "exists; choose another name");
    assert_eq!(std::fs::read_to_string(folder.path().join("mine-thread")).unwrap(), "existing");
    check_error(&["--grid", "0"], "invalid grid");
    check_error(&["--grid", "32768", "-i", "1000"], "would not be exact");
    check_error(&["--grid", "8", "--buffers", "0", "--file", "memfs:none"], "at least one buffer");
}
