//! HDF5 files after `kill -9` of thread and MPI programs, and after a power failure in every device operation: the file opens, and the rows that it
//! marks as complete are complete.
#![cfg(feature = "hdf5")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_comm::{Comm, Launch};
use aqueduct_device::layers::CrashDevice;
use aqueduct_device::{MemFs, register_device};
use aqueduct_formats::hdf5::{Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions, Hdf5OpenOptions};
use aqueduct_formats::{Error, Kind, Result};
use aqueduct_testkit::external_tools;
use aqueduct_testkit::launcher::TestLauncher;
use aqueduct_testkit::rng::SeededRng;

const LENGTH: u64 = 300;
/// The file of a job; the number of complete rows after which its last rank is killed, and the delay in microseconds.
const FILE: &str = "AQUEDUCT_TEST_HDF5";
const ROWS: &str = "AQUEDUCT_TEST_KILL_ROWS";
const AFTER: &str = "AQUEDUCT_TEST_KILL_AFTER";

/// Extends datasets with different chunks, filters and groups and adds attributes; reports the number of complete rows.
fn scenario(world: &Comm, name: &str, steps: u64, durable: bool, mut report: impl FnMut(u64)) -> Result<()> {
    let create = Hdf5CreateOptions::new().replace();
    let mut file = if durable { create } else { create.without_sync() }.create(world, name)?;
    // Rows of a chunk with filters are written one by one: the chunk gets a new place each time.
    let packed = Hdf5DatasetOptions::new().chunk(&[3, 64]).extendible();
    let packed = packed.compress(Hdf5Compression::Deflate(1)).checksum();
    let datasets = file.define(|file| {
        Ok([
            file.extendible::<f64>("a", &[0, LENGTH], &[3, 64])?,
            file.extendible::<f64>("deep/b", &[0, LENGTH], &[1, LENGTH])?,
            file.dataset_with::<f64>("deep/packed", &[0, LENGTH], &packed)?,
        ])
    })?;
    report(0);
    let (rank, ranks) = (world.rank() as u64, world.size() as u64);
    let mine = LENGTH * rank / ranks..LENGTH * (rank + 1) / ranks;
    for step in 0..steps {
        file.define(|file| {
            file.attribute("deep", &format!("step{}", step % 5), step)?;
            datasets.iter().try_for_each(|dataset| file.extend(*dataset, step + 1))
        })?;
        let values = [1.0, 2.0, 3.0]
            .map(|factor| mine.clone().map(|at| factor * (step * 1000 + at) as f64).collect::<Vec<f64>>());
        let mut queue = file.queue();
        for (dataset, values) in datasets.iter().zip(&values) {
            queue.put(*dataset, [step..step + 1, mine.clone()], values);
        }
        queue.start_all()?.wait()?;
        file.commit()?;
        report(step + 1);
    }
    file.close()
}

/// The number of complete rows of all datasets; checks their values.
fn found(name: &str) -> Result<u64> {
    let read = |world: &Comm| {
        let check = || {
            let file = Hdf5OpenOptions::new().open(world, name)?;
            if file.datasets().count() < 3 {
                return Err(Error::new(Kind::Damaged, "open", name, "nothing is defined"));
            }
            let mut least = u64::MAX;
            for (path, factor) in [("a", 1.0), ("deep/b", 2.0), ("deep/packed", 3.0)] {
                let dataset = file.dataset(path)?;
                let complete = file.complete(dataset)?.expect("the file has completion attributes");
                let values: Vec<f64> = file.at(dataset, [0..complete, 0..LENGTH]).all().read_vec()?;
                let wanted = (0..complete)
                    .flat_map(|row| (0..LENGTH).map(move |at| factor * (row * 1000 + at) as f64));
                assert!(values.into_iter().eq(wanted), "{name}: torn rows in {path}");
                least = least.min(complete);
            }
            Ok(least)
        };
        Ok::<_, Error>(check())
    };
    Launch::threads(1).run(read).unwrap().remove(0)
}

/// Under a launcher one rank of the job; otherwise all ranks as threads.
#[test]
fn a_job() {
    let Ok(name) = std::env::var(FILE) else { return };
    let number = |variable| std::env::var(variable).ok().and_then(|number| number.parse::<u64>().ok());
    let (rows, after) = (number(ROWS), number(AFTER).unwrap_or(0));
    let kill_later = || {
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(after));
            let myself = rustix::process::getpid();
            rustix::process::kill_process(myself, rustix::process::Signal::KILL)
                .expect("a process may kill itself");
        });
    };
    let run = |world: &Comm| {
        let last = world.rank() + 1 == world.size();
        if last && rows.is_none() {
            kill_later();
        }
        scenario(world, &name, u64::MAX, false, |complete| {
            if world.rank() == 0 {
                println!("complete: {complete}");
            }
            if last && rows == Some(complete) {
                kill_later();
            }
        })
    };
    let _ = aqueduct_comm::run(run);
}

/// Checks the file of a killed job; the number of its rows, if it exists.
fn check_killed(path: &Path, output: &str) -> Option<u64> {
    let name = path.to_str().expect("UTF-8");
    let least = output.lines().filter_map(|line| line.strip_prefix("complete: ")?.parse::<u64>().ok()).max();
    match found(name) {
        Ok(rows) => {
            let least = least.unwrap_or(0);
            // The last output of a job may be lost: there may be more complete rows than it printed.
            assert!(rows >= least, "{name}: {rows} rows are complete, {least} were reported");
            Some(rows)
        }
        Err(error) => {
            assert!(least.is_none(), "{name}: {least:?} rows were reported as complete: {error}");
            None
        }
    }
}

/// h5py reads the files without a repair; they can be opened for writing again.
fn check_with_h5py(paths: &[PathBuf]) {
    let words: Vec<&str> =
        std::iter::once("rows").chain(paths.iter().filter_map(|path| path.to_str())).collect();
    if let Some(printed) = external_tools::run_with("h5py", "hdf5_peer.py", &words) {
        assert_eq!(printed, "rows\n");
    }
    for path in paths {
        let name = path.to_str().expect("UTF-8");
        let rows = found(name).unwrap();
        Launch::threads(2)
            .run(|world| Hdf5OpenOptions::new().writable().open(world, path).map(drop))
            .unwrap();
        assert_eq!(found(name).unwrap(), rows);
    }
}

#[test]
fn killed_thread_programs_leave_complete_rows() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut left = Vec::new();
    let seeded = &mut SeededRng::new(8);
    for round in 0..40 {
        let path = folder.path().join(format!("killed-{round}.h5"));
        // Every fourth job is killed early, the others after some rows.
        let (rows, after) = if round % 4 == 0 {
            (String::new(), seeded.below(20_000))
        } else {
            ((round / 6).to_string(), seeded.below(4_000))
        };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_job", "--nocapture"]).env(FILE, &path);
        command.env(ROWS, rows).env(AFTER, after.to_string()).env("AQUEDUCT_RANKS", "3");
        let output = command.output().unwrap();
        assert!(!output.status.success());
        left.extend(check_killed(&path, &String::from_utf8_lossy(&output.stdout)).map(|_| path));
    }
    assert!(left.len() >= 30, "{} files", left.len());
    check_with_h5py(&left);
}

fn killed_under(name: &str) {
    let Some(launcher) = TestLauncher::find(name, &std::env::current_exe().unwrap()) else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut left = Vec::new();
    for (round, (rows, after)) in
        [("", 3_000), ("0", 500), ("2", 1_500), ("5", 2_500)].into_iter().enumerate()
    {
        let path = folder.path().join(format!("killed-{round}.h5"));
        let variables = [(FILE, path.to_str().unwrap()), (ROWS, rows), (AFTER, &after.to_string())];
        let job = launcher.job(3, &["--exact", "a_job", "--nocapture"], &variables);
        assert!(!job.success, "{}", job.output);
        left.extend(check_killed(&path, &job.output).map(|_| path));
    }
    assert!(left.len() >= 3, "{} files", left.len());
    check_with_h5py(&left);
}

#[test]
fn killed_openmpi_jobs_leave_complete_rows() {
    killed_under("openmpi");
}

#[test]
fn killed_mpich_jobs_leave_complete_rows() {
    killed_under("mpich");
}

#[test]
fn a_power_failure_leaves_complete_rows() {
    let mut counts = [0; 2];
    for seed in 0..2u64 {
        for after in 0.. {
            let crash = CrashDevice::new(Arc::new(MemFs::new())).after(after, seed * 1000 + after);
            let prefix = format!("cut-hdf5-{seed}-{after}");
            register_device(&prefix, Arc::new(crash)).unwrap();
            let name = format!("{prefix}:a.h5");
            let run = |world: &Comm| {
                let mut committed = None;
                let outcome = scenario(world, &name, 4, true, |rows| committed = Some(rows));
                Ok::<_, Error>((committed, outcome.is_ok()))
            };
            let outcomes = Launch::threads(2).run(run).unwrap();
            let done = outcomes.iter().all(|(_, done)| *done);
            let committed = outcomes.iter().filter_map(|(committed, _)| *committed).max();
            match found(&name) {
                Ok(rows) => {
                    let least = committed.unwrap_or(0);
                    assert!(
                        rows == least || rows == least + 1,
                        "{prefix}: {rows} rows, {committed:?} were committed"
                    );
                    counts[0] += 1;
                }
                Err(error) => {
                    assert!(committed.is_none(), "{prefix}: {committed:?} rows were committed: {error}");
                    counts[1] += 1;
                }
            }
            if done {
                break;
            }
            assert!(after < 2000, "the scenario does not end");
        }
    }
    assert!(counts[0] > 40 && counts[1] > 5, "{} found, {} without a file", counts[0], counts[1]);
}
