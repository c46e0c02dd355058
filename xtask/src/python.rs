//! The Python package: built once as a wheel, checked, and tested serially, on threads, and under Open MPI and MPICH.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::{command, root, run, succeeds};
use crate::{mpi4py, wheels};

/// What builds and checks the wheel.
const TOOLS: [&str; 3] = ["maturin==1.16.0", "abi3audit==0.0.26", "numpy==2.4.6"];

/// What the tests use beside the wheel.
const TESTS: [&str; 8] = [
    "pytest==9.2.0",
    "numpy==2.4.6",
    "h5py==3.16.0",
    "netCDF4==1.7.5.1.post1",
    "xarray==2026.9.0",
    "pandas==3.1.1",
    "tqdm==4.70.1",
    "mypy==2.4.1",
];

/// Builds the wheel with a profile of Cargo, checks it, and runs its tests.
pub(crate) fn test_wheel(profile: &str) -> Result<()> {
    let tools = wheels::environment("python-tools-1", &TOOLS)?;
    let wheel = build(&tools, profile)?;
    let audit = tools.join("bin/abi3audit");
    run(&mut command(&audit.to_string_lossy(), &["--strict", &wheel.to_string_lossy()]))?;
    fresh(&wheel)?;
    let tests = wheels::environment("python-tests-1", &TESTS)?;
    install(&tests, &wheel)?;
    types(&tests)?;
    run(&mut pytest(&tests)?)
}

/// An interpreter that has the package, h5py and numpy, for benchmarks.
pub(crate) fn interpreter() -> Result<PathBuf> {
    let wheel = build(&wheels::environment("python-tools-1", &TOOLS)?, "release")?;
    let tests = wheels::environment("python-tests-1", &TESTS)?;
    install(&tests, &wheel)?;
    Ok(tests.join("bin/python"))
}

/// Builds the wheel; its path.
fn build(tools: &Path, profile: &str) -> Result<PathBuf> {
    let folder = root().join("target/python");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let mut build = command(
        &tools.join("bin/maturin").to_string_lossy(),
        &["build", "--profile", profile, "--quiet", "--locked", "--interpreter", "python3"],
    );
    build.arg("--out").arg(&folder).current_dir(root().join("python"));
    // The compiler of this command, not of the environment of cargo that runs it.
    run(build.env_remove("CARGO"))?;
    let wheel = std::fs::read_dir(&folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let wheel = wheel.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).last();
    let wheel = wheel.context("maturin has made no wheel")?;
    if !wheel.to_string_lossy().contains("-cp311-abi3-") {
        bail!("{} is not for the stable ABI of Python 3.11", wheel.display());
    }
    Ok(wheel)
}

/// A fresh environment with nothing but the wheel and what it depends on: the lines of the README run there.
fn fresh(wheel: &Path) -> Result<()> {
    let folder = root().join("target/python/fresh");
    run(&mut command("python3", &["-m", "venv", "--clear", &folder.to_string_lossy()]))?;
    let pip = folder.join("bin/pip");
    let quiet = ["install", "--quiet", "--disable-pip-version-check"];
    run(command(&pip.to_string_lossy(), &quiet).arg(wheel))?;
    let script = "import re, pathlib, sys\n\
        blocks = re.findall(r'```python\\n(.*?)```', pathlib.Path(sys.argv[1]).read_text(), re.DOTALL)\n\
        assert blocks, 'no lines of Python'\n\
        [exec(compile(block, sys.argv[1], 'exec'), {'__name__': 'page'}) for block in blocks]";
    let work = root().join("target/python/readme");
    std::fs::create_dir_all(&work)?;
    let mut lines = command(&folder.join("bin/python").to_string_lossy(), &["-c", script]);
    run(lines.arg(root().join("README.md")).current_dir(work).env("AQUEDUCT_RANKS", "2"))
}

/// Installs the wheel in an environment that has its dependencies.
fn install(environment: &Path, wheel: &Path) -> Result<()> {
    let pip = environment.join("bin/pip");
    let words = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall"];
    run(command(&pip.to_string_lossy(), &words).arg(wheel))
}

/// Type hints of the package and of its stubs.
fn types(environment: &Path) -> Result<()> {
    let mut mypy =
        command(&environment.join("bin/mypy").to_string_lossy(), &["--config-file", "pyproject.toml"]);
    run(mypy.current_dir(root().join("python")))
}

/// The tests, with every launcher that there is.
fn pytest(environment: &Path) -> Result<Command> {
    let words = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--import-mode=append"];
    let mut tests = command(&environment.join("bin/python").to_string_lossy(), &words);
    tests.arg(root().join("python/tests")).current_dir(root().join("target/python"));
    let launchers = ["mpirun.openmpi", "mpirun.mpich"];
    let found = launchers.into_iter().filter(|name| succeeds(&mut command(name, &["--version"])));
    let found: Vec<&str> = found.collect();
    if found.is_empty() {
        println!("notice: no launcher of MPI was found; the package is tested on threads");
    } else {
        tests.env("AQUEDUCT_PYTHON_LAUNCHERS", env::join_paths(&found)?);
        tests.env("AQUEDUCT_PYTHON_MPI4PY", mpi4py::install()?);
    }
    Ok(tests)
}
