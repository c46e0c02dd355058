//! Runs that are killed with SIGKILL at any time and restarted on another number of ranks end with the same bits as an undisturbed run; the
//! last committed step is never lost. `AQUEDUCT_KILLS=100` sets the number of kills.

use std::path::Path;
use std::thread;
use std::time::Duration;

use aqueduct_sph::output::step_files::StepFiles;
use aqueduct_testkit::launcher::kills::{JobProcesses, requested_kills};
use aqueduct_testkit::launcher::{JobOutput, TestLauncher};
use aqueduct_testkit::rng::SeededRng;

use crate::{JET, files, stored};

const LAST: u64 = 60;

/// The newest step that has a header.
fn newest(files: &StepFiles) -> u64 {
    files.steps().last().copied().unwrap_or(0)
}

fn arguments<'a>(files: &'a StepFiles, last: &'a str, way: &'a str, record: &'a str) -> Vec<&'a str> {
    let options = [
        "--steps",
        last,
        "--output",
        way,
        "--record",
        record,
        "--prefix",
        &files.prefix,
        "--restart",
        "auto",
    ];
    [&JET[..], &options].concat()
}

/// The step of the restart that a job printed.
fn restarted_at(output: &str) -> Option<u64> {
    output.split_once("restart at step ")?.1.split(',').next()?.parse().ok()
}

/// Kills runs until the number of kills is reached. Each run is killed a few times and must end with the expected particles.
fn check_killed_runs(default_kills: usize, run: impl Fn(usize, &[&str]) -> JobOutput + Sync) {
    let folder = tempfile::tempdir().unwrap();
    let (whole, last) = (files(folder.path(), "whole"), LAST.to_string());
    let mut random = SeededRng::from_environment(20_061);
    let job = run(1, &arguments(&whole, &last, "together", "lists"));
    assert!(job.success, "{}", job.errors);
    let expected = stored(&whole, LAST, 1);
    let wanted = requested_kills(default_kills);
    let (mut kills, mut restarts) = (0, 0);
    for round in 0.. {
        if kills >= wanted {
            break;
        }
        let files = files(folder.path(), &format!("round{round}"));
        let (way, record) =
            [("together", "lists"), ("buffered", "arrays"), ("own", "lists"), ("together", "arrays")]
                [round % 4];
        let processes = JobProcesses::new(env!("CARGO_BIN_EXE_sph"), &files.prefix);
        let kill = |random: &mut SeededRng, is_over: &dyn Fn() -> bool| {
            let after = newest(&files) + random.below(8) as u64;
            processes.kill_one_after(|| newest(&files), after, Duration::from_millis(60), random, is_over)
        };
        let mut committed = 0;
        for attempt in 0.. {
            let ranks = 1 + random.below(5);
            let arguments = arguments(&files, &last, way, record);
            let (job, begun) = thread::scope(|scope| {
                let job = scope.spawn(|| run(ranks, &arguments));
                let begun = (attempt < 6).then(|| kill(&mut random, &|| job.is_finished())).flatten();
                (job.join().unwrap(), begun)
            });
            let found = restarted_at(&job.output);
            restarts += usize::from(found.is_some());
            // The output of a job that was killed may be lost with it.
            let lost = found.is_some_and(|step| step < committed);
            assert!(!lost, "round {round}: step {committed} was committed, restart at {found:?}");
            kills += usize::from(begun.is_some());
            // A step is committed before the next one begins; a buffered one during the next one.
            let behind = if way == "buffered" { 2 } else { 1 };
            committed = begun.map_or(committed, |begun| committed.max(begun.saturating_sub(behind)));
            if job.success {
                break;
            }
            assert!(attempt < 6 && !job.errors.contains("panicked"), "{}", job.errors);
        }
        assert!(stored(&files, LAST, 2) == expected, "round {round}, {way}");
    }
    println!("{kills} kills, {restarts} restarts");
    assert!(restarts > 0, "{kills} kills, but no restart from a step");
}

#[test]
fn killed_threads_are_restarted() {
    check_killed_runs(8, |ranks, arguments| {
        let output = crate::sph(ranks, arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        JobOutput {
            success: output.status.success(),
            output: text(&output.stdout),
            errors: text(&output.stderr),
        }
    });
}

fn check_killed_ranks(launcher: &str) {
    let Some(launcher) = TestLauncher::find(launcher, Path::new(env!("CARGO_BIN_EXE_sph"))) else { return };
    check_killed_runs(3, |ranks, arguments| launcher.killed_job(ranks, arguments));
}

#[test]
fn killed_openmpi_ranks_are_restarted() {
    check_killed_ranks("openmpi");
}

#[test]
fn killed_mpich_ranks_are_restarted() {
    check_killed_ranks("mpich");
}
