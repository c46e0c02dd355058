//! Where the chunks of a dataset are in the file. Pure.

use super::element_conversion::ElementConversion;
use super::tree::{Dataset, Storage, UNDEFINED_ADDRESS, grid};

/// Where a chunk of a dataset is in the file. A dataset without chunks is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkLocation {
    /// Its index in the grid of chunks.
    pub index: Vec<u64>,
    /// Its first byte in the file.
    pub offset: u64,
    /// Its stored size, after the filters.
    pub bytes: u64,
    /// The filters that were skipped, one bit each.
    pub skipped_filters: u32,
}

/// The order of the bytes of stored numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredByteOrder {
    /// As they are read.
    Little,
    /// All numbers in the opposite order.
    Big,
    /// Elements are stored in another way, such as integers of a few bits.
    Other,
}

impl Dataset {
    /// The chunks that the file has; none for data in the metadata.
    pub fn chunk_locations(&self) -> Vec<ChunkLocation> {
        let whole = |offset: u64| {
            let bytes = self.elements().unwrap_or(0).saturating_mul(self.datatype.size());
            ChunkLocation { index: vec![0; self.shape.len()], offset, bytes, skipped_filters: 0 }
        };
        match &self.storage {
            Storage::Contiguous(UNDEFINED_ADDRESS) | Storage::Compact(_) | Storage::Unsupported(_) => {
                Vec::new()
            }
            Storage::Contiguous(offset) => vec![whole(*offset)],
            Storage::Chunked(chunk, addresses) => {
                let counts = grid(&self.shape, chunk);
                let bytes =
                    chunk.iter().fold(self.datatype.size(), |bytes, length| bytes.saturating_mul(*length));
                let stored = addresses.iter().zip(0u64..).filter(|(offset, _)| **offset != UNDEFINED_ADDRESS);
                stored
                    .map(|(offset, number)| ChunkLocation {
                        index: chunk_index(number, &counts),
                        offset: *offset,
                        bytes,
                        skipped_filters: 0,
                    })
                    .collect()
            }
            Storage::ChunkTable(table) => {
                let counts = grid(&self.shape, &table.chunk);
                let location = |(number, chunk): (u64, super::chunk_table::StoredChunk)| ChunkLocation {
                    index: chunk_index(number, &counts),
                    offset: chunk.address,
                    bytes: chunk.size,
                    skipped_filters: chunk.mask,
                };
                table.iter().map(location).collect()
            }
        }
    }

    /// How the numbers of its elements are stored.
    pub fn stored_byte_order(&self) -> StoredByteOrder {
        match &self.conversions[..] {
            [] => StoredByteOrder::Little,
            [ElementConversion::Swap { offset: 0, bytes }] if *bytes == self.datatype.size() => {
                StoredByteOrder::Big
            }
            _ => StoredByteOrder::Other,
        }
    }
}

/// The index of a chunk from its number, the last dimension fastest.
fn chunk_index(number: u64, counts: &[u64]) -> Vec<u64> {
    let mut rest = number;
    let mut index: Vec<u64> = counts
        .iter()
        .rev()
        .map(|count| {
            let at = rest % (*count).max(1);
            rest /= (*count).max(1);
            at
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_chunks_are_indices_of_the_grid() {
        assert_eq!(chunk_index(7, &[2, 3, 2]), [1, 0, 1]);
        assert_eq!(chunk_index(0, &[]), Vec::<u64>::new());
    }
}
