//! Messages and files of objects under the launchers of Open MPI and MPICH.
//!
//! The launcher starts this program: each rank of the job runs the test `a_job`. A launcher that is not installed is skipped with a message;
//! `AQUEDUCT_REQUIRE_MPI=1` makes that a failure.

#[path = "cases/access_matrix.rs"]
mod access_matrix;
#[path = "cases/comm_ext.rs"]
mod comm_ext;
#[path = "cases/files.rs"]
mod files;

use aqueduct_comm::{Comm, Launch};
use aqueduct_object::Error;
use aqueduct_object::schema::ByteOrder;
use aqueduct_testkit::mpi_job::{self, MpiJob};
use files::{Constant, Numbered, Trivial, VIEWS, Variable, read_all_ways, write_all_ways};

const JOB: MpiJob = MpiJob::new(env!("CARGO_TARGET_TMPDIR"));
/// The file that a job writes for other readers.
const LEFT: &str = "left";
const PER_RANK: usize = 13;

/// Runs the work on the first `count` ranks; the others wait for them.
fn first(world: &Comm, count: usize, work: impl Fn(&Comm) -> Result<(), Error>) -> Result<(), Error> {
    if let Some(part) = world.split((world.rank() < count).then_some(0), 0)? {
        work(&part)?;
    }
    Ok(world.barrier()?)
}

/// Every number of writers, each with another number of readers: all access methods and views.
fn in_files<T: Numbered>(world: &Comm, name: &str, order: ByteOrder) -> Result<(), Error> {
    for writers in 1..=world.size() {
        let readers = world.size() + 1 - writers;
        let total = (PER_RANK * writers) as u64;
        first(world, writers, |part| write_all_ways::<T>(part, name, order).map(drop))?;
        first(world, readers, |part| read_all_ways::<T>(part, name, total))?;
        let kind = (writers + T::SIZE.unwrap_or(0)) % VIEWS;
        first(world, writers, |part| files::write_through_view::<T>(part, name, kind))?;
        first(world, readers, |part| files::read_through_views::<T>(part, name, kind))?;
    }
    Ok(())
}

fn job(world: &Comm, folder: &str) -> Result<(), Error> {
    comm_ext::all(world)?;
    in_files::<Trivial>(world, &format!("ufs:{folder}/trivial"), ByteOrder::Little)?;
    in_files::<Constant>(world, &format!("uring:{folder}/constant"), ByteOrder::Big)?;
    in_files::<Variable>(world, &format!("ufs:{folder}/variable"), ByteOrder::Little)?;
    for method in access_matrix::methods() {
        access_matrix::write_and_read::<Variable>(world, &format!("{folder}/matrix-variable"), method)?;
    }
    write_all_ways::<Variable>(world, &format!("{folder}/{LEFT}"), ByteOrder::Big)?;
    if world.rank() == 0 {
        println!("objects passed on {} ranks of {} nodes", world.size(), world.node_count());
    }
    Ok(())
}

/// Started by a launcher: one rank of the job. Started by hand: all of them, as threads.
#[test]
fn a_job() {
    JOB.run(job);
}

fn under(name: &str) {
    let Some(launcher) = JOB.launcher(name) else { return };
    for (ranks, per_node, nodes) in [(1, "", 1), (2, "", 1), (3, "", 1), (4, "", 1), (4, "2", 2)] {
        let (folder, output) = JOB.launch(&launcher, ranks, &[("AQUEDUCT_NODE_RANKS", per_node)]);
        let path = mpi_job::path(&folder);
        let expected = format!("objects passed on {ranks} ranks of {nodes} nodes");
        assert!(output.contains(&expected), "{output}");
        // Thread ranks read what MPI processes wrote.
        let (left, total) = (format!("{path}/{LEFT}"), (PER_RANK * ranks) as u64);
        Launch::threads(3).run(|world| read_all_ways::<Variable>(world, &left, total)).unwrap();
    }
}

#[test]
fn openmpi() {
    under("openmpi");
}

#[test]
fn mpich() {
    under("mpich");
}
