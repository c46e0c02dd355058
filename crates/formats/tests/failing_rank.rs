//! The device of one rank fails in each of its operations in turn: the same call is an error on all ranks, and no rank hangs.

use std::sync::mpsc;
use std::time::Duration;

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions, NetcdfOpenOptions, Selection};
use aqueduct_formats::{Kind, Result};

const RANKS: usize = 3;
/// After so many runs without an error the last operation of a rank has passed: the library may tolerate single failures.
const BEYOND: usize = 4;

/// Creates a file, extends it, and reads it.
type Scenario = fn(&Comm, &str) -> Result<()>;

fn netcdf(world: &Comm, name: &str) -> Result<()> {
    let rank = world.rank() as u64;
    let mut file = NetcdfCreateOptions::new().replace().create(world, name)?;
    let (time, x) =
        file.define(|file| Ok((file.unlimited("time")?, file.dimension("x", 3 * RANKS as u64)?)))?;
    let field = file.define(|file| file.variable("field", NcType::Double, &[time, x]))?;
    for step in 0..2 {
        file.at(field, [step..step + 1, 3 * rank..3 * rank + 3]).all().write(&[rank as f64; 3])?;
    }
    file.commit()?;
    file.define(|file| file.attribute("note", "n".repeat(2000).as_str()))?;
    file.close()?;
    let file = NetcdfOpenOptions::new().open(world, name)?;
    let all = file.at(file.variable("field")?, Selection::whole()).all().read_vec::<f64>()?;
    assert_eq!((all.len(), all[8]), (6 * RANKS, 2.0));
    file.close()
}

#[cfg(feature = "hdf5")]
fn hdf5(world: &Comm, name: &str) -> Result<()> {
    use aqueduct_formats::hdf5::{Hdf5CreateOptions, Hdf5OpenOptions};
    let rank = world.rank() as u64;
    let mut file = Hdf5CreateOptions::new().replace().create(world, name)?;
    let steps = file.define(|file| file.extendible::<f64>("steps", &[1, 3 * RANKS as u64], &[1, 9]))?;
    for step in 0..2 {
        file.define(|file| file.extend(steps, step + 1))?;
        file.at(steps, [step..step + 1, 3 * rank..3 * rank + 3]).all().write(&[rank as f64; 3])?;
    }
    file.close()?;
    let mut file = Hdf5OpenOptions::new().writable().open(world, name)?;
    file.define(|file| file.attribute("steps", "unit", "J"))?;
    let all = file.at(file.dataset("steps")?, Selection::whole()).all().read_vec::<f64>()?;
    assert_eq!((all.len(), all[8]), (6 * RANKS, 2.0));
    file.close()
}

/// The outcome on each rank; a time-out of a minute is a failure.
fn outcomes(scenario: Scenario, name: String) -> Vec<Result<()>> {
    let (sender, receiver) = mpsc::channel();
    let shown = name.clone();
    std::thread::spawn(move || {
        sender.send(Launch::threads(RANKS).run(|world| Ok::<_, aqueduct_comm::Error>(scenario(world, &name))))
    });
    let outcome =
        receiver.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{shown}: a rank hangs"));
    outcome.unwrap_or_else(|error| panic!("{shown}: {error}"))
}

fn check_failures(scenario: Scenario, format: &str) {
    let mut failures = 0;
    for rank in 0..RANKS {
        let (mut nth, mut whole) = (0, 0);
        while whole < BEYOND {
            nth += 1;
            let name = format!("fault=rank={rank},any=#{nth}:memfs:failing-rank-{rank}-{nth}.{format}");
            let outcomes = outcomes(scenario, name.clone());
            let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
            assert!(failed == 0 || failed == RANKS, "{name}: {outcomes:?}");
            for error in outcomes.into_iter().filter_map(Result::err) {
                assert_ne!(error.kind(), Kind::Communication, "{name}: {error}");
            }
            failures += failed;
            whole = if failed == 0 { whole + 1 } else { 0 };
        }
    }
    assert!(failures > 10 * RANKS, "{failures} failures");
}

#[test]
fn failure_of_one_rank_is_an_error_on_all_ranks_netcdf() {
    check_failures(netcdf, "nc");
}

#[cfg(feature = "hdf5")]
#[test]
fn failure_of_one_rank_is_an_error_on_all_ranks_hdf5() {
    check_failures(hdf5, "h5");
}
