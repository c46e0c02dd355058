//! Tests under the sanitizers of the compiler and under Miri, in separate target directories. Miri needs nightly; without nightly the sanitizers
//! use the stable compiler with `RUSTC_BOOTSTRAP=1`.
//!
//! The sanitizers rebuild the standard library if its source is installed. Without it `ThreadSanitizer` does not see the locks of the
//! standard library and reports false races.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::shell::{command, root, run, succeeds};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Crates whose tests run under the sanitizers: the thread transport, shared memory, mappings, buffers lent to the kernel.
const SANITIZED: [&str; 4] = ["aqueduct-comm", "aqueduct-device", "aqueduct-object", "aqueduct-file"];

/// Tests under Miri: package, and the arguments that select its tests. Tests that start programs or transfer megabytes are not selected.
const INTERPRETED: [(&str, &[&str]); 8] = [
    ("aqueduct-object", &["--lib"]),
    ("aqueduct-object", &["--test", "objects"]),
    ("aqueduct-object", &["--test", "schemas"]),
    ("aqueduct-file", &["--test", "layout", "--", "arrays::", "bounds::", "errors::", "shapes::"]),
    (
        "aqueduct-formats",
        &["--lib", "--", "netcdf::header_", "netcdf::value", "netcdf::name", "merge::", "selection::"],
    ),
    ("aqueduct-stream", &["--lib", "--", "steps_format::", "declare::stream_info"]),
    ("aqueduct-checkpoint", &["--lib", "--", "cell_table::", "manifest::"]),
    ("aqueduct-mardyn", &["--lib", "--", "text_header::", "xml_header::", "word_scanner::"]),
];

/// Runs the tests of these packages, or of the default ones, under a sanitizer, `address` or `thread`.
pub(crate) fn sanitize(sanitizer: &str, packages: &[&str]) -> Result<()> {
    ensure!(
        ["address", "thread"].contains(&sanitizer),
        "there is no sanitizer {sanitizer}; the sanitizers are address and thread"
    );
    let packages = if packages.is_empty() { &SANITIZED } else { packages };
    let words = ["test", "--target", TARGET];
    let (mut tests, has_source) = match nightly(&words) {
        Ok(nightly) => (nightly, has_component("rust-src")),
        Err(_) => (bootstrapped(&words), has_source_in_use()),
    };
    let mut flags = format!("-Zsanitizer={sanitizer}");
    if has_source {
        tests.arg("-Zbuild-std");
    } else {
        println!(
            "the source of the standard library is missing; install it with: rustup component add rust-src (--toolchain nightly)"
        );
        flags.push_str(" -Cunsafe-allow-abi-mismatch=sanitizer");
    }
    for package in packages {
        tests.args(["--package", package]);
    }
    tests.args(["--lib", "--tests"]).env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", folder(sanitizer));
    // `cargo xtask valgrind` finds leaks, in whole programs.
    tests
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .env("TSAN_OPTIONS", "halt_on_error=0 second_deadlock_stack=1");
    run(&mut tests)
}

/// Runs the tests that Miri can interpret.
pub(crate) fn miri() -> Result<()> {
    if !has_component("miri") {
        bail!("Miri is missing; install it with: rustup component add miri rust-src --toolchain nightly");
    }
    for (package, words) in INTERPRETED {
        let mut tests = nightly(&["miri", "test", "--package", package])?;
        tests.args(words).env("CARGO_TARGET_DIR", folder("miri"));
        // Tests use files and the clock; dependencies convert integers to pointers. Random tests run a few cases.
        tests
            .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-permissive-provenance")
            .env("PROPTEST_CASES", "4");
        run(&mut tests)?;
    }
    Ok(())
}

/// Cargo of the nightly toolchain.
fn nightly(words: &[&str]) -> Result<Command> {
    ensure!(
        succeeds(&mut command("rustup", &["run", "nightly", "rustc", "--version"])),
        "the nightly toolchain is missing; install it with: rustup toolchain install nightly"
    );
    let mut cargo = command("rustup", &["run", "nightly", "cargo"]);
    cargo.args(words);
    Ok(cargo)
}

/// Cargo of the toolchain in use, whose compiler accepts unstable options.
fn bootstrapped(words: &[&str]) -> Command {
    let mut cargo = crate::shell::cargo(words);
    cargo.env("RUSTC_BOOTSTRAP", "1");
    cargo
}

/// Whether the toolchain in use has the source of the standard library.
fn has_source_in_use() -> bool {
    let folder = command("rustc", &["--print", "sysroot"]).output();
    folder.is_ok_and(|folder| {
        let folder = PathBuf::from(String::from_utf8_lossy(&folder.stdout).trim());
        folder.join("lib/rustlib/src/rust/library/std").is_dir()
    })
}

fn has_component(name: &str) -> bool {
    let listed = command("rustup", &["component", "list", "--toolchain", "nightly", "--installed"]).output();
    listed.is_ok_and(|listed| {
        String::from_utf8_lossy(&listed.stdout).lines().any(|line| line.starts_with(name))
    })
}

fn folder(name: &str) -> PathBuf {
    root().join("target").join("sanitize").join(name)
}
