//! What a small file costs, counted: with every rank on a node of its own, a meeting of the ranks is messages.

use aqueduct_comm::{Comm, Launch, Op};
use aqueduct_file::Counters;
use aqueduct_formats::Result;
use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions, NetcdfOpenOptions};

const VARIABLES: usize = 256;
/// Of each variable on each rank.
const VALUES: usize = 512;

/// What a file costs until it is closed: what was sent through the communicator it is opened on, and what the file counts itself.
fn cost(world: &Comm, make: impl FnOnce() -> Result<Counters>) -> Result<(u64, Counters)> {
    let before = world.traffic().messages;
    let counters = make()?;
    Ok((world.traffic().messages - before, counters))
}

/// Many small variables, written as one.
fn netcdf(world: &Comm, name: &str) -> Result<Counters> {
    let mut file = NetcdfCreateOptions::new().replace().without_sync().create(world, name)?;
    let variables = file.define(|file| {
        let x = file.dimension("x", (world.size() * VALUES) as u64)?;
        let name = |at| format!("v{at}");
        (0..VARIABLES).map(|at| file.variable(&name(at), NcType::Double, &[x])).collect::<Result<Vec<_>>>()
    })?;
    let data = vec![world.rank() as f64; VALUES];
    let first = (world.rank() * VALUES) as u64;
    let mut queue = file.queue();
    for variable in variables {
        queue.put(variable, first..first + VALUES as u64, &data);
    }
    queue.run_all()?;
    file.commit()?;
    let counters = file.counters();
    file.close()?;
    Ok(counters)
}

#[cfg(feature = "hdf5")]
fn hdf5(world: &Comm, name: &str) -> Result<Counters> {
    let mut file =
        aqueduct_formats::hdf5::Hdf5CreateOptions::new().replace().without_sync().create(world, name)?;
    let datasets = file.define(|file| {
        let length = (world.size() * VALUES) as u64;
        (0..VARIABLES).map(|at| file.dataset::<f64>(&format!("d{at}"), &[length])).collect::<Result<Vec<_>>>()
    })?;
    let data = vec![world.rank() as f64; VALUES];
    let first = (world.rank() * VALUES) as u64;
    let mut queue = file.queue();
    for dataset in datasets {
        queue.put(dataset, first..first + VALUES as u64, &data);
    }
    queue.run_all()?;
    file.commit()?;
    let counters = file.counters();
    file.close()?;
    Ok(counters)
}

/// What a second file costs, after a first one that has made what it uses: in meetings of the communicator itself, and what it counts.
fn second(ranks_per_node: usize, make: fn(&Comm, &str) -> Result<Counters>) -> Vec<(u64, Counters)> {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("small").display().to_string();
    let twice = |world: &Comm| {
        let (meeting, _) =
            cost(world, || Ok(world.allreduce(Op::Max, &[1u64]).map(|_| Counters::default())?))?;
        let (first, _) = cost(world, || make(world, &name))?;
        let (second, counters) = cost(world, || make(world, &name))?;
        assert!(ranks_per_node > 1 || first > second, "{first} {second}: nothing was left to the second");
        Ok::<_, aqueduct_formats::Error>((second.checked_div(meeting).unwrap_or(0), counters))
    };
    Launch::threads(2).node_ranks(ranks_per_node).run(twice).unwrap()
}

#[test]
fn a_small_netcdf_file_takes_few_meetings_and_calls() {
    for (rank, (beside, own)) in second(1, netcdf).into_iter().enumerate() {
        // Two for what the first file has left; two more for talk with a shared pointer, which between nodes is made anew.
        assert!(beside <= 4, "rank {rank}: {beside} meetings");
        assert!(own.messages <= 16, "rank {rank}: {own:?}");
    }
    let calls: u64 = second(2, netcdf).iter().map(|(_, own)| own.system_calls).sum();
    assert!((2..=4).contains(&calls), "{calls} calls to write a header and 2 MiB");
}

#[cfg(feature = "hdf5")]
#[test]
fn a_small_hdf5_file_takes_few_meetings_and_calls() {
    for (rank, (beside, own)) in second(1, hdf5).into_iter().enumerate() {
        assert!(beside <= 4, "rank {rank}: {beside} meetings");
        assert!(own.messages <= 19, "rank {rank}: {own:?}");
    }
    let calls: u64 = second(2, hdf5).iter().map(|(_, own)| own.system_calls).sum();
    assert!((2..=20).contains(&calls), "{calls} calls to write a description, 2 MiB and 256 marks");
}

/// A file that is dropped on one rank and closed on none leaves nothing that another could stumble over.
#[test]
fn files_come_and_go_in_any_order() {
    let job = |world: &Comm| {
        let create = |name: &str| NetcdfCreateOptions::new().replace().without_sync().create(world, name);
        for round in 0..6 {
            let (one, two) = (create("memfs:order-one.nc")?, create("memfs:order-two.nc")?);
            match round % 3 {
                0 => {
                    one.close()?;
                    two.close()?;
                }
                1 => {
                    two.close()?;
                    one.close()?;
                }
                // Not closed: its talk is not used again on the ranks that still have it.
                _ => {
                    two.close()?;
                    drop(one);
                }
            }
            let refused = NetcdfCreateOptions::new().create(world, "memfs:order-two.nc").unwrap_err();
            assert!(refused.to_string().contains("the option `replace`"), "{refused}");
            assert!(NetcdfOpenOptions::new().open(world, "memfs:order-none.nc").is_err());
            let again = NetcdfOpenOptions::new().open(world, "memfs:order-two.nc")?;
            assert!(again.header().variables.is_empty());
            again.close()?;
        }
        Ok::<_, aqueduct_formats::Error>(())
    };
    for ranks_per_node in [1, 3] {
        Launch::threads(3).node_ranks(ranks_per_node).run(job).unwrap();
    }
}
