//! mpi4py from the Python registry, built for each MPI, and its own tests: judges of the C door, kept in the target folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell::{command, root, run};

const VERSION: &str = "4.1.2";
/// The variable that tells the tests where it is.
pub(crate) const VARIABLE: &str = "AQUEDUCT_TEST_MPI4PY";

/// Makes sure that it is there, and says where.
pub(crate) fn install() -> Result<PathBuf> {
    let folder = root().join("target/mpi4py");
    // Written last: a folder without it was left half-way.
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
        // A source tree of its own: a build leaves its choice of MPI in it.
        let source = at(&format!("source-{mpi}"));
        std::fs::create_dir_all(&source)?;
        let archive = at(&format!("mpi4py-{VERSION}.tar.gz"));
        run(&mut command(
            "tar",
            &["--extract", "--strip-components=1", "--directory", &source, "--file", &archive],
        ))?;
        let install = [&["install"], &quiet[..], &["--no-cache-dir", "--target", &at(mpi), &source]];
        // Unoptimised, it is compiled in a fraction of the time, and nothing of it is measured.
        run(command(&pip, &install.concat()).env("MPICC", format!("mpicc.{mpi}")).env("CFLAGS", "-O0"))?;
    }
    std::fs::rename(folder.join("source-openmpi/test"), folder.join("test"))?;
    switch_skipping_off(&folder.join("test/mpiunittest.py"))
}

/// The tests' own list of what not to try under which MPI is for the MPI's files, not for ours.
fn switch_skipping_off(path: &Path) -> Result<()> {
    let text = std::fs::read_to_string(path)?;
    let changed = text.replace(
        "    version = mpi_predicate(predicate)\n    if version:",
        "    version = None\n    if version:",
    );
    if changed == text {
        bail!("{} decides in another way than expected what to skip; look at it", path.display());
    }
    std::fs::write(path, changed)?;
    Ok(())
}
