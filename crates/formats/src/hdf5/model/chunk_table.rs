//! The chunks of a dataset that are in the file, with their filters: what a chunk index says. Pure.

use aqueduct_object::Object;

/// A filter that chunks went through when they were written.
#[derive(Clone, Debug, PartialEq, Eq, Object)]
pub struct ChunkFilter {
    /// The registered number: 1 is deflate, 2 shuffle, 3 Fletcher-32.
    pub id: u16,
    /// The name in the file; empty where there is none.
    pub name: String,
    /// Its parameters (`cd_values`).
    pub parameters: Vec<u32>,
}

/// Chunks by their numbers, the last dimension of chunks counted fastest.
#[derive(Clone, Debug, Default, PartialEq, Object)]
pub(crate) struct ChunkTable {
    /// The shape of a chunk.
    pub(crate) chunk: Vec<u64>,
    /// In the order in which they were applied.
    pub(crate) filters: Vec<ChunkFilter>,
    /// The numbers of the chunks that the file has, ascending.
    pub(crate) numbers: Vec<u64>,
    /// Where each of them begins in the file.
    pub(crate) addresses: Vec<u64>,
    /// How many bytes of the file each of them has.
    pub(crate) sizes: Vec<u64>,
    /// Filters that were skipped, one bit each; empty if none ever was.
    pub(crate) masks: Vec<u32>,
    /// Whether chunks beyond the edge of the dataset are stored without filters.
    pub(crate) plain_edges: bool,
}

/// Where a chunk is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredChunk {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) mask: u32,
}

impl ChunkTable {
    /// Adds a chunk, or gives it another place.
    pub(crate) fn set(&mut self, number: u64, chunk: StoredChunk) {
        if chunk.mask != 0 && self.masks.is_empty() {
            self.masks.resize(self.numbers.len(), 0);
        }
        let at = match self.numbers.binary_search(&number) {
            Ok(at) => at,
            Err(at) => {
                self.numbers.insert(at, number);
                self.addresses.insert(at, 0);
                self.sizes.insert(at, 0);
                if !self.masks.is_empty() || chunk.mask != 0 {
                    self.masks.insert(at, 0);
                }
                at
            }
        };
        (self.addresses[at], self.sizes[at]) = (chunk.address, chunk.size);
        if let Some(mask) = self.masks.get_mut(at) {
            *mask = chunk.mask;
        }
    }

    /// All chunks with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, StoredChunk)> {
        self.numbers.iter().filter_map(|number| Some((*number, self.find(*number)?)))
    }

    /// A chunk by its number; none if it was never written.
    pub(crate) fn find(&self, number: u64) -> Option<StoredChunk> {
        let at = self.numbers.binary_search(&number).ok()?;
        let mask = self.masks.get(at).copied().unwrap_or(0);
        Some(StoredChunk { address: *self.addresses.get(at)?, size: *self.sizes.get(at)?, mask })
    }
}
