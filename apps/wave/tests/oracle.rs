//! Input files of many kinds: `wave` against a reference program in `NumPy`, on several ranks, with equal bits.

use std::process::Command;

use aqueduct_testkit::external_tools::{output_of, python};

#[test]
fn outputs_agree_with_the_oracle_and_have_equal_bits_on_any_number_of_ranks() {
    let Some(python) = python("h5py") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command
        .arg("tests/programs/oracle_cases.py")
        .arg(env!("CARGO_BIN_EXE_wave"))
        .arg(folder.path())
        .env("AQUEDUCT_MPI", "none");
    println!("{}", output_of(&mut command));
}
