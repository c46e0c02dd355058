//! A program that is killed at any moment restarts from the last generation that was reported durable, or from a later one, never from
//! an incomplete one.
//!
//! Each rank of a job runs the test `a_job` of this program, until one rank kills itself (`SIGKILL`). The seed says after how many steps
//! and after which fraction of a step; since this is measured in steps, the speed of the machine does not matter. `AQUEDUCT_KILLS` sets
//! the number of kills.

mod fixture;
#[path = "fixture/state.rs"]
#[allow(dead_code, reason = "each test uses some of it")]
mod state;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use aqueduct_checkpoint::{Result, Store};
use aqueduct_comm::{Comm, Launch};
use aqueduct_testkit::launcher::kills::requested_kills;
use aqueduct_testkit::launcher::{JobOutput, TestLauncher};
use aqueduct_testkit::rng::SeededRng;
use fixture::DECOMPOSITIONS;
use state::{check, save};

/// The variable with the folder of the store; without it `a_job` does nothing.
const FOLDER: &str = "AQUEDUCT_TEST_STORE";

/// The variable with the seed that selects the rank and the time of the kill.
const SEED: &str = "AQUEDUCT_TEST_SEED";

/// The rank that is killed, and when.
struct Kill {
    rank: usize,
    /// The number of steps before the kill.
    steps: usize,
    /// The delay after these steps, in thousandths of the duration of the last one.
    part: u32,
}

impl Kill {
    fn new(seed: u64, ranks: usize) -> Self {
        let mut random = SeededRng::new(seed);
        Self { rank: random.below(ranks), steps: random.below(4), part: random.below(1500) as u32 }
    }

    fn start(&self, step: Duration) {
        let delay = step * self.part / 1000;
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        });
    }
}

/// Restarts from the latest generation, and writes checkpoints until it is killed.
fn job(world: &Comm, folder: &Path, seed: u64) -> Result<()> {
    let (how, kill) = (DECOMPOSITIONS[(seed % 2) as usize], Kill::new(seed, world.size()));
    let mut since = Instant::now();
    let mut store = Store::open_or_create(world, folder)?;
    let restored = check(world, &store, how)?.unwrap_or(0);
    for steps in 0.. {
        if world.rank() == kill.rank && steps == kill.steps {
            kill.start(since.elapsed());
        }
        since = Instant::now();
        let step = restored + 1 + steps as u64;
        save(world, &mut store, step, how, step.is_multiple_of(2))?;
        store.wait()?;
        if world.rank() == 0 {
            println!("durable {step}");
        }
    }
    Ok(())
}

/// Run by the jobs of the tests below; does nothing otherwise.
#[test]
fn a_job() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let seed = std::env::var(SEED).unwrap().parse().unwrap();
    aqueduct_comm::run(|world| job(world, Path::new(&folder), seed)).unwrap();
}

/// The step of the latest generation, after a check of all of its parts.
fn latest_step(folder: &Path, seed: u64) -> u64 {
    let ranks = 1 + (seed % 5) as usize;
    let look = |world: &Comm| {
        check(world, &Store::open_or_create(world, folder)?, DECOMPOSITIONS[(seed / 2 % 2) as usize])
    };
    Launch::threads(ranks).run(look).unwrap()[0].unwrap_or(0)
}

/// The last step that the job reported durable.
fn durable_step(output: &str) -> u64 {
    let steps = output.lines().filter_map(|line| line.trim().strip_prefix("durable ")?.parse().ok());
    steps.max().unwrap_or(0)
}

/// Runs jobs one after the other on the same store, and checks the store after each. `run` gets the number of ranks and the variables.
fn check_recovery(kills: usize, run: impl Fn(usize, &[(&str, &str)]) -> JobOutput) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (mut before, mut commits) = (0, 0);
    for seed in 0..kills as u64 {
        let variables = [(FOLDER, folder.path().to_str().unwrap()), (SEED, &seed.to_string())];
        let job = run(1 + seed as usize % 4, &variables);
        assert!(!job.success && !job.errors.contains("panicked"), "seed {seed}: {}", job.errors);
        let durable = durable_step(&job.output);
        let found = latest_step(folder.path(), seed);
        // One more step may have been committed before it was reported.
        assert!(
            found >= durable.max(before),
            "seed {seed}: step {durable} was durable, {before} before, but the store has {found}"
        );
        commits += usize::from(found > before);
        before = found;
    }
    println!("{kills} kills, {commits} of them after a new commit, {before} steps in all");
    assert!(2 * commits >= kills, "only {commits} of {kills} jobs committed a step");
}

const ARGUMENTS: [&str; 3] = ["--exact", "a_job", "--nocapture"];

#[test]
fn threads_recover_from_kills() {
    check_recovery(requested_kills(40), |ranks, variables| {
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

fn check_recovery_under(name: &str) {
    let Some(launcher) = TestLauncher::find(name, &std::env::current_exe().unwrap()) else { return };
    check_recovery(requested_kills(10), |ranks, variables| launcher.job(ranks, &ARGUMENTS, variables));
}

#[test]
fn openmpi_ranks_recover_from_kills() {
    check_recovery_under("openmpi");
}

#[test]
fn mpich_ranks_recover_from_kills() {
    check_recovery_under("mpich");
}
