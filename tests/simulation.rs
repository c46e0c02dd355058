//! The program of `examples/simulation.rs`: killed in the middle and continued on other numbers of ranks, its output is that of an uninterrupted run.

#[path = "../examples/simulation.rs"]
#[allow(dead_code, reason = "main is called when the example is run")]
mod simulation;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use aqueduct::prelude::*;
use aqueduct::stream::Reader;

/// The folder of a run that a test starts; without it `the_program` does nothing.
const FOLDER: &str = "AQUEDUCT_TEST_SIMULATION";

const STEPS: u64 = 400;

/// Started by the test below in its own process.
#[test]
fn the_program() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = folder.into_string().unwrap();
    aqueduct::run(|world| simulation::simulate(world, &folder, STEPS)).unwrap();
}

fn start(folder: &Path, ranks: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["the_program", "--exact", "--nocapture"]);
    command.env(FOLDER, folder).env("AQUEDUCT_RANKS", ranks.to_string());
    command.stdout(Stdio::piped()).spawn().unwrap()
}

fn run(folder: &Path, ranks: usize) {
    let mut child = start(folder, ranks);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let last = lines.map_while(Result::ok).filter(|line| line.starts_with("step ")).last();
    assert!(child.wait().unwrap().success());
    assert_eq!(last, Some(format!("step {STEPS}")));
}

/// Runs the program until it has started the checkpoint of `step`, and kills it (SIGKILL).
fn kill_after(folder: &Path, ranks: usize, step: u64) {
    let mut child = start(folder, ranks);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let wanted = format!("step {step}");
    assert!(lines.any(|line| line == wanted), "the program ended before step {step}");
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "the program ended before it was killed");
}

/// The last temperature of every step, from the stream files of all runs in the order of their first steps.
fn steps(folder: &Path) -> BTreeMap<u64, Vec<f64>> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let first = |name: String| name.strip_prefix("from-")?.strip_suffix(".stream")?.parse::<u64>().ok();
    let mut starts: Vec<u64> = std::fs::read_dir(folder).unwrap().map(name).filter_map(first).collect();
    starts.sort_unstable();
    let mut all = BTreeMap::new();
    for start in starts {
        let path = folder.join(format!("from-{start}.stream"));
        let read = |world: &Comm| -> Result<Vec<(u64, Vec<f64>)>, aqueduct::Error> {
            let reader = Reader::open(world, path.to_str().unwrap())?;
            let steps = reader.stored_steps().iter();
            steps.map(|stored| Ok((start + stored.step + 1, reader.read("temperature", stored)?))).collect()
        };
        all.extend(Launch::threads(1).run(read).unwrap().into_iter().flatten());
    }
    all
}

#[test]
fn a_killed_run_continues_on_another_number_of_ranks_with_the_same_output() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    for folder in [&whole, &parts] {
        std::fs::create_dir(folder).unwrap();
    }
    run(&whole, 1);
    kill_after(&parts, 4, 100);
    kill_after(&parts, 3, 260);
    run(&parts, 2);
    let result = |folder: &Path| std::fs::read(folder.join("temperature.bin")).unwrap();
    assert!(result(&whole) == result(&parts), "the results differ");
    let (expected, found) = (steps(&whole), steps(&parts));
    assert_eq!(expected.len() as u64, STEPS);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (step, temperature) in &expected {
        assert!(found[step] == *temperature, "step {step} differs");
    }
    assert!(parts.join("from-0.stream").exists() && !parts.join("from-400.stream").exists());
}
