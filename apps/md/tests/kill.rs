//! kill −9 during a run, again and again, and a restart on another number of ranks: in the end everything is as if nothing had been.
//! `AQUEDUCT_KILLS=200` kills more often.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use aqueduct_testkit::launcher::Launcher;

const STEPS: &str = "120";

fn config(folder: &Path, decomposition: &str) -> String {
    let text = format!(
        "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\nphaseSpaceFile Generator fcc 500 0.7 1.1\n\
         parallelization {decomposition}\noutput ResultWriter 3 {}\n",
        folder.join("run").display()
    );
    let file = folder.join(format!("{decomposition}.cfg"));
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

fn arguments<'a>(config: &'a str, checkpoints: &'a str, every: &'a str) -> Vec<&'a str> {
    vec![
        config,
        "--steps",
        STEPS,
        "--rows",
        "1",
        "--checkpoints",
        checkpoints,
        "--every",
        every,
        "--restart",
        "latest",
    ]
}

fn threads(ranks: usize, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_md"));
    command.args(arguments).args(["-n", &ranks.to_string()]).env("AQUEDUCT_MPI", "none");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The table of a run that nobody disturbs.
fn undisturbed() -> String {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "DomainDecomposition");
    let checkpoints = folder.path().join("checkpoints").display().to_string();
    assert!(threads(1, &arguments(&config, &checkpoints, "1000")).wait().unwrap().success());
    fs::read_to_string(folder.path().join("run.res")).unwrap()
}

/// Random numbers that a seed repeats.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed = std::env::var("AQUEDUCT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_141);
        println!("AQUEDUCT_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn threads_are_killed() {
    let (expected, mut dice) = (undisturbed(), Dice::new());
    let wanted = std::env::var("AQUEDUCT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12);
    let (mut kills, mut returns) = (0, 0);
    for round in (0..4).cycle() {
        if kills >= wanted {
            break;
        }
        let folder = tempfile::tempdir().unwrap();
        let configs = ["DomainDecomposition", "KDDecomposition"].map(|manner| config(folder.path(), manner));
        let checkpoints = folder.path().join("checkpoints").display().to_string();
        let every = ["2", "7", "1", "auto"][round];
        for attempt in 0.. {
            let ranks = 1 + dice.below(5) as usize;
            let arguments = arguments(&configs[dice.below(2) as usize], &checkpoints, every);
            let mut child = threads(ranks, &arguments);
            if attempt < 6 {
                thread::sleep(Duration::from_millis(20 + dice.below(400)));
                kills += usize::from(child.try_wait().unwrap().is_none());
                let _ = child.kill();
            }
            let output = child.wait_with_output().unwrap();
            returns += usize::from(String::from_utf8_lossy(&output.stdout).contains("back to step"));
            if output.status.success() {
                break;
            }
            // Killed: nothing was complained of.
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        }
        assert_eq!(fs::read_to_string(folder.path().join("run.res")).unwrap(), expected, "round {round}");
    }
    assert!(returns > 0, "{kills} kills, and nothing came back");
    println!("{kills} kills, {returns} returns");
}

/// The processes of a job whose command line has this word.
fn ranks_of(word: &str) -> Vec<PathBuf> {
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_md")).unwrap();
    let is_ours = |path: &PathBuf| {
        let ours = fs::read_link(path.join("exe")).is_ok_and(|exe| exe == program);
        ours && fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(word))
    };
    fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(is_ours).collect()
}

/// Kills one rank of a job, some time after it has begun, however long starting it takes; whether there was one left.
fn kill_a_rank(word: &str, dice: &mut Dice, is_over: impl Fn() -> bool) -> bool {
    while ranks_of(word).is_empty() && !is_over() {
        thread::sleep(Duration::from_millis(2));
    }
    thread::sleep(Duration::from_millis(dice.below(300)));
    let ranks = ranks_of(word);
    if ranks.is_empty() {
        return false;
    }
    let chosen = ranks[dice.below(ranks.len() as u64) as usize].file_name().unwrap().to_owned();
    Command::new("kill").arg("-9").arg(chosen).status().unwrap().success()
}

fn ranks_are_killed(launcher: &str) {
    let Some(launcher) = Launcher::find(launcher, Path::new(env!("CARGO_BIN_EXE_md"))) else { return };
    let (expected, mut dice) = (undisturbed(), Dice::new());
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "KDDecomposition");
    let checkpoints = folder.path().join("checkpoints").display().to_string();
    let arguments = arguments(&config, &checkpoints, "3");
    let mut kills = 0;
    for attempt in 0.. {
        let ranks = 1 + dice.below(4) as usize;
        let job = thread::scope(|scope| {
            let job = scope.spawn(|| launcher.job(ranks, &arguments, &[]));
            if attempt < 5 {
                kills += usize::from(kill_a_rank(&checkpoints, &mut dice, || job.is_finished()));
            }
            job.join().unwrap()
        });
        if job.success && (kills > 0 || attempt >= 5) {
            break;
        }
        assert!(attempt < 5, "{}", job.errors);
        if job.success {
            // Over before it could be killed: once more from the start.
            fs::remove_dir_all(&checkpoints).unwrap();
        }
    }
    assert!(kills > 0, "every run was over before it could be killed");
    assert_eq!(fs::read_to_string(folder.path().join("run.res")).unwrap(), expected);
}

#[test]
fn ranks_of_openmpi_are_killed() {
    ranks_are_killed("openmpi");
}

#[test]
fn ranks_of_mpich_are_killed() {
    ranks_are_killed("mpich");
}
