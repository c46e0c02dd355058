//! Restart from a checkpoint on another number of ranks and with another decomposition: the same results as an undisturbed run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::liquid::{gather, on};
use anyhow::Result;
use aqueduct::checkpoint::{CellGrid, Checkpoint, Molecule, SpatialRegion, Store};
use aqueduct::comm::{Comm, Launch};
use aqueduct::mardyn::{PhaseSpaceFiles, PhaseSpaceFormat};
use aqueduct_md::input::config::{Config, OutputKind, OutputLine};
use aqueduct_md::output::result_row::ResultRow;
use aqueduct_md::restart::checkpointer::{CheckpointInterval, CheckpointPolicy, StartMode};
use aqueduct_md::run::{self, RunSettings};

fn job(
    folder: &Path,
    decomposition: &str,
    steps: u64,
    every: CheckpointInterval,
    blocking: bool,
    restart: bool,
) -> RunSettings {
    let text = format!(
        "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\nphaseSpaceFile Generator fcc 500 0.7 1.1\n\
         parallelization {decomposition}\nthermostat 0.9 6\noutput ResultWriter 2 {}\n",
        folder.join("run").display()
    );
    let policy =
        CheckpointPolicy { folder: folder.join("checkpoints"), through: None, every, keep: 2, blocking };
    let config = Config::parse("test", &text).unwrap();
    let start = if restart { StartMode::Latest } else { StartMode::New };
    RunSettings { checkpoints: Some(policy), start, ..RunSettings::new(config, steps) }
}

fn go(ranks: usize, job: &RunSettings) -> ResultRow {
    on(ranks, |world| Ok(run::run(world, job)?.row))
}

/// The step and the molecules of the latest checkpoint.
fn latest(folder: &Path) -> (u64, Vec<Molecule>) {
    on(2, |world| {
        let generation = Store::open(world, folder.join("checkpoints"))?.latest()?.expect("a checkpoint");
        let here = if world.rank() == 0 { SpatialRegion::EVERYWHERE } else { SpatialRegion::of([0.0; 3]) };
        Ok((generation.step(), gather(world, &generation.cells::<Molecule>("molecules", &here)?)?))
    })
}

fn table(folder: &Path) -> String {
    fs::read_to_string(folder.join("run.res")).unwrap()
}

#[test]
fn a_restart_on_any_number_of_ranks_continues_the_same_trajectory() {
    let whole = tempfile::tempdir().unwrap();
    let last =
        go(1, &job(whole.path(), "DomainDecomposition", 30, CheckpointInterval::Steps(100), true, false));
    let (step, molecules) = latest(whole.path());
    assert_eq!((step, molecules.len(), last.step), (30, 500, 30));
    for first in 1..=7 {
        let second = 8 - first;
        let (before, after) = if first % 2 == 0 {
            ("KDDecomposition 4", "DomainDecomposition")
        } else {
            ("DomainDecomposition", "KDDecomposition 5")
        };
        let folder = tempfile::tempdir().unwrap();
        // The run has written output after the checkpoint of the restart, which is removed.
        go(first, &job(folder.path(), before, 17, CheckpointInterval::Steps(10), first % 3 == 0, false));
        let behind = folder.path().join("checkpoints");
        remove_newest(&behind);
        let row =
            go(second, &job(folder.path(), after, 30, CheckpointInterval::Steps(7), second % 3 == 0, true));
        assert_eq!(row, last, "{first} to {second} ranks");
        assert_eq!(table(folder.path()), table(whole.path()));
        let (step, back) = latest(folder.path());
        assert_eq!(step, 30);
        assert!(
            bytemuck::cast_slice::<_, u8>(&back) == bytemuck::cast_slice::<_, u8>(&molecules),
            "{first} to {second}"
        );
    }
}

/// Removes the latest checkpoint.
fn remove_newest(checkpoints: &Path) {
    let newest = fs::read_dir(checkpoints).unwrap().map(|entry| entry.unwrap().path());
    let newest = newest.filter(|path| path.is_dir()).max().expect("a generation");
    fs::remove_dir_all(newest).unwrap();
}

/// Runs to the last step, and returns the phase space that it writes there.
fn written(
    ranks: usize,
    origin: &str,
    decomposition: &str,
    format: PhaseSpaceFormat,
    prefix: &str,
    steps: u64,
) -> PhaseSpaceFiles {
    let text = format!(
        "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\nphaseSpaceFile {origin}\ncomponents {prefix}.components\n\
         parallelization {decomposition}\noutput {} {steps} {prefix}\n",
        format.writer()
    );
    let config = Config::parse("test", &text).unwrap();
    go(ranks, &RunSettings::new(config, steps));
    format.files(&format!("{prefix}-{steps}"))
}

#[test]
fn a_run_continues_from_every_format_of_mardyn() {
    let folder = tempfile::tempdir().unwrap();
    let start = "Generator fcc 500 0.7 1.1";
    let name = |name: &str| folder.path().join(name).display().to_string();
    let whole = written(1, start, "DomainDecomposition", PhaseSpaceFormat::OldStyle, &name("whole"), 20);
    let expected = on(1, |world| read(world, PhaseSpaceFormat::OldStyle, &whole));
    for (ranks, format) in [
        (1, PhaseSpaceFormat::OldStyle),
        (3, PhaseSpaceFormat::Binary),
        (5, PhaseSpaceFormat::PnetCdf),
        (7, PhaseSpaceFormat::MpiIo),
    ] {
        let half = name(format.name());
        let files = written(ranks, start, "KDDecomposition 3", format, &half, 8);
        // XML headers have no components.
        fs::copy(&whole.header, format!("{half}2.components")).unwrap();
        let origin = format!("{} {} {}", format.name(), files.header, files.data);
        let files = written(8 - ranks, &origin, "DomainDecomposition", format, &format!("{half}2"), 12);
        let found = on(2, |world| read(world, format, &files));
        assert!(
            bytemuck::cast_slice::<_, u8>(&found) == bytemuck::cast_slice::<_, u8>(&expected),
            "{format:?}"
        );
    }
}

fn read(world: &Comm, format: PhaseSpaceFormat, files: &PhaseSpaceFiles) -> Result<Vec<Molecule>> {
    gather(world, &format.open(world, files)?.read_share()?)
}

#[test]
fn trajectories_are_the_same_on_several_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let one =
        go(1, &job(folder.path(), "DomainDecomposition", 10, CheckpointInterval::Steps(4), true, false));
    for (node_ranks, decomposition) in [(1, "KDDecomposition 3"), (2, "DomainDecomposition")] {
        let folder = tempfile::tempdir().unwrap();
        let job = job(folder.path(), decomposition, 10, CheckpointInterval::Steps(4), false, false);
        let ends = Launch::threads(5).node_ranks(node_ranks).run(|world| run::run(world, &job)).unwrap();
        assert!(ends.iter().all(|end| end.row == one && end.stopped.is_none()));
    }
}

#[test]
fn the_automatic_interval_depends_on_the_time_between_failures() {
    let folder = tempfile::tempdir().unwrap();
    // On a machine that fails very often a checkpoint is due after every step; on one that never fails, once to measure the cost.
    let often = CheckpointInterval::Auto(Duration::from_nanos(1));
    go(2, &job(folder.path(), "DomainDecomposition", 6, often, true, false));
    let generations = |path: &Path| -> Result<Vec<u64>> {
        Ok(on(1, |world| Ok(Store::open(world, path.join("checkpoints"))?.generations()?)))
    };
    let many = *generations(folder.path()).unwrap().last().unwrap();
    let folder = tempfile::tempdir().unwrap();
    go(
        2,
        &job(
            folder.path(),
            "DomainDecomposition",
            6,
            CheckpointInterval::Auto(Duration::from_secs(1 << 40)),
            true,
            false,
        ),
    );
    let few = *generations(folder.path()).unwrap().last().unwrap();
    assert!(many >= few + 4, "{many} {few}");
}

#[test]
fn checkpoints_of_another_run_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    go(1, &job(folder.path(), "DomainDecomposition", 2, CheckpointInterval::Steps(1), true, false));
    let mut other = job(folder.path(), "DomainDecomposition", 4, CheckpointInterval::Steps(1), true, true);
    let text =
        "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\nphaseSpaceFile Generator fcc 600 0.7 1.1\n";
    other.config = Config::parse("other", text).unwrap();
    let error = on(2, |world| Ok(run::run(world, &other).unwrap_err().to_string()));
    assert!(error.contains("500 molecules") && error.contains("another run"), "{error}");
}

#[test]
fn a_damaged_checkpoint_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let last = go(2, &job(folder.path(), "KDDecomposition", 12, CheckpointInterval::Steps(5), true, false));
    let checkpoints = folder.path().join("checkpoints");
    let newest = fs::read_dir(&checkpoints).unwrap().map(|entry| entry.unwrap().path());
    let newest = newest.filter(|path| path.is_dir()).max().unwrap();
    let cells = fs::read_dir(&newest).unwrap().map(|entry| entry.unwrap().path());
    let cells = cells.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&cells).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&cells, bytes).unwrap();
    assert_eq!(latest(folder.path()).0, 10);
    assert_eq!(
        go(3, &job(folder.path(), "DomainDecomposition", 12, CheckpointInterval::Steps(5), true, true)),
        last
    );
}

/// Runs with an output of each kind; returns all files with their bytes.
fn outputs(folder: &Path, ranks: usize, steps: u64, start: StartMode) -> Vec<(String, Vec<u8>)> {
    let h5md = if cfg!(feature = "hdf5") { "H5MD" } else { "XyzWriter" };
    let writers = ["ResultWriter", "VISWriter", "PovWriter", h5md, "MPI-IOCheckpointWriter"];
    let lines = writers.map(|writer| format!("output {writer} 2 {}\n", folder.join(writer).display()));
    let text = format!(
        "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\nphaseSpaceFile Generator fcc 500 0.7 1.1\n{}",
        lines.concat()
    );
    let (checkpoints, every) = (folder.join("checkpoints"), CheckpointInterval::Steps(5));
    let policy =
        CheckpointPolicy { folder: checkpoints, through: None, every, keep: 4, blocking: ranks == 2 };
    let config = Config::parse("test", &text).unwrap();
    go(ranks, &RunSettings { checkpoints: Some(policy), start, ..RunSettings::new(config, steps) });
    let files =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut files: Vec<(String, Vec<u8>)> = files
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// The steps of an H5MD file, since its bytes depend on how often it was opened.
#[cfg(feature = "hdf5")]
fn h5md_steps(folder: &Path) -> (Vec<i64>, Vec<u64>) {
    use aqueduct::formats::hdf5::Hdf5OpenOptions;
    on(1, |world| {
        let file = Hdf5OpenOptions::new().open(world, folder.join("H5MD-0.h5md"))?;
        let [step, value] = ["step", "value"].map(|part| format!("/particles/trajectory/position/{part}"));
        let rows = file.describe(file.dataset(&step)?)?.shape[0];
        let steps: Vec<i64> = file.at(file.dataset(&step)?, 0..rows).all().read_vec()?;
        let places: Vec<f64> = file.at(file.dataset(&value)?, [0..rows, 0..500, 0..3]).all().read_vec()?;
        file.close()?;
        Ok((steps, places.into_iter().map(f64::to_bits).collect()))
    })
}

/// A checkpoint without marks has no time, so no files are removed.
#[test]
fn without_marks_no_file_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = job(folder.path(), "DomainDecomposition", 10, CheckpointInterval::Steps(5), true, false);
    go(1, &job);
    on(1, |world| {
        let mut store = Store::open(world, folder.path().join("checkpoints"))?;
        let latest = store.latest()?.expect("a checkpoint");
        let (time, length) = (latest.value::<f64>("time")?, latest.value::<[f64; 3]>("length")?);
        let count = latest.value::<u64>("count")?;
        let molecules = latest.cells::<Molecule>("molecules", &SpatialRegion::EVERYWHERE)?;
        let grid = CellGrid::new(length, [1; 3]).expect("the box has a volume");
        let mut checkpoint = Checkpoint::new(latest.step());
        checkpoint.value("time", &time).value("length", &length).value("count", &count);
        checkpoint.cells("molecules", &grid, &molecules);
        store.write(&checkpoint)?;
        Ok(())
    });
    let kept = folder.path().join("run-99.xyz");
    fs::write(&kept, "of another run").unwrap();
    let prefix = folder.path().join("run").display().to_string();
    job.config.outputs = vec![OutputLine { kind: OutputKind::Xyz, every: 4, prefix }];
    (job.start, job.steps) = (StartMode::Latest, 12);
    go(2, &job);
    assert_eq!(fs::read(&kept).unwrap(), b"of another run");
    assert!(folder.path().join("run-12.xyz").exists());
}

/// A run that was killed while it truncated a trajectory has left an incomplete copy.
#[cfg(feature = "hdf5")]
#[test]
fn an_incomplete_copy_of_a_killed_run_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    outputs(folder.path(), 2, 17, StartMode::New);
    remove_newest(&folder.path().join("checkpoints"));
    let copy = folder.path().join("H5MD-0.h5md.new");
    fs::copy(folder.path().join("H5MD-0.h5md"), &copy).unwrap();
    fs::File::options().write(true).open(&copy).unwrap().set_len(3000).unwrap();
    outputs(folder.path(), 2, 20, StartMode::Latest);
    assert!(!copy.exists());
    assert_eq!(h5md_steps(folder.path()).0, (0..=10).map(|at| 2 * at).collect::<Vec<i64>>());
}

#[test]
fn outputs_are_truncated_to_the_checkpoint_and_continued() {
    let whole = tempfile::tempdir().unwrap();
    let expected = outputs(whole.path(), 1, 20, StartMode::New);
    assert!(expected.iter().any(|(name, _)| name == "PovWriter-20.pov"), "{:?}", expected.len());
    for (first, second) in [(2, 3), (3, 2)] {
        let folder = tempfile::tempdir().unwrap();
        outputs(folder.path(), first, 17, StartMode::New);
        // Like a kill after step 17: the latest checkpoint is that of step 15, then that of step 10.
        remove_newest(&folder.path().join("checkpoints"));
        if second == 3 {
            remove_newest(&folder.path().join("checkpoints"));
        }
        let back = outputs(folder.path(), second, 12, StartMode::LatestIfAny);
        let later = |name: &str| ["-14.", "-16."].iter().any(|step| name.contains(step));
        if second == 3 {
            assert!(!back.iter().any(|(name, _)| later(name)), "files of later steps are removed");
        }
        let found = outputs(folder.path(), first, 20, StartMode::Latest);
        let names =
            |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&found), names(&expected));
        // The cells of files depend on the number of ranks.
        let comparable = |name: &str| !name.contains(".h5md") && !name.contains(".restart");
        for ((name, found), (_, expected)) in
            found.iter().zip(&expected).filter(|((name, _), _)| comparable(name))
        {
            assert!(found == expected, "{name} from {first} and {second} ranks");
        }
        #[cfg(feature = "hdf5")]
        assert!(h5md_steps(folder.path()) == h5md_steps(whole.path()));
    }
}

#[test]
fn outputs_that_were_truncated_since_the_checkpoint_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    outputs(folder.path(), 2, 10, StartMode::New);
    let back = |steps| {
        let text = format!(
            "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\nphaseSpaceFile Generator fcc 500 0.7 1.1\n\
             output ResultWriter 2 {0}/ResultWriter\noutput VISWriter 2 {0}/VISWriter\n",
            folder.path().display()
        );
        let checkpoints = folder.path().join("checkpoints");
        let policy = CheckpointPolicy {
            folder: checkpoints,
            through: None,
            every: CheckpointInterval::Steps(5),
            keep: 2,
            blocking: true,
        };
        let config = Config::parse("test", &text).unwrap();
        let job = RunSettings {
            checkpoints: Some(policy),
            start: StartMode::Latest,
            ..RunSettings::new(config, steps)
        };
        Launch::threads(2).run(|world| run::run(world, &job).map_err(|error| format!("{error:#}")))
    };
    for name in ["ResultWriter.res", "VISWriter.vis"] {
        let path = folder.path().join(name);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
        let error = back(20).unwrap_err().to_string();
        let error = format!("{error} {:?}", back(20).unwrap_err());
        assert!(error.contains(name) && error.contains("restore the file, or use --start-over"), "{error}");
        fs::write(&path, &bytes).unwrap();
    }
    back(20).unwrap();
}
