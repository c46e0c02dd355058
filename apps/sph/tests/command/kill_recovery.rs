//! Runs that are killed with SIGKILL at any time and restarted on another number of ranks end with the same bits as an undisturbed run; the
//! last committed step is never lost. `AQUEDUCT_KILLS=100` sets the number of kills.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use aqueduct_sph::output::step_files::StepFiles;
use aqueduct_testkit::launcher::{JobOutput, TestLauncher};

use crate::{JET, files, stored};

const LAST: u64 = 60;

/// Seeded random numbers.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed = std::env::var("AQUEDUCT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_061);
        println!("AQUEDUCT_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The processes of the program whose command line contains this word.
fn ranks_of(word: &str) -> Vec<PathBuf> {
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_sph")).unwrap();
    let is_ours = |path: &PathBuf| {
        let ours = fs::read_link(path.join("exe")).is_ok_and(|exe| exe == program);
        ours && fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(word))
    };
    fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(is_ours).collect()
}

/// The newest step that has a header.
fn newest(files: &StepFiles) -> u64 {
    files.steps().last().copied().unwrap_or(0)
}

/// Kills one rank of a job some time after it has begun some more steps; the newest step before that, if a rank was killed.
fn kill_a_rank(files: &StepFiles, dice: &mut Dice, is_over: impl Fn() -> bool) -> Option<u64> {
    let wanted = newest(files) + dice.below(8);
    while (ranks_of(&files.prefix).is_empty() || newest(files) < wanted) && !is_over() {
        thread::sleep(Duration::from_millis(2));
    }
    thread::sleep(Duration::from_millis(dice.below(60)));
    let ranks = ranks_of(&files.prefix);
    if ranks.is_empty() {
        return None;
    }
    let begun = newest(files);
    let chosen = ranks[dice.below(ranks.len() as u64) as usize].file_name().unwrap().to_owned();
    Command::new("kill").arg("-9").arg(chosen).status().unwrap().success().then_some(begun)
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
    let (whole, last, mut dice) = (files(folder.path(), "whole"), LAST.to_string(), Dice::new());
    let job = run(1, &arguments(&whole, &last, "together", "lists"));
    assert!(job.success, "{}", job.errors);
    let expected = stored(&whole, LAST, 1);
    let wanted = std::env::var("AQUEDUCT_KILLS").map_or(default_kills, |kills| kills.parse().unwrap());
    let (mut kills, mut restarts) = (0, 0);
    for round in 0.. {
        if kills >= wanted {
            break;
        }
        let files = files(folder.path(), &format!("round{round}"));
        let (way, record) =
            [("together", "lists"), ("buffered", "arrays"), ("own", "lists"), ("together", "arrays")]
                [round % 4];
        let mut committed = 0;
        for attempt in 0.. {
            let ranks = 1 + dice.below(5) as usize;
            let arguments = arguments(&files, &last, way, record);
            let (job, begun) = thread::scope(|scope| {
                let job = scope.spawn(|| run(ranks, &arguments));
                let begun =
                    (attempt < 6).then(|| kill_a_rank(&files, &mut dice, || job.is_finished())).flatten();
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
