//! Simulated power failures in every device operation while records are written: a reader finds the complete records of the last commit, or of
//! the one in progress.

use std::sync::Arc;

use aqueduct_comm::{Comm, Launch};
use aqueduct_device::layers::CrashDevice;
use aqueduct_device::{Device, MemFs, register_device};
use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions, NetcdfFile, NetcdfOpenOptions, Selection};
use aqueduct_formats::{Error, Kind, Result};

/// A record spans several sectors.
const LENGTH: u64 = 300;

fn value(record: u64, at: u64) -> f64 {
    (record * 1000 + at) as f64
}

/// The number of committed records, and that of the commit in progress.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    committed: Option<u64>,
    next: Option<u64>,
}

/// Writes some records in each of several commits, until the power fails.
fn scenario(world: &Comm, name: &str, progress: &mut Progress) -> Result<()> {
    let mut dataset = NetcdfCreateOptions::new().create(world, name)?;
    let variable = dataset.define(|file| {
        let (time, x) = (file.unlimited("time")?, file.dimension("x", LENGTH)?);
        file.variable("v", NcType::Double, &[time, x])
    })?;
    progress.next = Some(0);
    dataset.commit()?;
    *progress = Progress { committed: Some(0), next: None };
    let share = LENGTH / world.size() as u64;
    let mine = share * world.rank() as u64..share * (world.rank() as u64 + 1);
    let mut records = 0;
    for more in [1, 2, 3, 1] {
        for record in records..records + more {
            let values: Vec<f64> = mine.clone().map(|at| value(record, at)).collect();
            dataset.at(variable, [record..record + 1, mine.clone()]).all().write(&values)?;
        }
        records += more;
        progress.next = Some(records);
        dataset.commit()?;
        *progress = Progress { committed: Some(records), next: None };
    }
    dataset.close()
}

/// The number of records that a reader finds; checks their values.
fn found(name: &str) -> Result<u64> {
    let read = |world: &Comm| {
        let check = || {
            let dataset = NetcdfOpenOptions::new().open(world, name)?;
            if dataset.header().variables.is_empty() {
                return Err(Error::new(Kind::Damaged, "open", name, "nothing is defined"));
            }
            let variable = dataset.variable("v")?;
            let values: Vec<f64> = dataset.at(variable, Selection::whole()).all().read_vec()?;
            let wanted =
                (0..dataset.records()).flat_map(|record| (0..LENGTH).map(move |at| value(record, at)));
            assert!(values.into_iter().eq(wanted), "torn records");
            Ok(dataset.records())
        };
        Ok::<_, Error>(check())
    };
    Launch::threads(1).run(read).unwrap().remove(0)
}

/// Power failures in every operation: the number of runs with records, and of runs without a file.
fn cut_everywhere(ranks: usize) -> [usize; 2] {
    let mut counts = [0; 2];
    for seed in 0..6u64 {
        for after in 0.. {
            let crash = CrashDevice::new(Arc::new(MemFs::new())).after(after, seed * 1000 + after);
            let prefix = format!("cut-netcdf-{ranks}-{seed}-{after}");
            register_device(&prefix, Arc::new(crash)).unwrap();
            let name = format!("{prefix}:a.nc");
            let run = |world: &Comm| {
                let mut progress = Progress::default();
                let outcome = scenario(world, &name, &mut progress);
                Ok::<_, Error>((progress, outcome.is_ok()))
            };
            let outcomes = Launch::threads(ranks).run(run).unwrap();
            let done = outcomes.iter().all(|(_, done)| *done);
            // Any rank may have returned from the commit.
            let committed = outcomes.iter().filter_map(|(progress, _)| progress.committed).max();
            let next = outcomes.iter().filter_map(|(progress, _)| progress.next).max();
            match found(&name) {
                Ok(records) => {
                    let known =
                        [committed, next].contains(&Some(records)) || (committed.is_none() && records == 0);
                    assert!(
                        known,
                        "{prefix}: {records} records, {committed:?} were committed, {next:?} in progress"
                    );
                    counts[0] += 1;
                }
                Err(error) => {
                    assert!(committed.is_none(), "{prefix}: {committed:?} records were committed: {error}");
                    counts[1] += 1;
                }
            }
            if done {
                break;
            }
            assert!(after < 1000, "the scenario does not end");
        }
    }
    counts
}

#[test]
fn a_power_failure_leaves_complete_records() {
    let [found, nothing] = cut_everywhere(1);
    assert!(found > 40 && nothing > 5, "{found} found, {nothing} without a file");
}

#[test]
fn a_power_failure_of_two_ranks_leaves_complete_records() {
    let [found, nothing] = cut_everywhere(2);
    assert!(found > 40 && nothing > 5, "{found} found, {nothing} without a file");
}

/// Opening for writing repairs the file, also for other readers.
fn check_repair(name: &str) {
    let open = |world: &Comm| NetcdfOpenOptions::new().writable().open(world, name)?.close();
    Launch::threads(2).run(open).unwrap();
    let begins = |world: &Comm| {
        let mut magic = [0u8; 4];
        aqueduct_file::File::open(world, name)?.at(0).read(&mut magic)?;
        Ok::<_, Error>(magic)
    };
    assert_eq!(Launch::threads(1).run(begins).unwrap(), [*b"CDF\x05"]);
    assert_eq!(found(name).unwrap(), 7);
}

/// Power failures in every operation of a change to a file of seven records: the number of runs in which a reader detected it, and of those in
/// which it found all records.
fn cut_changes(title: &str, change: impl Fn(&mut NetcdfFile) -> Result<()> + Sync) -> [usize; 2] {
    let mut counts = [0; 2];
    for after in 0.. {
        // The file is created before the power can fail.
        let inner = Arc::new(MemFs::new());
        let (before, cut) = (format!("{title}-before-{after}"), format!("{title}-cut-{after}"));
        register_device(&before, Arc::clone(&inner) as Arc<dyn Device>).unwrap();
        let name = format!("{before}:a.nc");
        Launch::threads(2).run(|world| scenario(world, &name, &mut Progress::default())).unwrap();
        register_device(&cut, Arc::new(CrashDevice::new(inner).after(after, after))).unwrap();
        let name = format!("{cut}:a.nc");
        let job = |world: &Comm| {
            let run = || {
                let mut dataset = NetcdfOpenOptions::new().writable().open(world, &name)?;
                change(&mut dataset)?;
                dataset.close()
            };
            Ok::<_, Error>(run().is_ok())
        };
        let done = Launch::threads(2).run(job).unwrap().into_iter().all(|done| done);
        match found(&name) {
            Ok(records) => {
                assert_eq!(records, 7);
                // If the power has not failed yet, it would fail during the repair.
                if !done {
                    check_repair(&name);
                }
                counts[1] += 1;
            }
            Err(error) => {
                assert!(!done && error.kind() == Kind::Damaged, "{error}");
                counts[0] += 1;
            }
        }
        if done {
            break;
        }
        assert!(after < 1000, "the scenario does not end");
    }
    counts
}

#[test]
fn a_power_failure_during_a_move_is_detected_or_harmless() {
    let [detected, complete] = cut_changes("move", |dataset| {
        let long = "long ".repeat(40_000);
        let ((), moved) = dataset.rearrange(|file| file.attribute("long", long))?;
        assert_eq!(moved, 7 * LENGTH * 8);
        Ok(())
    });
    assert!(detected > 2 && complete > 0, "{detected} detected, {complete} complete");
}

#[test]
fn a_power_failure_during_a_definition_is_harmless() {
    let [detected, complete] = cut_changes("define", |dataset| {
        for number in 0..5 {
            dataset.define(|file| file.attribute(&format!("a{number}"), "text ".repeat(200)))?;
        }
        Ok(())
    });
    assert!(detected == 0 && complete > 20, "{detected} detected, {complete} complete");
}

/// A text that spans several sectors.
fn note(number: u64) -> String {
    format!("note {number} ").repeat(150)
}

/// Power failures in every operation of a scenario that makes commits, numbered from 1. Checks what was committed; the number of checks.
fn cut_scenario(
    title: &str,
    scenario: impl Fn(&Comm, &str, &mut u64) -> Result<()> + Sync,
    check: impl Fn(&NetcdfFile, u64) -> Result<()> + Sync,
) -> usize {
    let mut checks = 0;
    for seed in 0..2u64 {
        for after in 0.. {
            let prefix = format!("{title}-{seed}-{after}");
            let crash = CrashDevice::new(Arc::new(MemFs::new())).after(after, seed * 1000 + after);
            register_device(&prefix, Arc::new(crash)).unwrap();
            let name = format!("{prefix}:a.nc");
            let run = |world: &Comm| {
                let mut committed = 0;
                let done = scenario(world, &name, &mut committed).is_ok();
                Ok::<_, Error>((committed, done))
            };
            let outcomes = Launch::threads(2).run(run).unwrap();
            let committed = outcomes.iter().map(|(committed, _)| *committed).max().unwrap_or(0);
            if committed > 0 {
                let open_and_check =
                    |world: &Comm| check(&NetcdfOpenOptions::new().open(world, &name)?, committed);
                let checked = Launch::threads(1).run(open_and_check);
                checked.unwrap_or_else(|error| panic!("{prefix}: {committed} were committed: {error}"));
                checks += 1;
            }
            if outcomes.iter().all(|(_, done)| *done) {
                break;
            }
            assert!(after < 1000, "the scenario does not end");
        }
    }
    checks
}

fn has_notes(dataset: &NetcdfFile, count: u64) {
    for number in 1..=count {
        let attribute = dataset.header().attributes.iter().find(|one| one.name == format!("n{number}"));
        let found = attribute.map(|attribute| attribute.values.clone());
        assert_eq!(found, Some(note(number).into()), "note {number}");
    }
}

#[test]
fn a_power_failure_between_definitions_keeps_committed_ones() {
    let scenario = |world: &Comm, name: &str, committed: &mut u64| {
        let mut dataset = NetcdfCreateOptions::new().create(world, name)?;
        for number in 1..5 {
            dataset.define(|file| file.attribute(&format!("n{number}"), note(number)))?;
            dataset.commit()?;
            *committed = number;
        }
        dataset.close()
    };
    let check = |dataset: &NetcdfFile, committed: u64| {
        has_notes(dataset, committed);
        Ok(())
    };
    let checks = cut_scenario("cut-notes", scenario, check);
    assert!(checks > 20, "{checks} runs with a commit");
}

#[test]
fn a_power_failure_between_definitions_and_independent_writes_keeps_committed_data() {
    let share = |world: &Comm| LENGTH / 2 * world.rank() as u64..LENGTH / 2 * (world.rank() as u64 + 1);
    let scenario = |world: &Comm, name: &str, committed: &mut u64| {
        let mut dataset = NetcdfCreateOptions::new().create(world, name)?;
        let x = dataset.define(|file| file.dimension("x", LENGTH))?;
        for number in 1..4 {
            // Defines after data was written and before the first header is written.
            let variable =
                dataset.define(|file| file.variable(&format!("v{number}"), NcType::Double, &[x]))?;
            let mine: Vec<f64> = share(world).map(|at| value(number, at)).collect();
            dataset.at(variable, share(world)).write(&mine)?;
            dataset.define(|file| file.attribute(&format!("n{number}"), note(number)))?;
            dataset.commit()?;
            *committed = number;
        }
        dataset.close()
    };
    let check = |dataset: &NetcdfFile, committed: u64| {
        has_notes(dataset, committed);
        for number in 1..=committed {
            let variable = dataset.variable(&format!("v{number}"))?;
            let values: Vec<f64> = dataset.at(variable, Selection::whole()).read_vec()?;
            assert!(values.into_iter().eq((0..LENGTH).map(|at| value(number, at))), "variable {number}");
        }
        Ok(())
    };
    let checks = cut_scenario("cut-independent", scenario, check);
    assert!(checks > 20, "{checks} runs with a commit");
}
