//! Which rank's data lies where in a file, and which rank accessed it on the device.

use std::collections::BTreeMap;

use aqueduct::file::trace::{CallRecord, FileExtent, TraceFolder, TracedOperation};

/// Files that are shown.
const MOST_FILES: usize = 6;
/// Extents of a file that are shown.
const MOST_EXTENTS: usize = 12_000;

/// The extents of a file, each with its rank.
#[derive(Default)]
pub(crate) struct FileMap {
    pub(crate) name: String,
    /// The end of the last extent.
    pub(crate) end: u64,
    /// Extents of the data of each rank.
    pub(crate) owners: Vec<(usize, FileExtent)>,
    /// Extents that each rank wrote to the device, or read if nothing was written.
    pub(crate) writers: Vec<(usize, FileExtent)>,
    /// Extents that are not shown.
    pub(crate) omitted: u64,
    /// True if extents are of writes, else of reads.
    pub(crate) is_written: bool,
    bytes: u64,
}

pub(super) fn file_maps(trace: &TraceFolder) -> Vec<FileMap> {
    let mut maps: BTreeMap<&str, [FileMap; 2]> = BTreeMap::new();
    for rank in &trace.ranks {
        for (call, owned, device) in rank.extents_of_calls() {
            let Some(file) = rank.files.get(call.file as usize) else { continue };
            let Some(which) = direction(call) else { continue };
            let map = &mut maps.entry(file.name.as_str()).or_default()[which];
            map.bytes += call.bytes.max(call.device_bytes);
            add(&mut map.owners, rank.rank, owned);
            add(&mut map.writers, rank.rank, device);
            let spans = owned.iter().chain(device).map(|extent| extent.span().end);
            map.end = map.end.max(spans.max().unwrap_or(0));
        }
    }
    let mut all: Vec<FileMap> = maps
        .into_iter()
        .filter_map(|(name, [read, written])| {
            let is_written = !written.owners.is_empty() || !written.writers.is_empty();
            let map = if is_written { written } else { read };
            (map.end > 0).then(|| FileMap { name: name.to_owned(), is_written, ..map })
        })
        .collect();
    all.sort_by_key(|map| std::cmp::Reverse(map.bytes));
    all.truncate(MOST_FILES);
    for map in &mut all {
        map.omitted = thin_out(&mut map.owners, MOST_EXTENTS) + thin_out(&mut map.writers, MOST_EXTENTS);
    }
    all
}

/// Leaves an equal number of extents of each rank, evenly spaced; how many were omitted. The extents of a rank follow one another.
fn thin_out(all: &mut Vec<(usize, FileExtent)>, most: usize) -> u64 {
    if all.len() <= most {
        return 0;
    }
    let ranks = all.chunk_by(|one, other| one.0 == other.0).count();
    let of_rank = (most / ranks).max(1);
    let kept: Vec<(usize, FileExtent)> = all
        .chunk_by(|one, other| one.0 == other.0)
        .flat_map(|extents| extents.iter().copied().step_by(extents.len().div_ceil(of_rank)))
        .collect();
    let omitted = (all.len() - kept.len()) as u64;
    *all = kept;
    omitted
}

/// 0 for a read, 1 for a write.
fn direction(call: &CallRecord) -> Option<usize> {
    match call.operation()? {
        TracedOperation::Read | TracedOperation::BackgroundRead => Some(0),
        TracedOperation::Write | TracedOperation::BackgroundWrite => Some(1),
        _ => None,
    }
}

/// Adds extents; one that continues the last one of its rank extends it.
fn add(all: &mut Vec<(usize, FileExtent)>, rank: usize, extents: &[FileExtent]) {
    for next in extents {
        if let Some((_, last)) = all.last_mut().filter(|(of, _)| *of == rank) {
            if last == next {
                continue;
            }
            let is_run = |extent: &FileExtent| extent.count == 1 && extent.rows == 1;
            if is_run(last) && is_run(next) && last.offset.saturating_add(last.len) == next.offset {
                last.len = last.len.saturating_add(next.len);
                continue;
            }
            let continues = last.rows == 1
                && next.rows == 1
                && last.len == next.len
                && last.stride > 0
                && last.offset.saturating_add(last.stride.saturating_mul(last.count)) == next.offset
                && (next.stride == last.stride || next.count == 1);
            if continues {
                last.count = last.count.saturating_add(next.count);
                continue;
            }
        }
        all.push((rank, *next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_on_a_map_with_too_many_extents() {
        let mut all: Vec<(usize, FileExtent)> = (0..5)
            .flat_map(|rank| {
                (0..1000u64).map(move |at| (rank, FileExtent::run(at * at * 7 + rank as u64, 1)))
            })
            .collect();
        assert_eq!(thin_out(&mut all, 100), 4900);
        for rank in 0..5 {
            let of_rank: Vec<u64> =
                all.iter().filter(|(of, _)| *of == rank).map(|(_, extent)| extent.offset).collect();
            assert_eq!(of_rank.len(), 20, "rank {rank}");
            assert!(of_rank[19] >= 950 * 950 * 7, "from the whole of the file");
        }
        assert_eq!(thin_out(&mut all, 100), 0);
    }
}
