//! A run that comes back from a checkpoint, on another number of ranks and with another decomposition, goes on as if nothing had been.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::liquid::{gather, on};
use anyhow::Result;
use aqueduct::checkpoint::mardyn::{Files, Format};
use aqueduct::checkpoint::{Molecule, Region, Store};
use aqueduct::comm::{Comm, Launch};
use aqueduct_md::config::Config;
use aqueduct_md::row::Row;
use aqueduct_md::run::{self, Job};
use aqueduct_md::saver::{Every, Policy};

fn job(folder: &Path, decomposition: &str, steps: u64, every: Every, blocking: bool, restart: bool) -> Job {
    let text = format!(
        "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\nphaseSpaceFile Generator fcc 500 0.7 1.1\n\
         parallelization {decomposition}\nthermostat 0.9 6\noutput ResultWriter 2 {}\n",
        folder.join("run").display()
    );
    let policy = Policy { folder: folder.join("checkpoints"), through: None, every, keep: 2, blocking };
    let config = Config::parse("test", &text).unwrap();
    Job { config, steps, rows: 0, checkpoints: Some(policy), restart }
}

fn go(ranks: usize, job: &Job) -> Row {
    on(ranks, |world| run::run(world, job))
}

/// The step and the molecules of the latest checkpoint.
fn latest(folder: &Path) -> (u64, Vec<Molecule>) {
    on(2, |world| {
        let generation =
            Store::open(world, folder.join("checkpoints"))?.latest()?.expect("there is a checkpoint");
        let here = if world.rank() == 0 { Region::EVERYWHERE } else { Region::of([0.0; 3]) };
        Ok((generation.step(), gather(world, &generation.cells::<Molecule>("molecules", &here)?)?))
    })
}

fn table(folder: &Path) -> String {
    fs::read_to_string(folder.join("run.res")).unwrap()
}

#[test]
fn every_number_of_ranks_goes_on_as_if_nothing_had_been() {
    let whole = tempfile::tempdir().unwrap();
    let last = go(1, &job(whole.path(), "DomainDecomposition", 30, Every::Steps(100), true, false));
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
        // The run is longer than the checkpoint it comes back to: what was written behind it is taken back.
        go(first, &job(folder.path(), before, 17, Every::Steps(10), first % 3 == 0, false));
        let behind = folder.path().join("checkpoints");
        remove_newest(&behind);
        let row = go(second, &job(folder.path(), after, 30, Every::Steps(7), second % 3 == 0, true));
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

/// Leaves the checkpoint before the last one as the latest.
fn remove_newest(checkpoints: &Path) {
    let newest = fs::read_dir(checkpoints).unwrap().map(|entry| entry.unwrap().path());
    let newest = newest.filter(|path| path.is_dir()).max().expect("there is a generation");
    fs::remove_dir_all(newest).unwrap();
}

/// The files that a run writes after its last step.
fn written(
    ranks: usize,
    origin: &str,
    decomposition: &str,
    format: Format,
    prefix: &str,
    steps: u64,
) -> Files {
    let text = format!(
        "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\nphaseSpaceFile {origin}\ncomponents {prefix}.components\n\
         parallelization {decomposition}\noutput {} {steps} {prefix}\n",
        format.writer()
    );
    let config = Config::parse("test", &text).unwrap();
    go(ranks, &Job { config, steps, rows: 0, checkpoints: None, restart: false });
    format.files(&format!("{prefix}-{steps}"))
}

#[test]
fn a_run_goes_on_from_every_format_of_mardyn() {
    let folder = tempfile::tempdir().unwrap();
    let start = "Generator fcc 500 0.7 1.1";
    let name = |name: &str| folder.path().join(name).display().to_string();
    let whole = written(1, start, "DomainDecomposition", Format::OldStyle, &name("whole"), 20);
    let expected = on(1, |world| read(world, Format::OldStyle, &whole));
    for (ranks, format) in
        [(1, Format::OldStyle), (3, Format::Binary), (5, Format::PnetCdf), (7, Format::MpiIo)]
    {
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

fn read(world: &Comm, format: Format, files: &Files) -> Result<Vec<Molecule>> {
    gather(world, &format.open(world, files)?.read_share()?)
}

#[test]
fn ranks_of_several_nodes_go_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    let one = go(1, &job(folder.path(), "DomainDecomposition", 10, Every::Steps(4), true, false));
    for (node_ranks, decomposition) in [(1, "KDDecomposition 3"), (2, "DomainDecomposition")] {
        let folder = tempfile::tempdir().unwrap();
        let job = job(folder.path(), decomposition, 10, Every::Steps(4), false, false);
        let rows = Launch::threads(5).node_ranks(node_ranks).run(|world| run::run(world, &job)).unwrap();
        assert_eq!(rows, [one; 5]);
    }
}

#[test]
fn a_checkpoint_may_be_due_as_often_as_it_pays() {
    let folder = tempfile::tempdir().unwrap();
    // On a machine that fails all the time it pays after every step; on one that never fails, once to learn the cost.
    let often = Every::Auto(Duration::from_nanos(1));
    go(2, &job(folder.path(), "DomainDecomposition", 6, often, true, false));
    let generations = |path: &Path| -> Result<Vec<u64>> {
        Ok(on(1, |world| Ok(Store::open(world, path.join("checkpoints"))?.generations()?)))
    };
    let many = *generations(folder.path()).unwrap().last().unwrap();
    let folder = tempfile::tempdir().unwrap();
    go(
        2,
        &job(folder.path(), "DomainDecomposition", 6, Every::Auto(Duration::from_secs(1 << 40)), true, false),
    );
    let few = *generations(folder.path()).unwrap().last().unwrap();
    assert!(many >= few + 4, "{many} {few}");
}

#[test]
fn another_run_s_checkpoints_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    go(1, &job(folder.path(), "DomainDecomposition", 2, Every::Steps(1), true, false));
    let mut other = job(folder.path(), "DomainDecomposition", 4, Every::Steps(1), true, true);
    let text =
        "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\nphaseSpaceFile Generator fcc 600 0.7 1.1\n";
    other.config = Config::parse("other", text).unwrap();
    let error = on(2, |world| Ok(run::run(world, &other).unwrap_err().to_string()));
    assert!(error.contains("500 molecules") && error.contains("another run"), "{error}");
}

#[test]
fn a_damaged_checkpoint_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let last = go(2, &job(folder.path(), "KDDecomposition", 12, Every::Steps(5), true, false));
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
    assert_eq!(go(3, &job(folder.path(), "DomainDecomposition", 12, Every::Steps(5), true, true)), last);
}
