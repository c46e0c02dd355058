//! System packages that the tests need: installed where that is possible, named where it is not.

use anyhow::{Result, bail};

use crate::shell::{command, run, succeeds};

/// Debian packages and what they are for.
const PACKAGES: &[(&str, &str)] = &[
    ("openmpi-bin", "mpirun of Open MPI"),
    ("libopenmpi-dev", "its header, for the test of constants"),
    ("mpich", "mpirun of MPICH"),
    ("libmpich-dev", "its header, for the test of constants"),
    ("python3-numpy", "the test of the Python reader of object files"),
    ("python3-venv", "the MPI 5 wheels, mpi4py"),
    ("python3-pip", "the MPI 5 wheels, mpi4py"),
    ("python3-dev", "mpi4py, built for each MPI"),
    ("gfortran", "Fortran programs through the C door"),
    ("g++", "C++ programs through the C door"),
    ("libpnetcdf-dev", "PnetCDF through the C door, and beside our netCDF"),
    ("pnetcdf-bin", "ncvalidator, which judges our netCDF"),
    ("netcdf-bin", "ncdump"),
    ("python3-netcdf4", "the netCDF4 module of Python, reading ours and writing for us"),
    ("libhdf5-dev", "the C library for the feature hdf5, the serial one"),
    ("hdf5-tools", "h5dump and h5diff, which judge our HDF5"),
    ("python3-h5py-serial", "h5py, reading ours and writing for us"),
    ("e2fsprogs", "ext4 for the tests of failing file systems; chattr, for files that cannot be removed"),
    ("xfsprogs", "xfs for the tests of failing file systems, and xfs_io, which shuts file systems down"),
    ("btrfs-progs", "btrfs for the tests of failing file systems, and its quotas"),
    ("bindfs", "a FUSE file system, for the test of nodes whose page caches differ"),
    ("python3-h5py-mpi", "parallel HDF5 through the C door"),
    ("strace", "system calls that fail, and which are made"),
    ("povray", "scenes of PovWriter"),
    ("valgrind", "invalid accesses and leaks of the preload library"),
];

/// Makes sure that all packages are there.
pub(crate) fn install() -> Result<()> {
    let missing: Vec<&str> =
        PACKAGES.iter().map(|(name, _)| *name).filter(|name| !is_installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    let Some(rights) = rights() else {
        bail!(
            "packages are missing and this user cannot install them; run as root: \
             apt-get update && apt-get install --no-install-recommends {list}"
        );
    };
    println!("installing {list}");
    let apt = |arguments: &[&str]| {
        let words =
            [rights, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "--yes"], arguments];
        let words = words.concat();
        run(&mut command(words[0], &words[1..]))
    };
    apt(&["update"])?;
    apt(&[&["install", "--no-install-recommends"], missing.as_slice()].concat())
}

fn is_installed(package: &str) -> bool {
    let state = command("dpkg-query", &["--show", "--showformat=${Status}", package]).output();
    state.is_ok_and(|state| String::from_utf8_lossy(&state.stdout).contains("install ok installed"))
}

/// What to put in front of a command to run it as root: nothing, `sudo`, or none where neither works.
fn rights() -> Option<&'static [&'static str]> {
    if !succeeds(&mut command("apt-get", &["--version"])) {
        return None;
    }
    let id = command("id", &["-u"]).output().ok()?;
    if id.stdout.trim_ascii() == b"0" {
        return Some(&[]);
    }
    succeeds(&mut command("sudo", &["--non-interactive", "true"])).then_some(&["sudo"])
}
