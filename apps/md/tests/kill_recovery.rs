//! Runs that are killed with SIGKILL and restarted on another number of ranks have the same results as an undisturbed run. After a full
//! disk the run ends with an error, and the previous checkpoint is kept.
//!
//! A run is killed after it has committed some more checkpoints, so the time that its start takes does not matter. `AQUEDUCT_KILLS=200`
//! sets the number of kills.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use aqueduct_testkit::launcher::kills::{JobProcesses, requested_kills};
use aqueduct_testkit::launcher::{JobOutput, TestLauncher};
use aqueduct_testkit::rng::SeededRng;

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
        "auto",
    ]
}

/// Runs on this number of threads.
fn threads(ranks: usize, arguments: &[&str]) -> JobOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_md"));
    command.args(arguments).args(["-n", &ranks.to_string()]).env("AQUEDUCT_MPI", "none");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    JobOutput { success: output.status.success(), output: text(&output.stdout), errors: text(&output.stderr) }
}

/// The table of an undisturbed run.
fn undisturbed() -> String {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "DomainDecomposition");
    let checkpoints = folder.path().join("checkpoints").display().to_string();
    let job = threads(1, &arguments(&config, &checkpoints, "1000"));
    assert!(job.success, "{}", job.errors);
    fs::read_to_string(folder.path().join("run.res")).unwrap()
}

/// The number of the newest checkpoint.
fn newest(checkpoints: &Path) -> u64 {
    let entries = fs::read_dir(checkpoints).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("generation-")?.parse().ok();
    entries.filter_map(number).max().unwrap_or(0)
}

/// Kills runs until the number of kills is reached. Each run is killed a few times and must end with the expected results.
fn check_killed_runs(default_kills: usize, run: impl Fn(usize, &[&str]) -> JobOutput + Sync) {
    let (expected, mut random) = (undisturbed(), SeededRng::from_environment(20_141));
    let wanted = requested_kills(default_kills);
    let (mut kills, mut restarts) = (0, 0);
    for round in (0..4).cycle() {
        if kills >= wanted {
            break;
        }
        let folder = tempfile::tempdir().unwrap();
        let configs = ["DomainDecomposition", "KDDecomposition"].map(|method| config(folder.path(), method));
        let checkpoints = folder.path().join("checkpoints").display().to_string();
        let processes = JobProcesses::new(env!("CARGO_BIN_EXE_md"), &checkpoints);
        let every = ["2", "7", "1", "auto"][round];
        for attempt in 0.. {
            let ranks = 1 + random.below(5);
            let arguments = arguments(&configs[random.below(2)], &checkpoints, every);
            let job = thread::scope(|scope| {
                let job = scope.spawn(|| run(ranks, &arguments));
                if attempt < 6 {
                    // With `auto` the steps of checkpoints are not known: the kill comes after a random time.
                    let more = if every == "auto" { 0 } else { random.below(4) as u64 };
                    let committed = || newest(Path::new(&checkpoints));
                    let (after, longest) = (committed() + more, Duration::from_millis(100));
                    let over = || job.is_finished();
                    let killed = processes.kill_one_after(committed, after, longest, &mut random, over);
                    kills += usize::from(killed.is_some());
                }
                job.join().unwrap()
            });
            restarts += usize::from(job.output.contains("restart at step"));
            if job.success {
                break;
            }
            assert!(attempt < 6 && !job.errors.contains("panicked"), "{}", job.errors);
        }
        assert_eq!(fs::read_to_string(folder.path().join("run.res")).unwrap(), expected, "round {round}");
    }
    println!("{kills} kills, {restarts} restarts");
    assert!(2 * restarts >= kills, "{kills} kills, but only {restarts} restarts from a checkpoint");
}

#[test]
fn killed_threads_are_restarted() {
    check_killed_runs(12, |ranks, arguments| {
        let job = threads(ranks, arguments);
        // The killed process has printed no error.
        assert_eq!(job.errors, "");
        job
    });
}

fn check_killed_ranks(launcher: &str) {
    let Some(launcher) = TestLauncher::find(launcher, Path::new(env!("CARGO_BIN_EXE_md"))) else { return };
    check_killed_runs(5, |ranks, arguments| launcher.killed_job(ranks, arguments));
}

#[test]
fn killed_openmpi_ranks_are_restarted() {
    check_killed_ranks("openmpi");
}

#[test]
fn killed_mpich_ranks_are_restarted() {
    check_killed_ranks("mpich");
}

#[test]
fn a_full_disk_is_an_error_and_the_previous_checkpoint_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "KDDecomposition");
    let checkpoints = folder.path().join("checkpoints").display().to_string();
    let mut arguments = arguments(&config, &checkpoints, "10");
    arguments[2] = "30";
    let job = threads(3, &arguments);
    assert!(job.success, "{}", job.errors);
    let before = newest(Path::new(&checkpoints));
    arguments[2] = STEPS;
    for how in [&["--blocking"][..], &[]] {
        let device = format!("fault=seed={},nospace=9000:ufs:", how.len());
        let job = threads(2, &[&arguments, how, &["--through", &device]].concat());
        assert!(!job.success, "{}", job.output);
        assert!(job.errors.starts_with("md: ") && job.errors.contains("molecules.cells"), "{}", job.errors);
        assert!(job.errors.to_lowercase().contains("no space"), "{}", job.errors);
        assert_eq!(newest(Path::new(&checkpoints)), before);
        let names = fs::read_dir(&checkpoints).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = names.filter(|name| !name.to_string_lossy().starts_with("generation-")).collect();
        assert_eq!(left, [".lock"], "no other entries");
    }
    let job = threads(4, &arguments);
    assert!(job.success && job.output.contains("restart at step 30"), "{}{}", job.output, job.errors);
    assert_eq!(fs::read_to_string(folder.path().join("run.res")).unwrap(), undisturbed());
}
