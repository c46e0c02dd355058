//! Killed at any moment, a program comes back to the last generation it was told of, or a later one; never to a torn one.
//!
//! The program is this one: each rank runs the one test `a_job`, until it kills itself (`SIGKILL`, after a time that the seed says). `AQUEDUCT_KILLS` says how
//! often under launchers; among threads it is 200 times.

mod cases;
#[path = "cases/state.rs"]
#[allow(dead_code, reason = "some of it is for others")]
mod state;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use aqueduct_checkpoint::{Result, Store};
use aqueduct_comm::{Comm, Launch};
use aqueduct_testkit::launcher::Launcher;
use aqueduct_testkit::seeded::Seeded;
use cases::BOTH;
use state::{check, save};

/// Where the job has its checkpoints; without it there is no job.
const FOLDER: &str = "AQUEDUCT_TEST_STORE";

/// The number of the turn: who is killed, and when.
const TURN: &str = "AQUEDUCT_TEST_TURN";

/// Comes back, and goes on until it is killed.
fn job(world: &Comm, folder: &Path, turn: u64) -> Result<()> {
    let how = BOTH[(turn % 2) as usize];
    let mut store = Store::open(world, folder)?;
    let mut random = Seeded::new(turn);
    let victim = random.below(world.size());
    // Processes are slower than threads.
    let longest = if world.is_one_process() { 60_000 } else { 240_000 };
    let patience = Duration::from_micros(random.below(longest) as u64);
    let mut step = check(world, &store, how)?.unwrap_or(0);
    if world.rank() == victim {
        std::thread::spawn(move || {
            std::thread::sleep(patience);
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        });
    }
    loop {
        step += 1;
        save(world, &mut store, step, how, step % 2 == 0)?;
        store.wait()?;
        if world.rank() == 0 {
            println!("durable {step}");
        }
    }
}

/// Started by the tests below; by hand, it does nothing.
#[test]
fn a_job() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let turn = std::env::var(TURN).unwrap().parse().unwrap();
    aqueduct_comm::run(|world| job(world, Path::new(&folder), turn)).unwrap();
}

/// What is left: the step of the latest generation, which was looked at as a whole.
fn left(folder: &Path, turn: u64) -> u64 {
    let ranks = 1 + (turn % 5) as usize;
    let look = |world: &Comm| check(world, &Store::open(world, folder)?, BOTH[(turn / 2 % 2) as usize]);
    Launch::threads(ranks).run(look).unwrap()[0].unwrap_or(0)
}

/// The last step that the job was told to be durable.
fn told(output: &str) -> u64 {
    let steps = output.lines().filter_map(|line| line.trim().strip_prefix("durable ")?.parse().ok());
    steps.max().unwrap_or(0)
}

#[test]
fn threads() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (mut before, mut commits) = (0, 0);
    for turn in 0..200 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "a_job", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(TURN, turn.to_string());
        command.env("AQUEDUCT_RANKS", (1 + turn % 4).to_string()).stderr(Stdio::piped());
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && !errors.contains("panicked"), "turn {turn}: {errors}");
        let told = told(&String::from_utf8_lossy(&output.stdout));
        let found = left(folder.path(), turn);
        // One more may have been committed without the word of it getting out.
        assert!(
            found >= told.max(before),
            "turn {turn}: step {told} was durable, {before} before, {found} is there"
        );
        commits += u64::from(found > before);
        before = found;
    }
    assert!(commits > 20, "only {commits} of 200 got anywhere");
}

fn under(name: &str) {
    let Some(launcher) = Launcher::find(name, &std::env::current_exe().unwrap()) else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let turns = std::env::var("AQUEDUCT_KILLS").map_or(10, |turns| turns.parse().unwrap());
    let (mut before, mut commits) = (0, 0);
    for turn in 0..turns {
        let number = turn.to_string();
        let variables = [(FOLDER, folder.path().to_str().unwrap()), (TURN, &number)];
        let job = launcher.job(1 + turn as usize % 4, &["--exact", "a_job", "--nocapture"], &variables);
        assert!(!job.success && !job.errors.contains("panicked"), "turn {turn}: {}", job.errors);
        let told = told(&job.output);
        let found = left(folder.path(), turn);
        assert!(
            found >= told.max(before),
            "turn {turn}: step {told} was durable, {before} before, {found} is there"
        );
        commits += u64::from(found > before);
        before = found;
    }
    assert!(10 * commits >= turns, "only {commits} of {turns} got anywhere");
}

#[test]
fn openmpi() {
    under("openmpi");
}

#[test]
fn mpich() {
    under("mpich");
}
