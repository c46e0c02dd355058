//! A C program on a disk that fills up under its mapped pages: errors of the right class through the preload library, and no signal.

mod launch;

use aqueduct_testkit::filesystem::{FilesystemKind, TestFilesystem};
use launch::{Job, MPICH, OPEN_MPI, compile};

#[test]
fn a_full_disk_is_an_error_and_not_a_signal() {
    for (mpi, kind) in
        [(OPEN_MPI, FilesystemKind::Ext4), (MPICH, FilesystemKind::Ext4), (OPEN_MPI, FilesystemKind::Tmpfs)]
    {
        let Some(program) = compile(mpi, "full_disk.c", &[]) else { continue };
        for ranks in [1, 2] {
            let Some(disk) = TestFilesystem::mount(kind) else { return };
            let path = disk.path().join("out").to_string_lossy().into_owned();
            let words = [program.path.to_str().expect("UTF-8"), path.as_str()];
            let output = Job { mpi, ranks, preloaded: true, variables: &[] }.run(&words);
            assert!(output.success, "{} with {ranks} ranks: {}", mpi.name, output.text());
            for rank in 0..ranks {
                let printed =
                    |line: String| assert!(output.printed.contains(&line), "{line}: {}", output.text());
                printed(format!("{rank} hole ok zeros 1"));
                printed(format!("{rank} write_at_all MPI_ERR_NO_SPACE"));
                printed(format!("{rank} write_at MPI_ERR_NO_SPACE"));
            }
        }
    }
}
