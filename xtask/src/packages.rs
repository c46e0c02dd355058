//! System packages that the tests need. They are installed if this user may; otherwise the error names them.

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
    ("gfortran", "Fortran programs on the interposition library"),
    ("g++", "C++ programs on the interposition library"),
    ("libpnetcdf-dev", "PnetCDF on the interposition library, and in comparison with our netCDF"),
    ("pnetcdf-bin", "ncvalidator, which validates our netCDF files"),
    ("netcdf-bin", "ncdump"),
    ("python3-netcdf4", "the netCDF4 module of Python, which reads our files and writes test files"),
    ("hdf5-tools", "h5dump and h5diff, which check our HDF5 files"),
    ("python3-h5py-serial", "h5py, which reads our files and writes test files"),
    ("e2fsprogs", "ext4 for the tests of failing file systems; chattr, for files that cannot be removed"),
    ("xfsprogs", "xfs for the tests of failing file systems, and xfs_io, which shuts file systems down"),
    ("btrfs-progs", "btrfs for the tests of failing file systems, and its quotas"),
    ("bindfs", "a FUSE file system, for the test of nodes whose page caches differ"),
    ("libhdf5-openmpi-dev", "parallel HDF5 and the C library in comparison with our HDF5"),
    ("python3-h5py-mpi", "parallel HDF5 on the interposition library"),
    ("iproute2", "hosts as network namespaces, for jobs and servers on several hosts"),
    ("strace", "injection and tracing of system calls"),
    ("povray", "scenes of PovWriter"),
    ("chromium", "the pages of motif and of reports"),
    ("chromium-driver", "clicks on the web page of motif"),
    ("ripgrep", "searches that motif is compared with"),
    ("seqkit", "searches that motif is compared with"),
    ("emboss", "fuzznuc, whose searches motif is compared with"),
    ("valgrind", "invalid accesses and leaks of the interposition library"),
];

/// Installs missing packages.
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

/// The prefix of a command to run it as root: empty, `sudo`, or none if neither works.
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
