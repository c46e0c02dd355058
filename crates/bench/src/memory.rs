//! How much memory a process had at most.

use anyhow::{Context, Result};

/// Forgets the highest point so far; the resident memory, in KiB.
pub(crate) fn forget_peak() -> Result<u64> {
    std::fs::write("/proc/self/clear_refs", "5").context("resetting the peak of resident memory")?;
    field("VmRSS:")
}

/// The highest point of resident memory since then, in KiB.
pub(crate) fn peak() -> Result<u64> {
    field("VmHWM:")
}

fn field(name: &str) -> Result<u64> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("reading the memory of this process")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse().ok());
    number.with_context(|| format!("the system does not tell {name}"))
}
