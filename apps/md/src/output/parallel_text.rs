//! Text of all ranks in one file.

use anyhow::Result;
use aqueduct::comm::{Comm, Op};
use aqueduct::file::File;

/// Writes `head` of rank 0 at the offset `at`, followed by the lines of all ranks in rank order; returns the end. Collective.
pub fn write(world: &Comm, file: &File, at: u64, head: &str, lines: &str) -> Result<u64> {
    let text = if world.rank() == 0 { [head, lines].concat() } else { lines.to_owned() };
    let length = text.len() as u64;
    let before = world.exclusive_scan_one(Op::Sum, length)?.unwrap_or(0);
    let total = world.allreduce_one(Op::Sum, length)?;
    file.at(at + before).all().write(text.as_bytes())?;
    Ok(at + total)
}
