//! Where a run begins, what it refuses, and how it ends early: the command itself, on threads and under both MPIs.

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

/// Waits until a folder has a checkpoint.
fn wait_for_a_checkpoint(saved: &Path) {
    let began = Instant::now();
    let is_one = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("generation-");
    while !fs::read_dir(saved).into_iter().flatten().flatten().any(|entry| is_one(&entry)) {
        assert!(began.elapsed() < Duration::from_secs(60), "there is no checkpoint");
        thread::sleep(Duration::from_millis(5));
    }
}

fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_folder_that_has_checkpoints_is_refused_unless_told() {
    let run = Run::new();
    run.succeeds("--steps 20 --every 10");
    let (before, saved) = (run.files(), run.saved());
    let error = run.fails("--steps 30");
    assert!(error.contains("generation 2") && error.contains("--start-over"), "{error}");
    assert!(run.files() == before && run.saved() == saved, "nothing was changed");
    // Told to, it begins again, and comes to the same.
    run.succeeds("--steps 20 --every 10 --start-over");
    assert!(run.files() == before && run.saved().1 == 20);
    // A kill before its first checkpoint comes back to the new beginning, not to the old end.
    let child = run.command("--steps 1000000 --every 1000000 --start-over").spawn().unwrap();
    let newest = run.saved().0.last().copied().unwrap();
    while run.saved().0.last() == Some(&newest) {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(50));
    let killed = Command::new("kill").args(["-9", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    ended(child);
    assert!(run.succeeds("--steps 20 --restart latest").contains("back to step 0"));
    assert!(run.files() == before);
}

#[test]
fn a_restart_needs_a_checkpoint_unless_told() {
    let run = Run::new();
    let error = run.fails("--steps 20 --restart latest");
    assert!(error.contains("saved") && error.contains("no such folder"), "{error}");
    assert!(!run.path("saved").exists() && !run.path("run.res").exists());
    fs::create_dir(run.path("saved")).unwrap();
    let error = run.fails("--steps 20 --restart latest");
    assert!(error.contains("no checkpoint to come back to"), "{error}");
    let told = run.succeeds("--steps 20 --restart auto");
    assert!(told.contains("from the beginning"), "{told}");
    assert!(run.succeeds("--steps 30 --restart auto").contains("back to step 20"));
}

#[test]
fn a_folder_in_use_is_refused_before_anything_is_touched() {
    let run = Run::new();
    run.succeeds("--steps 20 --every 10");
    let before = run.files();
    Launch::threads(1)
        .run(|world| {
            let mut store = Store::open(world, run.path("saved")).unwrap();
            store.lock().unwrap();
            for how in ["--restart latest", "--start-over", "--generation 1", ""] {
                let error = run.fails(&format!("--steps 30 {how}"));
                assert!(error.contains("another program is writing checkpoints here"), "{how}: {error}");
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
    assert!(run.fails("--steps 20 --generation 77").contains("there is no generation 77"));
    let told = run.succeeds("--steps 30 --every 100 --keep 9 --generation 2");
    assert!(told.contains("back to step 10, from generation 2"), "{told}");
    assert!(run.files() == whole.files());
    // What it began with came first: whoever comes back before the next one does not find the generations that were given up.
    assert_eq!(run.saved(), (vec![1, 2, 3, 4, 5, 6], 30));
    assert!(run.succeeds("--steps 10 --keep 9 --generation 5").contains("back to step 10"));
}

/// Whether a run that has ended early goes on as if it had not.
fn goes_on(run: &Run) {
    let (whole, (_, step)) = (Run::new(), run.saved());
    assert!(step > 0 && step < 1_000_000);
    let steps = step + 10;
    let told = run.succeeds(&format!("--steps {steps} --restart latest"));
    assert!(told.contains(&format!("back to step {step}")), "{told}");
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
        let (code, told) = ended(child);
        assert_eq!(code, STOPPED, "{told}");
        assert!(told.contains("ended by SIGTERM, with a checkpoint"), "{told}");
        goes_on(&run);
    }
}

#[test]
fn a_run_ends_with_a_checkpoint_before_its_time_is_over() {
    let run = Run::new();
    let began = Instant::now();
    let output = run.go("--steps 1000000 --every 50 --until 3s");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), STOPPED, "{told}");
    assert!(told.contains("the time of --until"), "{told}");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    goes_on(&run);
    // Time that is over before the first step leaves a checkpoint, too.
    let output = run.go("--steps 1000000 --restart latest --until @1");
    assert_eq!(output.status.code(), STOPPED);
    let error = String::from_utf8_lossy(&run.go("--until soon").stderr).into_owned();
    assert!(error.contains("give a duration from now on"), "{error}");
}

/// No checkpoint is due before the end, and one takes longer than what is kept for the end: how long is measured by an early one.
#[test]
fn time_for_a_checkpoint_is_kept_though_none_was_due() {
    let run = Run::new();
    let began = Instant::now();
    // 500 molecules are 60 kB: about two seconds.
    let output = run.go("--steps 1000000 --every 1000000 --until 9s --through throttle=30kB/s:ufs:");
    let (told, took) = (String::from_utf8_lossy(&output.stderr), began.elapsed());
    assert_eq!(output.status.code(), STOPPED, "{told}");
    assert!(took > Duration::from_secs(5) && took < Duration::from_secs(9), "{took:?}");
    let (generations, step) = run.saved();
    assert!(generations == [1, 2] && step > 1, "{generations:?} {step}");
}

#[test]
fn frames_that_the_checkpoint_does_not_know_are_refused() {
    let run = Run::new();
    let config = fs::read_to_string(run.path("run.cfg")).unwrap();
    let without: String = config.split_inclusive('\n').filter(|line| !line.contains("VISWriter")).collect();
    fs::write(run.path("run.cfg"), without).unwrap();
    run.succeeds("--steps 20 --every 10");
    fs::write(run.path("run.cfg"), config).unwrap();
    fs::write(run.path("run.vis"), "frames of someone").unwrap();
    let error = run.fails("--steps 60 --restart latest");
    assert!(error.contains("run.vis has 17 bytes") && error.contains("move it away"), "{error}");
    assert_eq!(fs::read(run.path("run.vis")).unwrap(), b"frames of someone");
    fs::rename(run.path("run.vis"), run.path("kept.vis")).unwrap();
    run.succeeds("--steps 60 --restart latest");
    assert!(fs::read_to_string(run.path("run.vis")).unwrap().lines().count() > 500);
}

/// Another folder of checkpoints, or none, is no lock: the outputs have their own.
#[test]
fn a_second_run_with_the_same_prefix_is_refused_before_anything_is_touched() {
    let run = Run::new();
    let child = run.command("--steps 1000000 --every 20").spawn().unwrap();
    wait_for_a_checkpoint(&run.path("saved"));
    let config = run.path("run.cfg").display().to_string();
    let other = run.path("other").display().to_string();
    for more in [&[][..], &["--checkpoints", &other]] {
        let mut second = Command::new(env!("CARGO_BIN_EXE_md"));
        second.arg(&config).args(["--steps", "1"]).args(more);
        let output = second.env("AQUEDUCT_MPI", "none").env("AQUEDUCT_RANKS", "2").output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("another program is writing files of this prefix"), "{told}");
        assert!(run.files().iter().all(|bytes| bytes.len() > 100), "the outputs were not emptied");
    }
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success() && ended(child).0 == STOPPED);
    goes_on(&run);
    assert!(!run.path("run.lock").exists());
}

/// One rank alone gets the signal: all of them end after the same step.
fn a_signal_to_one_rank_ends_an_mpi_job(mpi: &str) {
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
        let rank = fs::read_dir("/proc").unwrap().flatten().find(is_rank).expect("there are ranks");
        let sent = Command::new("kill").arg("-TERM").arg(rank.file_name()).status().unwrap();
        assert!(sent.success());
        job.join().unwrap()
    });
    assert!(!job.success && job.errors.contains("ended by SIGTERM, with a checkpoint"), "{}", job.errors);
    goes_on(&run);
}

#[test]
fn a_signal_to_one_rank_ends_a_job_of_openmpi() {
    a_signal_to_one_rank_ends_an_mpi_job("openmpi");
}

#[test]
fn a_signal_to_one_rank_ends_a_job_of_mpich() {
    a_signal_to_one_rank_ends_an_mpi_job("mpich");
}
