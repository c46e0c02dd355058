//! Bytes of writes in the order of the file, and writes under way.

use aqueduct_file::Request;
use aqueduct_file::layout::Pattern;

use super::filtered_write::WrittenChunks;
use crate::error::Result;
use crate::hdf5::file::Hdf5File;
use crate::merge::MergedRegions;

/// Bytes of a write: those that a pattern has in memory, which has been checked to hold them.
pub(super) struct WritePayload<'q> {
    pub(super) pattern: Pattern,
    pub(super) memory: &'q [u8],
}

impl WritePayload<'_> {
    pub(super) fn gather(&self, from: u64, out: &mut [u8]) {
        self.pattern.gather(self.memory, from, out).expect("a pattern is checked against its memory");
    }
}

/// The bytes of all writes in one piece, in the order of the file.
pub(super) fn gathered(combined: &MergedRegions, items: &[WritePayload<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; combined.bytes as usize];
    for share in &combined.shares {
        let length = (share.bytes.end - share.bytes.start) as usize;
        items[share.item]
            .gather(share.bytes.start, &mut bytes[share.at as usize..share.at as usize + length]);
    }
    bytes
}

/// Writes under way; see [`Hdf5Queue::start_all`](crate::hdf5::Hdf5Queue::start_all).
#[must_use = "a request that is not waited for may not be written"]
pub struct Hdf5WriteRequest<'q> {
    pub(super) file: &'q Hdf5File,
    pub(super) request: Request<Vec<u8>>,
    pub(super) written: Vec<(usize, u64)>,
    pub(super) filtered: WrittenChunks,
}

impl Hdf5WriteRequest<'_> {
    /// Waits until it is done. Collective: it succeeds on all ranks or on none.
    pub fn wait(self) -> Result<()> {
        self.request.wait()?;
        for (dataset, rows) in self.written {
            self.file.note_rows_written(dataset, rows);
        }
        self.file.publish_chunks(self.filtered);
        Ok(())
    }

    /// Whether it is done.
    pub fn is_done(&self) -> bool {
        self.request.is_done()
    }
}
