//! Checkpoints written in the background: generations are listed and read meanwhile, and a failure is reported even if the program
//! never waits for the checkpoint.
//!
//! Under MPI, each rank runs the test `a_job` of this program.

use std::path::Path;
use std::process::Command;

use aqueduct_checkpoint::{
    ArrayBlock, CellGrid, Checkpoint, Error, Molecule, Result, Retention, SpatialRegion, Store,
};
use aqueduct_comm::{Comm, Launch};
use aqueduct_testkit::launcher::TestLauncher;

/// Variables with the folder of the store and the name of the job.
const FOLDER: &str = "AQUEDUCT_TEST_STORE";
const JOB: &str = "AQUEDUCT_TEST_JOB";

const SIDE: u64 = 6_000;

fn molecules(world: &Comm) -> (CellGrid, Vec<Molecule>) {
    let size = world.size() as u64;
    let grid = CellGrid::new([size as f64, 1.0, 1.0], [size, 1, 1]).expect("a box has a volume");
    let mine = (0..100).map(|index| {
        let id = 100 * world.rank() as u64 + index;
        Molecule::new(id, [world.rank() as f64 + index as f64 / 100.0, 0.5, 0.5], [0.0; 3])
    });
    (grid, mine.collect())
}

/// Starts checkpoints on a throttled device, and reads generations while they are written.
fn read_while_writing(world: &Comm, folder: &Path) -> Result<()> {
    let mut store = Store::open_or_create(world, folder)?
        .retention(Retention::Last(1))
        .with_device("throttle=20MB/s:ufs:");
    let (grid, molecules) = molecules(world);
    let (size, rank) = (world.size() as u64, world.rank() as u64);
    let block = ArrayBlock::new([size, SIDE], [rank, 0], [1, SIDE]);
    let mut held = None;
    let mut overlaps = 0;
    for step in 1..=4 {
        let temperature = vec![step as f64; SIDE as usize];
        let mut checkpoint = Checkpoint::new(step);
        checkpoint.value("time", &(step as f64));
        checkpoint.cells("molecules", &grid, &molecules);
        checkpoint.array("temperature", &block, &temperature);
        store.start(checkpoint)?;
        for _ in 0..3 {
            overlaps += usize::from(store.is_busy());
            store.generations()?;
            let latest = store.latest()?;
            assert!(step == 1 || latest.is_some(), "the previous generation exists");
            // Also a generation that is open since the first step, and would have been removed otherwise.
            for generation in held.iter().chain(&latest) {
                check(world, generation)?;
            }
            if held.is_none() {
                held = latest;
            }
        }
    }
    assert!(overlaps > 3, "a checkpoint was being written only {overlaps} times");
    assert!(store.wait()?.is_some());
    Ok(())
}

fn check(world: &Comm, generation: &aqueduct_checkpoint::Generation) -> Result<()> {
    let time = generation.value::<f64>("time")?;
    let found = generation.cells::<Molecule>("molecules", &SpatialRegion::EVERYWHERE)?;
    assert_eq!(found.len(), 100 * world.size());
    let block = ArrayBlock::new([world.size() as u64, SIDE], [0, 10], [world.size() as u64, 5]);
    let expected = vec![time.to_bits(); 5 * world.size()];
    let values = generation.array::<f64>("temperature", &block)?;
    assert_eq!(values.into_iter().map(f64::to_bits).collect::<Vec<_>>(), expected);
    Ok(())
}

/// Starts a checkpoint that fails for lack of space, and ends without waiting for it.
fn leave_without_waiting(world: &Comm, folder: &Path) -> Result<()> {
    let mut store = Store::open_or_create(world, folder)?.with_device("fault=seed=1,nospace=1000:ufs:");
    let (grid, molecules) = molecules(world);
    let mut checkpoint = Checkpoint::new(1);
    checkpoint.cells("molecules", &grid, &molecules);
    store.start(checkpoint)
}

fn run_job(world: &Comm, job: &str, folder: &Path) -> Result<()> {
    match job {
        "read" => read_while_writing(world, folder),
        _ => leave_without_waiting(world, folder),
    }
}

/// Run by the jobs of the tests below; does nothing otherwise.
#[test]
fn a_job() {
    let (Some(folder), Ok(job)) = (std::env::var_os(FOLDER), std::env::var(JOB)) else { return };
    aqueduct_comm::run(|world| run_job(world, &job, Path::new(&folder))).unwrap();
}

#[test]
fn generations_are_read_while_threads_write() {
    for (ranks, node_ranks) in [(1, 1), (3, 3), (3, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let work = |world: &Comm| read_while_writing(world, folder.path());
        Launch::threads(ranks).node_ranks(node_ranks).run(work).unwrap();
    }
}

fn check_reads_while_mpi_ranks_write(mpi: &str) {
    let Some(launcher) = TestLauncher::find(mpi, &std::env::current_exe().unwrap()) else { return };
    for node_ranks in ["3", "1"] {
        let folder = tempfile::tempdir().unwrap();
        let variables =
            [(FOLDER, folder.path().to_str().unwrap()), (JOB, "read"), ("AQUEDUCT_NODE_RANKS", node_ranks)];
        launcher.succeeds(3, &["--exact", "a_job", "--nocapture"], &variables);
    }
}

#[test]
fn generations_are_read_while_openmpi_ranks_write() {
    check_reads_while_mpi_ranks_write("openmpi");
}

#[test]
fn generations_are_read_while_mpich_ranks_write() {
    check_reads_while_mpi_ranks_write("mpich");
}

#[test]
fn a_failure_without_wait_is_the_error_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let error = Launch::threads(2).run(|world| leave_without_waiting(world, folder.path())).unwrap_err();
    assert!(error.to_string().contains("molecules.cells"), "{error}");
    // A failure that `wait` returned is not reported again.
    let outcome = Launch::threads(2).run(|world| {
        let mut store =
            Store::open_or_create(world, folder.path())?.with_device("fault=seed=1,nospace=1000:ufs:");
        let (grid, molecules) = molecules(world);
        let mut checkpoint = Checkpoint::new(1);
        checkpoint.cells("molecules", &grid, &molecules);
        store.start(checkpoint)?;
        assert!(store.wait().is_err());
        Ok::<_, Error>(())
    });
    outcome.unwrap();
}

#[test]
fn a_failure_without_wait_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_job", "--nocapture"]).env("AQUEDUCT_RANKS", "2").env("AQUEDUCT_MPI", "none");
    let output = command.env(FOLDER, folder.path()).env(JOB, "leave").output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(messages.contains("aqueduct: a background checkpoint failed: "), "{messages}");
}

#[test]
fn a_failure_without_wait_ends_an_mpi_job() {
    for mpi in ["openmpi", "mpich"] {
        let Some(launcher) = TestLauncher::find(mpi, &std::env::current_exe().unwrap()) else { continue };
        let folder = tempfile::tempdir().unwrap();
        let variables = [(FOLDER, folder.path().to_str().unwrap()), (JOB, "leave")];
        let job = launcher.job(2, &["--exact", "a_job", "--nocapture"], &variables);
        assert!(!job.success && job.errors.contains("molecules.cells"), "{}", job.errors);
    }
}

/// A checkpoint that waits for other data is not there before; if that data fails on one rank, on none.
#[test]
fn a_checkpoint_counts_only_when_what_it_waits_for_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let run = |world: &Comm| {
        let mut store = Store::open_or_create(world, path)?;
        let checkpoint = |step: u64| {
            let mut checkpoint = Checkpoint::new(step);
            checkpoint.value("time", &(step as f64));
            checkpoint
        };
        let (ready, wait) = std::sync::mpsc::channel::<()>();
        store.start_after(checkpoint(1), move || {
            wait.recv().expect("the program says when");
            Ok(())
        })?;
        assert!(store.is_busy() && store.latest()?.is_none(), "it waits");
        ready.send(()).expect("the checkpoint waits");
        assert_eq!(store.wait()?, Some(1));
        let rank = world.rank();
        store.start_after(checkpoint(2), move || match rank {
            1 => {
                Err(Error::new(aqueduct_checkpoint::Kind::NoSpace, "flush", "the output", "the disk is full"))
            }
            _ => Ok(()),
        })?;
        let failure = store.wait().expect_err("the output of one rank is lost");
        assert!(failure.to_string().contains("the disk is full"), "{failure}");
        assert_eq!(store.latest()?.map(|latest| latest.step()), Some(1));
        Ok::<_, Error>(())
    };
    Launch::threads(3).run(run).unwrap();
}
