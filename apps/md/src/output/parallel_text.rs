//! Text that all ranks write into one file, each its own lines.

use anyhow::Result;
use aqueduct::comm::{Comm, Op};
use aqueduct::file::File;

/// Writes `head`, from rank 0, and behind it the lines of all ranks in the order of the ranks, from the byte `at` on; where they end. Collective.
pub fn write(world: &Comm, file: &File, at: u64, head: &str, lines: &str) -> Result<u64> {
    let text = if world.rank() == 0 { [head, lines].concat() } else { lines.to_owned() };
    let length = text.len() as u64;
    let before = world.exclusive_scan_one(Op::Sum, length)?.unwrap_or(0);
    let total = world.allreduce_one(Op::Sum, length)?;
    file.at(at + before).all().write(text.as_bytes())?;
    Ok(at + total)
}
