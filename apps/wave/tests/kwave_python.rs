//! k-Wave for Python drives `wave` as its binary; its own solver in `NumPy` agrees.

use std::path::PathBuf;
use std::process::Command;

use aqueduct_testkit::external_tools::is_missing;

#[test]
fn kwave_python_drives_wave_and_its_own_solver_agrees() {
    let python =
        std::env::var_os("AQUEDUCT_TEST_KWAVE").map(|folder| PathBuf::from(folder).join("bin/python"));
    let python = python.filter(|python| python.exists());
    if is_missing("k-wave-python (AQUEDUCT_TEST_KWAVE)", python.is_some()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(python.unwrap());
    command
        .args(["-W", "ignore", "tests/programs/kwave_python.py", env!("CARGO_BIN_EXE_wave")])
        .arg(folder.path());
    let output = command.env("AQUEDUCT_MPI", "none").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
}
