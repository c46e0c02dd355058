//! Killed at any moment, a program comes back to the last generation it was told of, or a later one; never to a torn one.
//!
//! The program is this one: each rank runs the one test `a_job`, until one kills itself (`SIGKILL`), so many steps and so much of a step after it came
//! back: the seed says how many and how much. Measured by its own steps, it is killed inside of them however slow the machine is. `AQUEDUCT_KILLS` says how
//! often.

mod fixture;
#[path = "fixture/state.rs"]
#[allow(dead_code, reason = "some of it is for others")]
mod state;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use aqueduct_checkpoint::{Result, Store};
use aqueduct_comm::{Comm, Launch};
use aqueduct_testkit::launcher::{JobOutput, TestLauncher};
use aqueduct_testkit::rng::SeededRng;
use fixture::DECOMPOSITIONS;
use state::{check, save};

/// Where the job has its checkpoints; without it there is no job.
const FOLDER: &str = "AQUEDUCT_TEST_STORE";

/// The number of the turn: who is killed, and when.
const TURN: &str = "AQUEDUCT_TEST_TURN";

/// When a rank of a job is killed.
struct Doom {
    victim: usize,
    /// After so many steps of its own, …
    steps: usize,
    /// … and so many thousandths of the time that the last one took.
    part: u32,
}

impl Doom {
    fn new(turn: u64, ranks: usize) -> Self {
        let mut random = SeededRng::new(turn);
        Self { victim: random.below(ranks), steps: random.below(4), part: random.below(1500) as u32 }
    }

    fn strike(&self, took: Duration) {
        let patience = took * self.part / 1000;
        std::thread::spawn(move || {
            std::thread::sleep(patience);
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        });
    }
}

/// Comes back, and goes on until it is killed.
fn job(world: &Comm, folder: &Path, turn: u64) -> Result<()> {
    let (how, doom) = (DECOMPOSITIONS[(turn % 2) as usize], Doom::new(turn, world.size()));
    let mut since = Instant::now();
    let mut store = Store::open_or_create(world, folder)?;
    let back = check(world, &store, how)?.unwrap_or(0);
    for steps in 0.. {
        if world.rank() == doom.victim && steps == doom.steps {
            doom.strike(since.elapsed());
        }
        since = Instant::now();
        let step = back + 1 + steps as u64;
        save(world, &mut store, step, how, step.is_multiple_of(2))?;
        store.wait()?;
        if world.rank() == 0 {
            println!("durable {step}");
        }
    }
    Ok(())
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
    let look = |world: &Comm| {
        check(world, &Store::open_or_create(world, folder)?, DECOMPOSITIONS[(turn / 2 % 2) as usize])
    };
    Launch::threads(ranks).run(look).unwrap()[0].unwrap_or(0)
}

/// The last step that the job was told to be durable.
fn told(output: &str) -> u64 {
    let steps = output.lines().filter_map(|line| line.trim().strip_prefix("durable ")?.parse().ok());
    steps.max().unwrap_or(0)
}

/// How often.
fn turns(unless_told: u64) -> u64 {
    std::env::var("AQUEDUCT_KILLS").map_or(unless_told, |turns| turns.parse().unwrap())
}

/// Runs jobs, one after the other over the same store, and looks at what each has left. `run` gets the number of ranks and the variables.
fn judge(turns: u64, run: impl Fn(usize, &[(&str, &str)]) -> JobOutput) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (mut before, mut commits) = (0, 0);
    for turn in 0..turns {
        let variables = [(FOLDER, folder.path().to_str().unwrap()), (TURN, &turn.to_string())];
        let job = run(1 + turn as usize % 4, &variables);
        assert!(!job.success && !job.errors.contains("panicked"), "turn {turn}: {}", job.errors);
        let told = told(&job.output);
        let found = left(folder.path(), turn);
        // One more may have been committed without the word of it getting out.
        assert!(
            found >= told.max(before),
            "turn {turn}: step {told} was durable, {before} before, {found} is there"
        );
        commits += u64::from(found > before);
        before = found;
    }
    println!("{turns} kills, {commits} of them after something new was committed, {before} steps in all");
    assert!(2 * commits >= turns, "only {commits} of {turns} got anywhere");
}

const ARGUMENTS: [&str; 3] = ["--exact", "a_job", "--nocapture"];

#[test]
fn threads() {
    judge(turns(40), |ranks, variables| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(ARGUMENTS).envs(variables.iter().copied()).env("AQUEDUCT_RANKS", ranks.to_string());
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        JobOutput {
            success: output.status.success(),
            output: text(&output.stdout),
            errors: text(&output.stderr),
        }
    });
}

fn under(name: &str) {
    let Some(launcher) = TestLauncher::find(name, &std::env::current_exe().unwrap()) else { return };
    judge(turns(10), |ranks, variables| launcher.job(ranks, &ARGUMENTS, variables));
}

#[test]
fn openmpi() {
    under("openmpi");
}

#[test]
fn mpich() {
    under("mpich");
}
