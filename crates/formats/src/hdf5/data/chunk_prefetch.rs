//! Reading ahead chunks with filters, whose sizes differ: a sequence of selections that differ in their first row only.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::prefetcher::{PrefetchedValues, Prefetcher, SequenceRead, is_worth_prefetching};
use aqueduct_file::{PrefetchStats, View};

use super::packed_chunk::packed_bytes;
use super::read_queue::QueuedRead;
use super::storage_map::map_storage;
use crate::byte_region::ByteRegion;
use crate::hdf5::file::Hdf5File;
use crate::hdf5::model::tree::Dataset;
use crate::merge::merge_regions;
use crate::selection::{PerDimension, ResolvedSelection};

/// Selections that differ in their first row only: the number of the dataset; starts, counts and strides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChunkSelection {
    dataset: usize,
    inner: PerDimension<u64>,
    count: PerDimension<u64>,
    stride: PerDimension<u64>,
}

impl Hdf5File {
    /// Statistics of reading ahead, which needs a file that is only read. The hint `aqueduct_prefetch` is the limit of the memory of
    /// compressed chunks, and again of everything else.
    pub fn prefetch_stats(&self) -> PrefetchStats {
        let (chunks, file) = (self.lock_chunk_prefetcher().stats(), self.core.file.prefetch_stats());
        PrefetchStats {
            hits: chunks.hits + file.hits,
            misses: chunks.misses + file.misses,
            held: chunks.held + file.held,
            peak: chunks.peak + file.peak,
            cap: chunks.cap + file.cap,
        }
    }

    /// Begins to read ahead in a file that was opened, or opened again.
    pub(crate) fn reset_chunk_prefetcher(&self) {
        *self.lock_chunk_prefetcher() = Prefetcher::new(self.core.file.prefetch_cap());
    }

    fn lock_chunk_prefetcher(&self) -> MutexGuard<'_, Prefetcher<ChunkSelection>> {
        self.chunk_prefetcher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The read as one of a sequence, if chunks are read ahead.
    pub(super) fn chunk_sequence(&self, get: &QueuedRead<'_>) -> Option<SequenceRead<ChunkSelection>> {
        let block = get.chunked.as_ref().filter(|block| !block.start.is_empty())?;
        if self.core.file.prefetch_cap() == 0 {
            return None;
        }
        let kind = ChunkSelection {
            dataset: get.number,
            inner: block.start[1..].iter().copied().collect(),
            count: block.count.clone(),
            stride: block.stride.clone(),
        };
        Some(SequenceRead { kind, place: block.start[0], unit: block.rows().saturating_sub(block.start[0]) })
    }

    /// The bytes of all chunks of a read in the order of the file, if they were read ahead.
    pub(super) fn take_chunks(&self, read: &SequenceRead<ChunkSelection>) -> Option<Vec<u8>> {
        let early = self.lock_chunk_prefetcher().take(read);
        early.and_then(PrefetchedValues::wait)
    }

    /// Starts the reads that are expected next; `took` is the time of this one, none if it had been read ahead.
    pub(super) fn prefetch_chunks(
        &self,
        get: &QueuedRead<'_>,
        read: &SequenceRead<ChunkSelection>,
        took: Option<Duration>,
    ) {
        let Some(block) = &get.chunked else { return };
        let bytes = packed_bytes(&get.places.packed);
        let mut prefetcher = self.lock_chunk_prefetcher();
        if took.is_some_and(|took| !is_worth_prefetching(bytes, took)) {
            return prefetcher.note(read);
        }
        let find = |row: u64| chunks_at(get.dataset, block, row);
        prefetcher.request_next(&self.core.comm, read, find, |view, memory| {
            self.core.file.with_view(&view).start_read(memory)
        });
    }
}

/// The chunks of a selection that is moved to another first row: how many bytes they have, and where. None if the dataset does not have them.
fn chunks_at(dataset: &Dataset, block: &ResolvedSelection, row: u64) -> Option<(u64, View)> {
    let mut block = block.clone();
    block.start[0] = row;
    if block.rows() > dataset.rows() {
        return None;
    }
    let packed = map_storage(dataset, &block, None).ok()?.packed;
    let mut chunks: Vec<_> = packed.iter().filter_map(|chunk| chunk.stored).collect();
    chunks.sort_by_key(|chunk| chunk.address);
    // In a damaged file they may overlap.
    let are_apart =
        chunks.windows(2).all(|pair| pair[0].address.saturating_add(pair[0].size) <= pair[1].address);
    let regions: Vec<_> = chunks.iter().map(|chunk| ByteRegion::new(chunk.address, [], chunk.size)).collect();
    let merged = merge_regions(regions.iter().map(Option::as_ref)).ok().flatten().filter(|_| are_apart)?;
    let view = View::new(merged.offset, &Layout::from(Basic::Byte), &merged.layout).ok()?;
    (merged.bytes == packed_bytes(&packed)).then_some((merged.bytes, view))
}
