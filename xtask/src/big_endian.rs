//! The tests of objects on a big-endian machine: s390x, cross-compiled and emulated by qemu-user.

use anyhow::{Result, ensure};

use crate::shell::{cargo, command, root, run, succeeds};

const TARGET: &str = "s390x-unknown-linux-gnu";
const LINKER: &str = "s390x-linux-gnu-gcc";
const EMULATOR: &str = "qemu-s390x";

/// Tests that need neither MPI nor Python nor a second compiler.
const TESTS: [&str; 11] = [
    "objects",
    "schemas",
    "golden",
    "evolution",
    "files",
    "access_matrix",
    "comm_ext",
    "collective_calls",
    "random",
    "hostile",
    "streamed",
];

/// Runs the tests of objects on s390x.
pub(crate) fn run_tests() -> Result<()> {
    for (program, package) in [(LINKER, "gcc-s390x-linux-gnu libc6-dev-s390x-cross"), (EMULATOR, "qemu-user")]
    {
        let is_there = succeeds(command(program, &["--version"]).env("LC_ALL", "C"));
        ensure!(
            is_there,
            "{program} is missing; install it with: apt-get install --no-install-recommends {package}"
        );
    }
    run(&mut command("rustup", &["target", "add", TARGET]))?;
    let mut tests = cargo(&["test", "--package", "aqueduct-object", "--lib", "--target", TARGET]);
    for test in TESTS {
        tests.args(["--test", test]);
    }
    tests.env("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    tests.env("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER", format!("{EMULATOR} -L /usr/s390x-linux-gnu"));
    // The prebuilt bindings of io-uring are not for this target; qemu-user has no io_uring, and these tests do not use it.
    tests.env("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUSTFLAGS", "--cfg=io_uring_skip_arch_check");
    // Random tests run a few cases: emulation takes ten times as long.
    tests
        .env("AQUEDUCT_MPI", "none")
        .env("PROPTEST_CASES", "16")
        .env("CARGO_TARGET_DIR", root().join("target/big-endian"));
    run(&mut tests)
}
