//! Peak of resident memory, without mapped pages of files, which belong to the page cache.

use anyhow::{Context, Result};

/// Resident memory at one time, in KiB.
pub(crate) struct ResidentMemory {
    all: u64,
    files: u64,
}

/// Resets the peak; returns the present resident memory.
pub(crate) fn reset_peak() -> Result<ResidentMemory> {
    std::fs::write("/proc/self/clear_refs", "5").context("resetting the peak of resident memory")?;
    Ok(ResidentMemory { all: field("VmRSS:")?, files: field("RssFile:")? })
}

/// The peak since then less the memory before, in KiB, without pages of files, which stay mapped.
pub(crate) fn peak_since(before: &ResidentMemory) -> Result<u64> {
    let files = field("RssFile:")?.saturating_sub(before.files);
    Ok(field("VmHWM:")?.saturating_sub(before.all).saturating_sub(files))
}

fn field(name: &str) -> Result<u64> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("reading the memory of this process")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse().ok());
    number.with_context(|| format!("/proc/self/status has no field {name}"))
}
