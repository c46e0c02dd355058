//! Checks that a release needs: packages of all crates, the oldest supported compiler, dependencies, spelling, API changes.
//!
//! `cargo xtask test` runs those that take seconds and need no network. Tools that are not installed are named in a notice and their checks are
//! skipped. `cargo xtask release-checks` installs the tools and runs all checks.

use std::fs;

use anyhow::{Context, Result};

use crate::shell::{cargo, command, root, run, succeeds};

/// Packages with `publish = false`.
const NOT_PUBLISHED: [&str; 12] = [
    "aqueduct-bench",
    "aqueduct-decomposition",
    "aqueduct-fmm",
    "aqueduct-fuzz-targets",
    "aqueduct-md",
    "aqueduct-model-checks",
    "aqueduct-motif",
    "aqueduct-python",
    "aqueduct-sph",
    "aqueduct-testkit",
    "aqueduct-wave",
    "xtask",
];

/// Tools of these checks: a command that succeeds if the tool is installed, and the package that has it.
const TOOLS: [(&[&str], &str); 3] = [
    (&["cargo", "deny", "--version"], "cargo-deny"),
    (&["typos", "--version"], "typos-cli"),
    (&["cargo", "semver-checks", "--version"], "cargo-semver-checks"),
];

/// The checks that take seconds. They need no registry.
pub(crate) fn check() -> Result<()> {
    package(&["--no-verify", "--offline"])?;
    minimum_rust_version()?;
    if is_installed("cargo-deny") {
        dependencies(&["bans", "licenses", "sources"])?;
    }
    if is_installed("typos-cli") {
        run(&mut command("typos", &[]))?;
    }
    Ok(())
}

/// All checks. Installs missing tools; builds every crate from its package; looks for advisories.
pub(crate) fn check_release() -> Result<()> {
    for (probe, package) in TOOLS {
        if !succeeds(&mut command(probe[0], &probe[1..])) {
            run(&mut cargo(&["install", "--locked", package]))?;
        }
    }
    run(&mut command("typos", &[]))?;
    dependencies(&["advisories", "bans", "licenses", "sources"])?;
    minimum_rust_version()?;
    package(&[])?;
    api_changes()
}

/// Whether a tool is installed; prints a notice if not.
fn is_installed(package: &str) -> bool {
    let probe = TOOLS.iter().find(|(_, name)| *name == package).map(|(probe, _)| *probe);
    let installed = probe.is_some_and(|probe| succeeds(&mut command(probe[0], &probe[1..])));
    if !installed {
        skip(&format!("the check by {package}"), &format!("cargo install --locked {package}"));
    }
    installed
}

/// Packages every published crate as `cargo publish` does: metadata, versions of path dependencies, files. Verification builds each crate from
/// its package, with the others in a local registry, in a target directory of its own.
fn package(options: &[&str]) -> Result<()> {
    let mut command = cargo(&["package", "--workspace", "--allow-dirty", "--quiet"]);
    command.args(options).args(NOT_PUBLISHED.iter().flat_map(|name| ["--exclude", name]));
    run(&mut command)
}

/// Checks the workspace with the compiler of `rust-version`, in a target directory of its own.
fn minimum_rust_version() -> Result<()> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).context("reading Cargo.toml")?;
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
        .context("Cargo.toml has no rust-version")?;
    let listed = command("rustup", &["toolchain", "list"]).output();
    let listed =
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let is_it = |name: &&str| {
        name.strip_prefix(version).is_some_and(|rest| rest.starts_with('-') || rest.starts_with('.'))
    };
    let Some(toolchain) = listed.lines().filter_map(|line| line.split_whitespace().next()).find(is_it) else {
        skip("the check with the oldest supported compiler", &format!("rustup toolchain install {version}"));
        return Ok(());
    };
    let mut check = command("rustup", &["run", toolchain, "cargo", "check", "--workspace", "--locked"]);
    run(check.env_remove("CARGO").env("CARGO_TARGET_DIR", root().join("target/minimum-rust-version")))
}

/// Checks of dependencies by `deny.toml`. Advisories need the network.
fn dependencies(checks: &[&str]) -> Result<()> {
    let mut command = cargo(&["deny", "--all-features", "check", "--hide-inclusion-graph"]);
    run(command.args(checks))
}

/// Compares the public API of each library with the last released version, by the newest tag `v…` of this branch.
fn api_changes() -> Result<()> {
    let tag = command("git", &["describe", "--tags", "--abbrev=0", "--match", "v*"]).output()?;
    if !tag.status.success() {
        println!("notice: the check of API changes is skipped; no version is tagged yet");
        return Ok(());
    }
    let tag = String::from_utf8_lossy(&tag.stdout).trim().to_owned();
    let mut command = cargo(&["semver-checks", "--workspace", "--baseline-rev", &tag]);
    // A library for C programs: its Rust API is empty.
    command.args(["--exclude", "aqueduct-mpiio"]);
    command.args(NOT_PUBLISHED.iter().flat_map(|name| ["--exclude", name]));
    run(&mut command)
}

fn skip(what: &str, remedy: &str) {
    println!("notice: {what} is skipped; to run it: {remedy}");
}
