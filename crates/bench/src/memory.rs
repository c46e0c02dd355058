//! How much memory a process had at most, besides mapped pages of files: these are the page cache's, which has them anyway and lets others see them.

use anyhow::{Context, Result};

/// Resident memory at some moment, in KiB.
pub(crate) struct ResidentMemory {
    all: u64,
    files: u64,
}

/// Forgets the highest point so far; what is resident now.
pub(crate) fn reset_peak() -> Result<ResidentMemory> {
    std::fs::write("/proc/self/clear_refs", "5").context("resetting the peak of resident memory")?;
    Ok(ResidentMemory { all: field("VmRSS:")?, files: field("RssFile:")? })
}

/// How much more was resident at the highest point since then, in KiB, without pages of files: what is mapped of them stays so.
pub(crate) fn peak_since(before: &ResidentMemory) -> Result<u64> {
    let files = field("RssFile:")?.saturating_sub(before.files);
    Ok(field("VmHWM:")?.saturating_sub(before.all).saturating_sub(files))
}

fn field(name: &str) -> Result<u64> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("reading the memory of this process")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse().ok());
    number.with_context(|| format!("the system does not tell {name}"))
}
