//! The split form is a method of collective access only.

use aqueduct_object::{ObjectFile, Result};

fn begin(file: &ObjectFile<u64>) -> Result<()> {
    file.at(0).begin_write(vec![1])?.end()?;
    Ok(())
}

fn main() {}
