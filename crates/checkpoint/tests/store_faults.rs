//! Stores with leftovers that cannot be removed, old generations that cannot be pruned, unrelated entries in the folder, and on file
//! systems without `flock`.

mod fixture;
#[path = "fixture/state.rs"]
#[allow(dead_code, reason = "each test uses some of it")]
mod state;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aqueduct_checkpoint::{Checkpoint, Error, Kind, Retention, Store};
use aqueduct_comm::{Comm, Launch};
use fixture::Decomposition;
use state::{check, save};

/// The variable with the folder of the store; without it `a_job` does nothing.
const FOLDER: &str = "AQUEDUCT_TEST_STORE";

fn on<T: Send>(ranks: usize, work: impl Fn(&Comm) -> Result<T, Error> + Sync) -> T {
    Launch::threads(ranks).run(work).unwrap().remove(0)
}

/// Commits a step; returns its generation and the warnings of rank 0.
fn commit(folder: &Path, keep: Retention, step: u64) -> (u64, Vec<String>) {
    on(2, |world| {
        let mut store = Store::open_or_create(world, folder)?.retention(keep);
        save(world, &mut store, step, Decomposition::Regular, true)?;
        let generation = store.wait()?.expect("a checkpoint was started");
        assert_eq!(check(world, &store, Decomposition::KdTree)?, Some(step));
        Ok((generation, store.take_warnings()))
    })
}

/// Makes files of a folder immutable, also for root, until it is dropped.
struct Immutable<'a>(&'a Path);

impl<'a> Immutable<'a> {
    fn new(folder: &'a Path, paths: &[PathBuf]) -> Option<Self> {
        let status = Command::new("chattr").arg("+i").args(paths).status();
        let done = status.is_ok_and(|status| status.success());
        if !done {
            eprintln!("skipped: files cannot be made immutable here");
        }
        done.then_some(Self(folder))
    }
}

impl Drop for Immutable<'_> {
    fn drop(&mut self) {
        // Recursively, since the files may have been moved.
        let _ = Command::new("chattr").args(["-R", "-i"]).arg(self.0).status();
    }
}

#[test]
fn leftovers_that_cannot_be_removed_do_not_prevent_checkpoints() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    assert_eq!(commit(folder.path(), Retention::Last(2), 1), (1, Vec::new()));
    let left: Vec<PathBuf> = [".writing-0000000002", ".pruned-0000000001"]
        .iter()
        .map(|name| {
            fs::create_dir(folder.path().join(name)).unwrap();
            let file = folder.path().join(name).join("molecules.cells");
            fs::write(&file, "left").unwrap();
            file
        })
        .collect();
    // A file with such a name is removed like a folder.
    fs::write(folder.path().join(".writing-0000000007"), "left").unwrap();
    let Some(immutable) = Immutable::new(folder.path(), &left) else { return };
    let (generation, warnings) = commit(folder.path(), Retention::Last(2), 2);
    assert_eq!((generation, warnings.len()), (3, 2), "{warnings:?}");
    for warning in &warnings {
        assert!(warning.contains("could not be removed") && warning.contains("by hand"), "{warning}");
    }
    assert!(!folder.path().join(".writing-0000000007").exists());
    drop(immutable);
    assert_eq!(commit(folder.path(), Retention::Last(2), 3), (4, Vec::new()));
    assert!(!folder.path().join(".writing-0000000002").exists());
}

#[test]
fn a_generation_that_cannot_be_pruned_is_a_warning() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |number: u64| folder.path().join(format!("generation-{number:010}"));
    (1..=2).for_each(|step| assert_eq!(commit(folder.path(), Retention::All, step), (step, Vec::new())));
    // The folder of one cannot be renamed, a file of the other cannot be removed.
    let Some(immutable) = Immutable::new(folder.path(), &[path(1), path(2).join("manifest.json")]) else {
        return;
    };
    let (generation, warnings) = commit(folder.path(), Retention::Last(1), 3);
    assert_eq!((generation, warnings.len()), (3, 1), "{warnings:?}");
    assert!(warnings[0].starts_with("prune"), "{warnings:?}");
    assert!(path(1).exists() && !path(2).exists() && path(3).exists());
    // An explicit `prune` returns the error.
    let error = on(2, |world| {
        Ok(Store::open(world, folder.path())?.retention(Retention::Last(1)).prune().unwrap_err())
    });
    assert_eq!(error.operation(), "prune", "{error}");
    drop(immutable);
    assert_eq!(commit(folder.path(), Retention::Last(1), 4), (4, Vec::new()));
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "the lock and one generation");
}

#[test]
fn unrelated_entries_with_names_of_generations_do_not_prevent_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(commit(folder.path(), Retention::Last(2), 1).0, 1);
    let names = ["generation-42", "generation-0000000002", "generation-x", "generation-18446744073709551615"];
    fs::create_dir(folder.path().join(names[0])).unwrap();
    fs::create_dir(folder.path().join(names[1])).unwrap();
    fs::write(folder.path().join(names[1]).join("molecules.cells"), "unfinished").unwrap();
    fs::write(folder.path().join(names[2]), "a plain file").unwrap();
    fs::create_dir(folder.path().join(names[3])).unwrap();
    fs::write(folder.path().join("generation-0000000004"), "a plain file").unwrap();
    let (generation, warnings) = commit(folder.path(), Retention::Last(2), 2);
    assert_eq!((generation, warnings.len()), (3, 5), "{warnings:?}");
    assert!(
        warnings
            .iter()
            .all(|warning| warning.contains("not a checkpoint, left unchanged; move it to another folder")),
        "{warnings:?}"
    );
    for step in 3..=5 {
        assert_eq!(commit(folder.path(), Retention::Last(2), step).0, step + 2);
    }
    assert!(names.iter().all(|name| folder.path().join(name).exists()), "unrelated entries are not removed");
    on(2, |world| {
        let store = Store::open(world, folder.path())?;
        assert_eq!(store.generations()?, [6, 7]);
        // A newer incomplete generation is skipped and reported.
        if world.rank() == 0 {
            fs::create_dir(folder.path().join("generation-0000000042")).unwrap();
        }
        world.barrier()?;
        let latest = store.latest()?.expect("generation 7");
        assert_eq!((latest.number(), latest.skipped()[0].generation), (7, 42));
        Ok(())
    });
    assert_eq!(commit(folder.path(), Retention::Last(2), 6).0, 8);
}

#[test]
fn only_open_or_create_creates_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("not/there");
    let error = on(2, |world| Ok(Store::open(world, &path).unwrap_err()));
    assert_eq!(error.kind(), aqueduct_file::Kind::NoSuchFile);
    let text = error.to_string();
    assert!(text.contains("not/there") && text.contains("check the path"), "{text}");
    assert!(!folder.path().join("not").exists());
    on(2, |world| Store::open_or_create(world, &path).map(drop));
    on(2, |world| Store::open(world, &path).map(drop));
}

#[test]
fn a_device_is_refused_instead_of_creating_a_folder_of_its_name() {
    for name in ["tunnel:/store", "memfs:store", "uring:store", "throttle=1MB/s:store"] {
        for open in [Store::open, Store::open_or_create] {
            let outcome = Launch::threads(2).run(|world| open(world, name).map(drop));
            let message = outcome.unwrap_err().to_string();
            assert!(message.contains("is the prefix of a device") && message.contains(name), "{message}");
        }
        assert!(!Path::new(name).exists());
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on(1, |world| Store::open_or_create(world, folder.path().join("run:7")).map(drop));
}

#[test]
fn duplicate_names_and_differences_between_ranks_are_errors() {
    type Make = fn(&Comm, &mut Checkpoint<'_>);
    let folder = tempfile::tempdir().unwrap();
    let cases: [(Make, Kind, &str); 4] = [
        (
            |_, c| _ = c.value("time", &1_u8).objects("time", &[1_u8]),
            Kind::BadArgument,
            "two parts are called \"time\"",
        ),
        (
            |world, c| _ = c.value("time", &(world.rank() as f64 + 0.5)),
            Kind::NotSame,
            "part \"time\": its value is 1.5 on this rank and 0.5 on rank 0",
        ),
        (
            |world, c| _ = if world.rank() == 0 { c.value("a", &1_u8) } else { c.value("b", &1_u8) },
            Kind::NotSame,
            "part 1 is \"b\" on this rank and \"a\" on rank 0",
        ),
        (
            |world, c| _ = if world.rank() == 0 { c.value("a", &1_u8) } else { c.value("a", &1_u32) },
            Kind::NotSame,
            "part \"a\": its type is u32 on this rank and u8 on rank 0",
        ),
    ];
    for (make, kind, expected) in cases {
        for later in [false, true] {
            let outcomes = Launch::threads(2).run(|world| {
                let mut checkpoint = Checkpoint::new(1);
                make(world, &mut checkpoint);
                let mut store = Store::open_or_create(world, folder.path())?;
                let outcome =
                    if later { store.start(checkpoint) } else { store.write(&checkpoint).map(drop) };
                Ok::<_, Error>(outcome.and_then(|()| store.wait()).unwrap_err())
            });
            for error in outcomes.unwrap() {
                assert!(error.kind() == kind && error.to_string().contains(expected), "{error}");
            }
        }
    }
}

/// Run by the jobs of the tests below; does nothing otherwise.
#[test]
fn a_job() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    assert_eq!(commit(Path::new(&folder), Retention::Last(2), 1), (1, Vec::new()));
}

/// The system calls of the job, with injected errors; `None` if strace is not available.
fn calls(folder: &Path, options: &[&str]) -> Option<String> {
    let log = folder.join("calls");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-y", "-o"]).arg(&log).args(options).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "a_job", "--nocapture"]).env(FOLDER, folder.join("new/store"));
    let Some(output) = command.output().ok().filter(|_| log.exists()) else {
        eprintln!("skipped: strace is not available");
        return None;
    };
    let text = fs::read_to_string(&log).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

#[test]
fn checkpoints_work_on_a_file_system_without_flock() {
    for error in ["ENOSYS", "EOPNOTSUPP", "ENOLCK"] {
        let folder = tempfile::tempdir().unwrap();
        let inject = format!("inject=flock:error={error}");
        let Some(calls) = calls(folder.path(), &["-e", "trace=flock", "-e", &inject]) else { return };
        assert!(calls.contains("INJECTED"), "{calls}");
        let store = folder.path().join("new/store");
        assert!(store.join("generation-0000000001").exists() && !store.join(".lock-owner").exists());
    }
}

#[test]
fn the_parents_of_a_new_store_are_synced() {
    let folder = tempfile::tempdir().unwrap();
    let Some(calls) = calls(folder.path(), &["-e", "trace=mkdir,fsync"]) else { return };
    let parents = [folder.path().to_owned(), folder.path().join("new")];
    for parent in parents {
        let synced = format!("<{}>)", parent.display());
        assert!(
            calls.lines().any(|line| line.contains("fsync(") && line.contains(&synced)),
            "{synced}: {calls}"
        );
    }
}
