//! The same program under real launchers.

use std::path::Path;

use aqueduct_comm::Comm;
use aqueduct_stream::{Error, OutputMode};
use aqueduct_testkit::mpi_job::MpiJob;

use crate::fixed_steps::{check_hdf5, check_netcdf, whole_run};
use crate::program::{self, Decomposition, FileKind, Run};

const JOB: MpiJob = MpiJob::new(env!("CARGO_TARGET_TMPDIR"));

fn decomposition(world: &Comm) -> Decomposition {
    if world.size() == 4 { Decomposition(2, 2) } else { Decomposition(world.size(), 1) }
}

fn job(world: &Comm, folder: &str) -> Result<(), Error> {
    for (mode, kind, name) in [
        (OutputMode::Thread, FileKind::Hdf5, "thread.h5"),
        (OutputMode::Leaders, FileKind::Hdf5, "leaders.h5"),
        (OutputMode::Thread, FileKind::Netcdf, "thread.nc"),
    ] {
        let name = format!("ufs:{folder}/{name}");
        let whole = whole_run(&name, kind, mode, decomposition(world));
        let state = program::run(world, &Run { checkpoint: Some(7), ..whole.clone() })?
            .into_iter()
            .collect::<Vec<_>>();
        // A finished file is continued too: the rows from step 7 on are taken back and written again.
        program::run_resumed(world, &Run { states: None, ..whole }, &state)?;
    }
    Ok(())
}

fn check(folder: &Path) {
    check_hdf5(&format!("ufs:{}/thread.h5", folder.display()));
    check_hdf5(&format!("ufs:{}/leaders.h5", folder.display()));
    check_netcdf(&format!("ufs:{}/thread.nc", folder.display()));
}

/// The job itself, which a test at the root of this program starts.
pub(crate) fn run() {
    if let Some(folder) = JOB.run(job) {
        check(folder.path());
    }
}

#[test]
fn openmpi() {
    JOB.check_under("openmpi", 4, check);
}

#[test]
fn mpich() {
    JOB.check_under("mpich", 4, check);
}
