//! Checks of what a release needs: packages of all crates, the oldest supported compiler, dependencies, spelling.
//!
//! Tools that are not installed are named in a notice and their checks are skipped; `RELEASING.md` says how to install them.

use std::fs;

use anyhow::{Context, Result};

use crate::shell::{cargo, command, root, run, succeeds};

/// Packages with `publish = false`.
const NOT_PUBLISHED: [&str; 6] = [
    "aqueduct-bench",
    "aqueduct-fuzz-targets",
    "aqueduct-md",
    "aqueduct-model-checks",
    "aqueduct-testkit",
    "xtask",
];

/// All of these checks. They need no registry.
pub(crate) fn check() -> Result<()> {
    package()?;
    minimum_rust_version()?;
    dependencies()?;
    spelling()
}

/// Packages every published crate as `cargo publish` does: metadata, versions of path dependencies, files. Nothing is built.
fn package() -> Result<()> {
    let mut command =
        cargo(&["package", "--workspace", "--no-verify", "--offline", "--allow-dirty", "--quiet"]);
    command.args(NOT_PUBLISHED.iter().flat_map(|name| ["--exclude", name]));
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

/// Licenses, advisories, duplicate versions and sources of dependencies, by `deny.toml`.
fn dependencies() -> Result<()> {
    if !succeeds(&mut cargo(&["deny", "--version"])) {
        skip("the check of dependencies", "cargo install --locked cargo-deny");
        return Ok(());
    }
    run(&mut cargo(&["deny", "--all-features", "check"]))
}

/// Spelling, by `typos.toml`.
fn spelling() -> Result<()> {
    if !succeeds(&mut command("typos", &["--version"])) {
        skip("the check of spelling", "cargo install --locked typos-cli");
        return Ok(());
    }
    run(&mut command("typos", &[]))
}

fn skip(what: &str, remedy: &str) {
    println!("notice: {what} is skipped; to run it: {remedy}");
}
