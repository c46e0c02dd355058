//! Collective calls and system calls of a small file. With one rank per node a collective call sends messages, which are counted.

use aqueduct_comm::{Comm, Launch, Op};
use aqueduct_file::Counters;
use aqueduct_formats::Result;
use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions, NetcdfOpenOptions};

const VARIABLES: usize = 256;
/// Values of each variable on each rank.
const VALUES: usize = 512;

/// The messages on the communicator until the file is closed, and the counters of the file.
fn cost(world: &Comm, make: impl FnOnce() -> Result<Counters>) -> Result<(u64, Counters)> {
    let before = world.traffic().messages;
    let counters = make()?;
    Ok((world.traffic().messages - before, counters))
}

/// Many small variables, written by one queue.
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

/// The cost of a second file, which reuses resources of the first one: collective calls on the communicator, and the counters of the file.
fn second(ranks_per_node: usize, make: fn(&Comm, &str) -> Result<Counters>) -> Vec<(u64, Counters)> {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("small").display().to_string();
    let twice = |world: &Comm| {
        let (one_call, _) =
            cost(world, || Ok(world.allreduce(Op::Max, &[1u64]).map(|_| Counters::default())?))?;
        let (first, _) = cost(world, || make(world, &name))?;
        let (second, counters) = cost(world, || make(world, &name))?;
        assert!(
            ranks_per_node > 1 || first > second,
            "{first} and {second} messages: the second file reuses nothing"
        );
        Ok::<_, aqueduct_formats::Error>((second.checked_div(one_call).unwrap_or(0), counters))
    };
    Launch::threads(2).node_ranks(ranks_per_node).run(twice).unwrap()
}

#[test]
fn a_small_netcdf_file_needs_few_collective_and_system_calls() {
    for (rank, (collective_calls, own)) in second(1, netcdf).into_iter().enumerate() {
        // Two for reused resources; two more for the shared file pointer, which is created anew between nodes.
        assert!(collective_calls <= 4, "rank {rank}: {collective_calls} collective calls");
        assert!(own.messages <= 16, "rank {rank}: {own:?}");
    }
    let calls: u64 = second(2, netcdf).iter().map(|(_, own)| own.system_calls).sum();
    assert!((2..=4).contains(&calls), "{calls} system calls to write a header and 2 MiB");
}

#[cfg(feature = "hdf5")]
#[test]
fn a_small_hdf5_file_needs_few_collective_and_system_calls() {
    for (rank, (collective_calls, own)) in second(1, hdf5).into_iter().enumerate() {
        assert!(collective_calls <= 4, "rank {rank}: {collective_calls} collective calls");
        assert!(own.messages <= 19, "rank {rank}: {own:?}");
    }
    let calls: u64 = second(2, hdf5).iter().map(|(_, own)| own.system_calls).sum();
    assert!(
        (2..=20).contains(&calls),
        "{calls} system calls to write metadata, 2 MiB and 256 completion attributes"
    );
}

/// Resources of closed files are reused, those of dropped files are not.
#[test]
fn files_are_closed_and_dropped_in_any_order() {
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
                // Not closed: its communicator is not reused.
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
