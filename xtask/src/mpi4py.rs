//! mpi4py from the Python registry, built for each MPI library in the target folder. Its tests run on the interposition library.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell::{command, root, run};

const VERSION: &str = "4.1.2";
/// The variable with its path, for the tests.
pub(crate) const VARIABLE: &str = "AQUEDUCT_TEST_MPI4PY";

/// Installs it if it is missing; its path.
pub(crate) fn install() -> Result<PathBuf> {
    let folder = root().join("target/mpi4py");
    // Written last: a folder without it is incomplete.
    let mark = folder.join(format!("complete-{VERSION}"));
    if !mark.exists() {
        fetch(&folder).context("installing mpi4py for the tests")?;
        std::fs::write(&mark, VERSION)?;
    }
    Ok(folder)
}

fn fetch(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    let at = |part: &str| folder.join(part).to_string_lossy().into_owned();
    run(&mut command("python3", &["-m", "venv", &at("venv")]))?;
    let pip = at("venv/bin/pip");
    let quiet = ["--quiet", "--disable-pip-version-check", "--no-deps"];
    let wanted = format!("mpi4py=={VERSION}");
    let download = [
        &["download"],
        &quiet[..],
        &["--no-binary", "mpi4py", "--dest", folder.to_str().unwrap_or("."), &wanted],
    ];
    run(&mut command(&pip, &download.concat()))?;
    for mpi in ["openmpi", "mpich"] {
        // One source tree for each MPI library: a build stores its choice in it.
        let source = at(&format!("source-{mpi}"));
        std::fs::create_dir_all(&source)?;
        let archive = at(&format!("mpi4py-{VERSION}.tar.gz"));
        run(&mut command(
            "tar",
            &["--extract", "--strip-components=1", "--directory", &source, "--file", &archive],
        ))?;
        let install = [&["install"], &quiet[..], &["--no-cache-dir", "--target", &at(mpi), &source]];
        // Compiling without optimisation is much faster, and its speed does not matter.
        run(command(&pip, &install.concat()).env("MPICC", format!("mpicc.{mpi}")).env("CFLAGS", "-O0"))?;
    }
    std::fs::rename(folder.join("source-openmpi/test"), folder.join("test"))?;
    disable_skipping(&folder.join("test/mpiunittest.py"))
}

/// Disables the list of tests to skip, which is for the MPI-IO of the MPI libraries.
fn disable_skipping(path: &Path) -> Result<()> {
    let text = std::fs::read_to_string(path)?;
    let changed = text.replace(
        "    version = mpi_predicate(predicate)\n    if version:",
        "    version = None\n    if version:",
    );
    if changed == text {
        bail!(
            "{} does not have the expected code for skipping tests; adapt xtask/src/mpi4py.rs",
            path.display()
        );
    }
    std::fs::write(path, changed)?;
    Ok(())
}
