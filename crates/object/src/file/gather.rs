//! Reading objects of variable size, which are in many parts of the data: blocking and non-blocking.

use std::ops::Range;

use aqueduct_file::Request;

use super::ObjectFile;
use super::access::ViewRange;
use super::meta_file::IndexEntry;
use crate::Object;
use crate::error::Result;

/// Objects with gaps of at most this number of bytes are read in one access.
const GAP: u64 = 1 << 16;

impl<T: Object> ObjectFile<T> {
    /// Reads objects of variable size, with one access for objects near each other.
    pub(crate) fn gather(&self, placed: &ViewRange) -> Result<Vec<T>> {
        let entries = self.open_file.entries(&placed.view, placed.start, placed.count)?;
        let mut objects = Vec::new();
        objects.resize_with(entries.len(), || None);
        for group in groups(&entries) {
            let bytes = extent(&entries, &group);
            let mut read = vec![0; (bytes.end - bytes.start) as usize];
            self.open_file.read_bytes(bytes.start, &mut read)?;
            self.decode_group(&entries, &group, &mut read, &mut objects)?;
        }
        Ok(objects.into_iter().flatten().collect())
    }

    /// Starts reading objects of variable size, with one access for objects near each other.
    pub(crate) fn start_gather(&self, placed: &ViewRange) -> Result<PendingGather> {
        let entries = self.open_file.entries(&placed.view, placed.start, placed.count)?;
        let start = |group: Vec<usize>| {
            let bytes = extent(&entries, &group);
            let buffer = vec![0; (bytes.end - bytes.start) as usize];
            Ok((self.open_file.raw_data.at(bytes.start).start_read(buffer)?, group))
        };
        let reads = groups(&entries).into_iter().map(start).collect::<Result<_>>()?;
        Ok(PendingGather { entries, reads })
    }

    /// Waits for the started reads and decodes their objects.
    pub(crate) fn finish_gather(&self, PendingGather { entries, reads }: PendingGather) -> Result<Vec<T>> {
        let mut objects = Vec::new();
        objects.resize_with(entries.len(), || None);
        for (request, group) in reads {
            let (mut read, count) = request.wait()?;
            self.open_file.check_length(extent(&entries, &group).start, read.len(), count)?;
            self.decode_group(&entries, &group, &mut read, &mut objects)?;
        }
        Ok(objects.into_iter().flatten().collect())
    }

    /// Compares the checksums of a group and decodes its objects.
    fn decode_group(
        &self,
        entries: &[(u64, IndexEntry)],
        group: &[usize],
        read: &mut [u8],
        objects: &mut [Option<T>],
    ) -> Result<()> {
        let bytes = extent(entries, group);
        self.open_file.verify(bytes.clone())?;
        for at in group {
            let (number, entry) = entries[*at];
            let start = (entry.offset - bytes.start) as usize;
            let part = &mut read[start..start + entry.length as usize];
            objects[*at] = self.decode_stored(part, 1, number, entry.offset)?.pop();
        }
        Ok(())
    }
}

/// Non-blocking reads of objects of variable size, each with its objects.
pub(crate) struct PendingGather {
    entries: Vec<(u64, IndexEntry)>,
    reads: Vec<(Request<Vec<u8>>, Vec<usize>)>,
}

impl PendingGather {
    /// True if all reads are done.
    pub(crate) fn is_done(&self) -> bool {
        self.reads.iter().all(|(request, _)| request.is_done())
    }
}

/// The bytes from the first to the last object of a group, which is not empty.
fn extent(entries: &[(u64, IndexEntry)], group: &[usize]) -> Range<u64> {
    let start = entries[group[0]].1.offset;
    let ends = group.iter().map(|at| entries[*at].1.offset + entries[*at].1.length);
    start..ends.max().unwrap_or(start)
}

/// The indices of entries, sorted by offset, in groups without large gaps.
fn groups(entries: &[(u64, IndexEntry)]) -> Vec<Vec<usize>> {
    let mut places: Vec<usize> = (0..entries.len()).collect();
    places.sort_by_key(|at| entries[*at].1.offset);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut end = 0;
    for at in places {
        let entry = entries[at].1;
        match groups.last_mut() {
            Some(group) if entry.offset <= end + GAP => group.push(at),
            _ => groups.push(vec![at]),
        }
        end = end.max(entry.offset + entry.length);
    }
    groups
}
