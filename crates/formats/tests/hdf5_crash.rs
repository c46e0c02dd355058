//! HDF5 files of programs that end at any moment: `kill -9` under threads and MPI, and the power cut in every operation. What is left opens, says which
//! rows are complete, and those are.
#![cfg(feature = "hdf5")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_comm::{Comm, Launch};
use aqueduct_device::layers::CrashDevice;
use aqueduct_device::{MemFs, register_device};
use aqueduct_formats::hdf5::{Hdf5CreateOptions, Hdf5OpenOptions};
use aqueduct_formats::{Error, Kind, Result};
use aqueduct_testkit::external_tools as judge;
use aqueduct_testkit::launcher::TestLauncher;
use aqueduct_testkit::rng::SeededRng;

const LENGTH: u64 = 300;
/// Where a job has its file; how many rows are complete when the time of its last rank begins to run out, and how many microseconds it has then.
const FILE: &str = "AQUEDUCT_TEST_HDF5";
const ROWS: &str = "AQUEDUCT_TEST_KILL_ROWS";
const AFTER: &str = "AQUEDUCT_TEST_KILL_AFTER";

/// Two datasets that grow, in chunks and groups of their own; attributes come in between. Says what is complete.
fn story(world: &Comm, name: &str, steps: u64, durable: bool, mut said: impl FnMut(u64)) -> Result<()> {
    let create = Hdf5CreateOptions::new().replace();
    let mut file = if durable { create } else { create.without_sync() }.create(world, name)?;
    let datasets = file.define(|file| {
        Ok([
            file.extendible::<f64>("a", &[0, LENGTH], &[3, 64])?,
            file.extendible::<f64>("deep/b", &[0, LENGTH], &[1, LENGTH])?,
        ])
    })?;
    said(0);
    let (rank, ranks) = (world.rank() as u64, world.size() as u64);
    let mine = LENGTH * rank / ranks..LENGTH * (rank + 1) / ranks;
    for step in 0..steps {
        file.define(|file| {
            file.attribute("deep", &format!("step{}", step % 5), step)?;
            datasets.iter().try_for_each(|dataset| file.extend(*dataset, step + 1))
        })?;
        let values = [1.0, 2.0]
            .map(|factor| mine.clone().map(|at| factor * (step * 1000 + at) as f64).collect::<Vec<f64>>());
        let mut queue = file.queue();
        for (dataset, values) in datasets.iter().zip(&values) {
            queue.put(*dataset, [step..step + 1, mine.clone()], values);
        }
        queue.start_all()?.wait()?;
        file.commit()?;
        said(step + 1);
    }
    file.close()
}

/// How many rows are complete of both datasets; their values are right.
fn found(name: &str) -> Result<u64> {
    let read = |world: &Comm| {
        let look = || {
            let file = Hdf5OpenOptions::new().open(world, name)?;
            if file.datasets().count() < 2 {
                return Err(Error::new(Kind::Damaged, "open", name, "nothing is defined"));
            }
            let mut least = u64::MAX;
            for (path, factor) in [("a", 1.0), ("deep/b", 2.0)] {
                let dataset = file.dataset(path)?;
                let complete = file.complete(dataset)?.expect("it is said");
                let values: Vec<f64> = file.at(dataset, [0..complete, 0..LENGTH]).all().read_vec()?;
                let wanted = (0..complete)
                    .flat_map(|row| (0..LENGTH).map(move |at| factor * (row * 1000 + at) as f64));
                assert!(values.into_iter().eq(wanted), "{name}: torn rows in {path}");
                least = least.min(complete);
            }
            Ok(least)
        };
        Ok::<_, Error>(look())
    };
    Launch::threads(1).run(read).unwrap().remove(0)
}

/// Started by a launcher: one rank of the job. Started by hand: all of them, as threads.
#[test]
fn a_job() {
    let Ok(name) = std::env::var(FILE) else { return };
    let number = |variable| std::env::var(variable).ok().and_then(|number| number.parse::<u64>().ok());
    let (rows, after) = (number(ROWS), number(AFTER).unwrap_or(0));
    let doom = || {
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(after));
            let myself = rustix::process::getpid();
            rustix::process::kill_process(myself, rustix::process::Signal::KILL).expect("it may");
        });
    };
    let run = |world: &Comm| {
        let last = world.rank() + 1 == world.size();
        if last && rows.is_none() {
            doom();
        }
        story(world, &name, u64::MAX, false, |complete| {
            if world.rank() == 0 {
                println!("complete: {complete}");
            }
            if last && rows == Some(complete) {
                doom();
            }
        })
    };
    let _ = aqueduct_comm::run(run);
}

/// What is left of a killed job; the file, if there is one.
fn judge_killed(path: &Path, said: &str) -> Option<u64> {
    let name = path.to_str().expect("UTF-8");
    let least = said.lines().filter_map(|line| line.strip_prefix("complete: ")?.parse::<u64>().ok()).max();
    match found(name) {
        Ok(rows) => {
            let least = least.unwrap_or(0);
            // The last words of a job may be lost with it: there may be more rows than it was heard to say, and they are right.
            assert!(rows >= least, "{name}: {rows} rows are complete, {least} were said to be");
            Some(rows)
        }
        Err(error) => {
            assert!(least.is_none(), "{name}: {least:?} rows were said to be complete: {error}");
            None
        }
    }
}

/// Others can read what is left just as it is, nobody having put it in order; and it can be written again.
fn h5py_agrees(paths: &[PathBuf]) {
    let words: Vec<&str> =
        std::iter::once("rows").chain(paths.iter().filter_map(|path| path.to_str())).collect();
    if let Some(printed) = judge::run_with("h5py", "hdf5_peer.py", &words) {
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
fn threads_that_are_killed() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut left = Vec::new();
    let seeded = &mut SeededRng::new(8);
    for round in 0..40 {
        let path = folder.path().join(format!("killed-{round}.h5"));
        // Every fourth one from the start, else when there is something to lose.
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
        left.extend(judge_killed(&path, &String::from_utf8_lossy(&output.stdout)).map(|_| path));
    }
    assert!(left.len() >= 30, "{} files", left.len());
    h5py_agrees(&left);
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
        left.extend(judge_killed(&path, &job.output).map(|_| path));
    }
    assert!(left.len() >= 3, "{} files", left.len());
    h5py_agrees(&left);
}

#[test]
fn openmpi_jobs_that_are_killed() {
    killed_under("openmpi");
}

#[test]
fn mpich_jobs_that_are_killed() {
    killed_under("mpich");
}

fn has_journal(name: &str) -> bool {
    let read = |world: &Comm| {
        let file = aqueduct_file::File::open(world, name)?;
        let mut last = [0; 16];
        file.at(file.size()?.saturating_sub(16)).read(&mut last)?;
        Ok::<_, aqueduct_file::Error>(&last == b"aqueduct-journal")
    };
    Launch::threads(1).run(read).unwrap().remove(0)
}

#[test]
fn every_cut_of_the_power_leaves_whole_rows() {
    let mut counts = [0; 2];
    for seed in 0..2u64 {
        for after in 0.. {
            let crash = CrashDevice::new(Arc::new(MemFs::new())).after(after, seed * 1000 + after);
            let prefix = format!("cut-hdf5-{seed}-{after}");
            register_device(&prefix, Arc::new(crash)).unwrap();
            let name = format!("{prefix}:a.h5");
            let run = |world: &Comm| {
                let mut committed = None;
                let outcome = story(world, &name, 4, true, |rows| committed = Some(rows));
                Ok::<_, Error>((committed, outcome.is_ok()))
            };
            let told = Launch::threads(2).run(run).unwrap();
            let done = told.iter().all(|(_, done)| *done);
            let committed = told.iter().filter_map(|(committed, _)| *committed).max();
            match found(&name) {
                Ok(rows) => {
                    let least = committed.unwrap_or(0);
                    assert!(
                        rows == least || rows == least + 1,
                        "{prefix}: {rows} rows, {committed:?} were committed"
                    );
                    assert!(!has_journal(&name), "{prefix}: the library read it as it is");
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
            assert!(after < 2000, "the story has an end");
        }
    }
    assert!(counts[0] > 40 && counts[1] > 5, "{} found, {} times nothing", counts[0], counts[1]);
}
