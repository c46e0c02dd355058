//! Under MPI launchers: MPI processes write and read the sample; `PnetCDF` reads our files, and we read its files.
//!
//! The launchers start this program: each rank of the job runs the test `a_job`. A launcher that is not installed is skipped with a message;
//! `AQUEDUCT_REQUIRE_MPI=1` makes that a failure.

#[path = "common/sample.rs"]
mod sample;

use std::path::{Path, PathBuf};
use std::process::Command;

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::netcdf::CdfVersion;
use aqueduct_formats::{Error, Result};
use aqueduct_testkit::external_tools;
use aqueduct_testkit::launcher::TestLauncher;
use aqueduct_testkit::mpi_job::{self, MpiJob};
use sample::{code, read_sample, write_sample};

const JOB: MpiJob = MpiJob::new(env!("CARGO_TARGET_TMPDIR"));

fn ours(folder: &str, version: CdfVersion) -> String {
    format!("{folder}/ours-{version}.nc")
}

fn job(world: &Comm, folder: &str) -> Result<()> {
    for version in CdfVersion::ALL {
        write_sample(world, &ours(folder, version), version)?;
        read_sample(world, &ours(folder, version), version)?;
    }
    if world.rank() == 0 {
        println!("netCDF passed on {} ranks of {} nodes", world.size(), world.node_count());
    }
    Ok::<_, Error>(())
}

/// Under a launcher one rank of the job; otherwise all ranks as threads.
#[test]
fn a_job() {
    JOB.run(job);
}

fn under(name: &str) {
    let Some(launcher) = JOB.launcher(name) else { return };
    for (ranks, per_node, nodes) in [(1, "", 1), (3, "", 1), (4, "2", 2)] {
        let (folder, output) = JOB.launch(&launcher, ranks, &[("AQUEDUCT_NODE_RANKS", per_node)]);
        let path = mpi_job::path(&folder);
        let expected = format!("netCDF passed on {ranks} ranks of {nodes} nodes");
        assert!(output.contains(&expected), "{output}");
        for version in CdfVersion::ALL {
            external_tools::validate(Path::new(&ours(path, version)));
            // Threads read the files of MPI processes.
            Launch::threads(2).run(|world| read_sample(world, &ours(path, version), version)).unwrap();
        }
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

/// Compiles the program on `PnetCDF`, which Debian has for Open MPI.
fn peer(folder: &Path) -> Option<PathBuf> {
    if external_tools::is_missing("PnetCDF", Path::new("/usr/include/pnetcdf.h").exists()) {
        return None;
    }
    let compiler = external_tools::command("mpicc.openmpi")?;
    let program = folder.join("peer");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/peer.c");
    external_tools::output_of(
        Command::new(compiler).arg("-O1").arg(source).arg("-o").arg(&program).arg("-lpnetcdf"),
    );
    Some(program)
}

#[test]
fn pnetcdf_reads_our_files_and_we_read_its_files() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(program) = peer(folder.path()) else { return };
    let Some(launcher) = TestLauncher::find("openmpi", &program) else { return };
    for version in CdfVersion::ALL {
        let (path, theirs) =
            (ours(folder.path().to_str().unwrap(), version), folder.path().join("theirs.nc"));
        Launch::threads(3).run(|world| write_sample(world, &path, version)).unwrap();
        for ranks in [1, 3] {
            let printed = format!("0 wrong of version {} on {ranks} ranks\n", code(version));
            assert_eq!(launcher.succeeds(ranks, &["read", &path, code(version)], &[]), printed);
            let theirs = theirs.to_str().unwrap();
            assert_eq!(launcher.succeeds(ranks, &["write", theirs, code(version)], &[]), printed);
            Launch::threads(2).run(|world| read_sample(world, theirs, version)).unwrap();
        }
    }
}
