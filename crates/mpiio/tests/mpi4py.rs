//! All file tests of mpi4py with the interposition library; its skip lists are disabled.
//!
//! `AQUEDUCT_TEST_MPI4PY` names a folder with a build for each MPI and the tests; `cargo xtask test` makes it.

mod launch;

use std::path::{Path, PathBuf};

use launch::{Job, MPICH, Mpi, OPEN_MPI, is_missing, launcher};

/// How many tests the two files have at least: fewer means that some were not run.
const TESTS: [(&str, usize); 2] = [("test_file.py", 34), ("test_io.py", 55)];

fn all_pass(mpi: Mpi, ranks: usize, buffer: &str) {
    let folder = std::env::var_os("AQUEDUCT_TEST_MPI4PY").map(PathBuf::from);
    if is_missing("mpi4py", folder.as_deref().is_some_and(Path::exists)) || launcher(mpi).is_none() {
        return;
    }
    let folder = folder.unwrap_or_default();
    let path = |parts: &[&str]| {
        parts.iter().fold(folder.clone(), |path, part| path.join(part)).display().to_string()
    };
    let python = path(&["venv", "bin", "python3"]);
    for (file, least) in TESTS {
        let build = path(&[mpi.name]);
        let variables =
            [("PYTHONPATH", build.as_str()), ("PYTHONDONTWRITEBYTECODE", "1"), ("AQUEDUCT_BUFFER", buffer)];
        let output = Job { mpi, ranks, preloaded: true, variables: &variables }
            .run(&[&python, &path(&["test", file])]);
        let text = output.text();
        assert!(output.success && !text.contains("FAILED"), "{} {file} with {ranks} ranks: {text}", mpi.name);
        assert!(!text.contains("skipped="), "{text}");
        // Lines of ranks that end together are mixed, words are not.
        let ran: Vec<usize> =
            text.split("Ran ").skip(1).filter_map(|rest| rest.split(' ').next()?.parse().ok()).collect();
        assert!(ran.len() == ranks && ran.iter().all(|tests| *tests >= least), "{ran:?}: {text}");
    }
}

macro_rules! ranks {
    ($($name:ident $mpi:ident $ranks:literal $buffer:literal;)*) => {$(
        #[test]
        fn $name() {
            all_pass($mpi, $ranks, $buffer);
        }
    )*};
}

ranks! {
    open_mpi_1 OPEN_MPI 1 "0";
    open_mpi_2 OPEN_MPI 2 "0";
    open_mpi_3 OPEN_MPI 3 "0";
    open_mpi_4 OPEN_MPI 4 "0";
    open_mpi_5 OPEN_MPI 5 "0";
    mpich_1 MPICH 1 "0";
    mpich_2 MPICH 2 "0";
    mpich_3 MPICH 3 "0";
    mpich_4 MPICH 4 "0";
    mpich_5 MPICH 5 "0";
    open_mpi_2_buffered OPEN_MPI 2 "256MiB";
    open_mpi_3_buffered OPEN_MPI 3 "1B";
    mpich_2_buffered MPICH 2 "1B";
    mpich_3_buffered MPICH 3 "256MiB";
}
