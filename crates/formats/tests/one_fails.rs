//! The device of one rank fails, at each of its operations in turn: all ranks learn of it in the same call, and none waits for it.

use std::sync::mpsc;
use std::time::Duration;

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions, NetcdfOpenOptions, Selection};
use aqueduct_formats::{Kind, Result};

const RANKS: usize = 3;
/// So many runs in a row that do not fail are beyond the last operation of a rank; single failures may be borne.
const BEYOND: usize = 4;

/// Creates a file, goes on with it, and reads it.
type Story = fn(&Comm, &str) -> Result<()>;

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

/// What each rank says; nobody waits for more than a minute.
fn outcomes(story: Story, name: String) -> Vec<Result<()>> {
    let (told, hears) = mpsc::channel();
    let shown = name.clone();
    std::thread::spawn(move || {
        told.send(Launch::threads(RANKS).run(|world| Ok::<_, aqueduct_comm::Error>(story(world, &name))))
    });
    let outcome =
        hears.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{shown}: a rank waits"));
    outcome.unwrap_or_else(|error| panic!("{shown}: {error}"))
}

fn all_learn_of_it(story: Story, format: &str) {
    let mut failures = 0;
    for rank in 0..RANKS {
        let (mut nth, mut whole) = (0, 0);
        while whole < BEYOND {
            nth += 1;
            let name = format!("fault=rank={rank},any=#{nth}:memfs:one-fails-{rank}-{nth}.{format}");
            let outcomes = outcomes(story, name.clone());
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
fn all_ranks_learn_of_it_netcdf() {
    all_learn_of_it(netcdf, "nc");
}

#[cfg(feature = "hdf5")]
#[test]
fn all_ranks_learn_of_it_hdf5() {
    all_learn_of_it(hdf5, "h5");
}
