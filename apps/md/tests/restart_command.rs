//! The command `md`: start and restart options, locks, and the early end by a signal or a time limit, on threads and under MPI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use aqueduct::checkpoint::Store;
use aqueduct::comm::{Error, Launch};
use aqueduct_testkit::launcher::TestLauncher;

const STOPPED: Option<i32> = Some(75);

/// A folder with a configuration.
struct Run {
    folder: tempfile::TempDir,
}

impl Run {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("run");
        let text = format!(
            "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\nphaseSpaceFile Generator fcc 500 0.7 1.1\n\
             output ResultWriter 3 {0}\noutput VISWriter 50 {0}\n",
            prefix.display()
        );
        fs::write(folder.path().join("run.cfg"), text).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn arguments(&self, more: &str) -> Vec<String> {
        let words = more.split_whitespace().map(str::to_owned);
        let own = [self.path("run.cfg").display().to_string(), "--checkpoints".into()];
        own.into_iter().chain([self.path("saved").display().to_string()]).chain(words).collect()
    }

    fn command(&self, more: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_md"));
        command.args(self.arguments(more)).env("AQUEDUCT_MPI", "none").env("AQUEDUCT_RANKS", "2");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn go(&self, more: &str) -> Output {
        self.command(more).output().unwrap()
    }

    fn succeeds(&self, more: &str) -> String {
        let output = self.go(more);
        assert!(output.status.success(), "{more}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn fails(&self, more: &str) -> String {
        let output = self.go(more);
        assert_eq!(output.status.code(), Some(1), "{more}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn files(&self) -> [Vec<u8>; 2] {
        ["run.res", "run.vis"].map(|name| fs::read(self.path(name)).unwrap())
    }

    /// The generations, and the step of the latest.
    fn saved(&self) -> (Vec<u64>, u64) {
        let look = |world: &aqueduct::comm::Comm| {
            let store = Store::open(world, self.path("saved"))?;
            Ok::<_, aqueduct::checkpoint::Error>((
                store.generations()?,
                store.latest()?.map_or(0, |it| it.step()),
            ))
        };
        Launch::threads(1).run(look).unwrap().remove(0)
    }
}

/// Waits until the folder has a checkpoint.
fn wait_for_a_checkpoint(saved: &Path) {
    let began = Instant::now();
    let is_one = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("generation-");
    while !fs::read_dir(saved).into_iter().flatten().flatten().any(|entry| is_one(&entry)) {
        assert!(began.elapsed() < Duration::from_secs(60), "no checkpoint was written");
        thread::sleep(Duration::from_millis(5));
    }
}

fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_folder_with_checkpoints_is_an_error_without_start_over() {
    let run = Run::new();
    run.succeeds("--steps 20 --every 10");
    let (before, saved) = (run.files(), run.saved());
    let error = run.fails("--steps 30");
    assert!(error.contains("generation 2") && error.contains("--start-over"), "{error}");
    assert!(run.files() == before && run.saved() == saved, "no file was changed");
    // With --start-over it starts again, with the same result.
    run.succeeds("--steps 20 --every 10 --start-over");
    assert!(run.files() == before && run.saved().1 == 20);
    // After a kill before its first checkpoint, a restart begins at the new start, not at the old end.
    let child = run.command("--steps 1000000 --every 1000000 --start-over").spawn().unwrap();
    let newest = run.saved().0.last().copied().unwrap();
    while run.saved().0.last() == Some(&newest) {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(50));
    let killed = Command::new("kill").args(["-9", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    ended(child);
    assert!(run.succeeds("--steps 20 --restart latest").contains("restart at step 0"));
    assert!(run.files() == before);
}

#[test]
fn restart_latest_needs_a_checkpoint_and_auto_does_not() {
    let run = Run::new();
    let error = run.fails("--steps 20 --restart latest");
    assert!(error.contains("saved") && error.contains("the folder does not exist"), "{error}");
    assert!(!run.path("saved").exists() && !run.path("run.res").exists());
    fs::create_dir(run.path("saved")).unwrap();
    let error = run.fails("--steps 20 --restart latest");
    assert!(error.contains("there is no checkpoint; check the path"), "{error}");
    let output = run.succeeds("--steps 20 --restart auto");
    assert!(output.contains("starting from the beginning"), "{output}");
    assert!(run.succeeds("--steps 30 --restart auto").contains("restart at step 20"));
}

#[test]
fn a_folder_in_use_is_an_error_before_any_file_is_changed() {
    let run = Run::new();
    run.succeeds("--steps 20 --every 10");
    let before = run.files();
    Launch::threads(1)
        .run(|world| {
            let mut store = Store::open(world, run.path("saved")).unwrap();
            store.lock().unwrap();
            for how in ["--restart latest", "--start-over", "--generation 1", ""] {
                let error = run.fails(&format!("--steps 30 {how}"));
                assert!(
                    error.contains("another program writes checkpoints to this folder"),
                    "{how}: {error}"
                );
                assert!(run.files() == before, "{how}");
            }
            Ok::<_, Error>(())
        })
        .unwrap();
}

#[test]
fn a_generation_can_be_chosen() {
    let (run, whole) = (Run::new(), Run::new());
    whole.succeeds("--steps 30 --every 10");
    run.succeeds("--steps 20 --every 5 --keep 9");
    assert!(run.fails("--steps 20 --generation 77").contains("generation 77 does not exist"));
    let output = run.succeeds("--steps 30 --every 100 --keep 9 --generation 2");
    assert!(output.contains("restart at step 10, from generation 2"), "{output}");
    assert!(run.files() == whole.files());
    // The initial state is the first new generation, so an early restart does not find the discarded generations.
    assert_eq!(run.saved(), (vec![1, 2, 3, 4, 5, 6], 30));
    assert!(run.succeeds("--steps 10 --keep 9 --generation 5").contains("restart at step 10"));
}

/// Checks that a run that ended early continues with the results of an undisturbed run.
fn goes_on(run: &Run) {
    let (whole, (_, step)) = (Run::new(), run.saved());
    assert!(step > 0 && step < 1_000_000);
    let steps = step + 10;
    let output = run.succeeds(&format!("--steps {steps} --restart latest"));
    assert!(output.contains(&format!("restart at step {step}")), "{output}");
    whole.succeeds(&format!("--steps {steps}"));
    assert!(run.files() == whole.files());
}

#[test]
fn a_signal_ends_a_run_with_a_checkpoint() {
    for how in ["", "--blocking"] {
        let run = Run::new();
        let child = run.command(&format!("--steps 1000000 --every 20 {how}")).spawn().unwrap();
        wait_for_a_checkpoint(&run.path("saved"));
        let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let (code, message) = ended(child);
        assert_eq!(code, STOPPED, "{message}");
        assert!(message.contains("ended by SIGTERM with a checkpoint"), "{message}");
        goes_on(&run);
    }
}

#[test]
fn a_run_ends_with_a_checkpoint_before_its_time_limit() {
    let run = Run::new();
    let began = Instant::now();
    let output = run.go("--steps 1000000 --every 50 --until 3s");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), STOPPED, "{message}");
    assert!(message.contains("the time limit of --until"), "{message}");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    goes_on(&run);
    // A time limit that has passed before the first step also leaves a checkpoint.
    let output = run.go("--steps 1000000 --restart latest --until @1");
    assert_eq!(output.status.code(), STOPPED);
    let error = String::from_utf8_lossy(&run.go("--until soon").stderr).into_owned();
    assert!(error.contains("give a duration from now"), "{error}");
}

/// No checkpoint is due before the end, and a checkpoint takes longer than the reserved time: an early checkpoint measures its duration.
#[test]
fn time_for_the_last_checkpoint_is_measured_by_an_early_one() {
    let run = Run::new();
    let began = Instant::now();
    // 500 molecules are 60 kB, which take about two seconds.
    let output = run.go("--steps 1000000 --every 1000000 --until 9s --through throttle=30kB/s:ufs:");
    let (message, took) = (String::from_utf8_lossy(&output.stderr), began.elapsed());
    assert_eq!(output.status.code(), STOPPED, "{message}");
    assert!(took > Duration::from_secs(5) && took < Duration::from_secs(9), "{took:?}");
    let (generations, step) = run.saved();
    assert!(generations == [1, 2] && step > 1, "{generations:?} {step}");
}

#[test]
fn frames_without_a_mark_in_the_checkpoint_are_an_error() {
    let run = Run::new();
    let config = fs::read_to_string(run.path("run.cfg")).unwrap();
    let without: String = config.split_inclusive('\n').filter(|line| !line.contains("VISWriter")).collect();
    fs::write(run.path("run.cfg"), without).unwrap();
    run.succeeds("--steps 20 --every 10");
    fs::write(run.path("run.cfg"), config).unwrap();
    fs::write(run.path("run.vis"), "frames of others.").unwrap();
    let error = run.fails("--steps 60 --restart latest");
    assert!(error.contains("run.vis has 17 bytes") && error.contains("move the file away"), "{error}");
    assert_eq!(fs::read(run.path("run.vis")).unwrap(), b"frames of others.");
    fs::rename(run.path("run.vis"), run.path("kept.vis")).unwrap();
    run.succeeds("--steps 60 --restart latest");
    assert!(fs::read_to_string(run.path("run.vis")).unwrap().lines().count() > 500);
}

/// The outputs have their own locks, also for runs with another folder of checkpoints or without one.
#[test]
fn a_second_run_with_the_same_prefix_is_an_error_before_any_file_is_changed() {
    let run = Run::new();
    let child = run.command("--steps 1000000 --every 20").spawn().unwrap();
    wait_for_a_checkpoint(&run.path("saved"));
    let config = run.path("run.cfg").display().to_string();
    let other = run.path("other").display().to_string();
    for more in [&[][..], &["--checkpoints", &other]] {
        let mut second = Command::new(env!("CARGO_BIN_EXE_md"));
        second.arg(&config).args(["--steps", "1"]).args(more);
        let output = second.env("AQUEDUCT_MPI", "none").env("AQUEDUCT_RANKS", "2").output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("another program writes files with this prefix"), "{message}");
        assert!(run.files().iter().all(|bytes| bytes.len() > 100), "the outputs were not truncated");
    }
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success() && ended(child).0 == STOPPED);
    goes_on(&run);
    assert!(!run.path("run.lock").exists());
}

/// Only one rank gets the signal; all ranks end after the same step.
fn check_signal_to_one_rank(mpi: &str) {
    let program = Path::new(env!("CARGO_BIN_EXE_md"));
    let Some(launcher) = TestLauncher::find(mpi, program) else { return };
    let run = Run::new();
    let arguments = run.arguments("--steps 1000000 --every 20");
    let job = thread::scope(|scope| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let job = scope.spawn(move || launcher.job(3, &arguments, &[]));
        wait_for_a_checkpoint(&run.path("saved"));
        let word = run.path("saved").display().to_string();
        let is_rank = |process: &fs::DirEntry| {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let exe = fs::read_link(process.path().join("exe")).unwrap_or_default();
            exe == program.canonicalize().unwrap() && String::from_utf8_lossy(&line).contains(&word)
        };
        let rank = fs::read_dir("/proc").unwrap().flatten().find(is_rank).expect("a running rank");
        let sent = Command::new("kill").arg("-TERM").arg(rank.file_name()).status().unwrap();
        assert!(sent.success());
        job.join().unwrap()
    });
    assert!(!job.success && job.errors.contains("ended by SIGTERM with a checkpoint"), "{}", job.errors);
    goes_on(&run);
}

#[test]
fn a_signal_to_one_rank_ends_an_openmpi_job() {
    check_signal_to_one_rank("openmpi");
}

#[test]
fn a_signal_to_one_rank_ends_an_mpich_job() {
    check_signal_to_one_rank("mpich");
}
