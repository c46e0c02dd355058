//! Chunk indexes of all kinds: which chunks a dataset has, and where.

use super::btree_v1::{self, BtreeV1Kind};
use super::btree_v2;
use super::byte_cursor::{ByteCursor, Decoded};
use super::data_layout::{ChunkIndexKind, ChunkedLayout};
use super::dataspace::Dataspace;
use super::extensible_array;
use super::fixed_array;
use super::metadata_source::MetadataSource;
use crate::hdf5::model::chunk_table::{ChunkFilter, ChunkTable, StoredChunk};
use crate::hdf5::model::tree::{Storage, UNDEFINED_ADDRESS, UNLIMITED, grid};

/// Fewer unwritten chunks than this are listed one by one.
const FEW_GAPS: u64 = 1 << 10;

/// The numbers of an index: chunks in rows of the largest grid, for arrays that can grow.
struct ChunkNumbering {
    /// The present grid.
    grid: Vec<u64>,
    /// How many chunks one step in each dimension passes, in the order of the index.
    strides: Vec<u64>,
    /// The number of chunks of each dimension in the order of the index; the slowest has no limit.
    order: Vec<usize>,
}

/// The chunks that were found so far.
pub(super) struct ChunkCollector {
    numbering: ChunkNumbering,
    /// Bytes of a chunk without filters.
    chunk_bytes: u64,
    filtered: bool,
    found: Vec<(u64, StoredChunk)>,
    /// The most chunks that a file of this length can have.
    most: u64,
}

/// Reads the index of a dataset.
pub(crate) fn read(
    source: &MetadataSource<'_>,
    space: &Dataspace,
    layout: &ChunkedLayout,
    filters: Vec<ChunkFilter>,
) -> Decoded<Storage> {
    if layout.chunk.len() != space.shape.len() {
        return Err(format!("chunks of shape {:?} in {:?}", layout.chunk, space.shape));
    }
    let chunk_bytes = layout.chunk.iter().try_fold(layout.element, |all, length| all.checked_mul(*length));
    let chunk_bytes = chunk_bytes.filter(|bytes| i64::try_from(*bytes).is_ok());
    let chunk_bytes = chunk_bytes.ok_or_else(|| format!("chunks of shape {:?}", layout.chunk))?;
    let mut collector = ChunkCollector {
        numbering: ChunkNumbering::new(space, layout),
        chunk_bytes,
        filtered: !filters.is_empty(),
        found: Vec::new(),
        // Each has an entry of eight bytes, or at least a byte of its own.
        most: source.file_length() / if layout.index == ChunkIndexKind::Implicit { 1 } else { 8 },
    };
    if layout.address != UNDEFINED_ADDRESS && !space.shape.contains(&0) {
        collector.collect(source, layout)?;
    }
    Ok(collector.storage(source, layout, filters))
}

impl ChunkNumbering {
    fn new(space: &Dataspace, layout: &ChunkedLayout) -> Self {
        let limits = if space.limits.is_empty() { &space.shape } else { &space.limits };
        let mut order: Vec<usize> = (0..space.shape.len()).collect();
        if layout.index == ChunkIndexKind::ExtensibleArray
            && let Some(unlimited) = limits.iter().position(|limit| *limit == UNLIMITED)
        {
            order.remove(unlimited);
            order.insert(0, unlimited);
        }
        let mut strides = vec![1u64; order.len()];
        for at in (1..order.len()).rev() {
            let dimension = order[at];
            let count = limits[dimension].div_ceil(layout.chunk[dimension]);
            // Trees do not count chunks: a number is not needed for them.
            strides[at - 1] = strides[at].saturating_mul(count.max(1));
        }
        Self { grid: grid(&space.shape, &layout.chunk), strides, order }
    }

    /// The number in the present grid of a chunk by its number in the index; none if it is outside.
    fn present(&self, mut number: u64) -> Option<u64> {
        let mut place = vec![0; self.grid.len()];
        for (stride, dimension) in self.strides.iter().zip(&self.order) {
            place[*dimension] = number / stride;
            number %= stride;
        }
        self.number(place.into_iter())
    }

    /// The number in the present grid of a chunk by its place; none if it is outside.
    fn number(&self, place: impl Iterator<Item = u64>) -> Option<u64> {
        place.zip(&self.grid).try_fold(0u64, |number, (at, count)| {
            if at < *count { number.checked_mul(*count)?.checked_add(at) } else { None }
        })
    }

    /// How many entries of an index the present grid can need.
    fn most_entries(&self) -> u64 {
        let last = self.strides.iter().zip(&self.order);
        let last = last.fold(0u64, |all, (stride, dimension)| {
            all.saturating_add(stride.saturating_mul(self.grid[*dimension].saturating_sub(1)))
        });
        last.saturating_add(1)
    }
}

impl ChunkCollector {
    fn collect(&mut self, source: &MetadataSource<'_>, layout: &ChunkedLayout) -> Decoded<()> {
        let address = layout.address;
        match layout.index {
            ChunkIndexKind::Single(filtered) => {
                let (size, mask) = filtered.unwrap_or((self.chunk_bytes, 0));
                self.add_numbered(0, StoredChunk { address, size, mask })
            }
            ChunkIndexKind::Implicit => self.collect_implicit(source, address),
            ChunkIndexKind::BtreeV1 => self.collect_tree(source, address, &layout.chunk),
            ChunkIndexKind::BtreeV2 => self.collect_tree_v2(source, address),
            ChunkIndexKind::FixedArray => fixed_array::read(source, address, self),
            ChunkIndexKind::ExtensibleArray => extensible_array::read(source, address, self),
        }
    }

    fn collect_implicit(&mut self, source: &MetadataSource<'_>, address: u64) -> Decoded<()> {
        let entries = self.numbering.most_entries();
        let end = entries.checked_mul(self.chunk_bytes).and_then(|bytes| bytes.checked_add(address));
        if end.is_none_or(|end| end > source.file_length()) {
            return Err(format!(
                "{entries} chunks of {} bytes are beyond the end of the file",
                self.chunk_bytes
            ));
        }
        for number in 0..entries {
            let address = address + number * self.chunk_bytes;
            self.add_numbered(number, StoredChunk { address, size: self.chunk_bytes, mask: 0 })?;
        }
        Ok(())
    }

    fn collect_tree(&mut self, source: &MetadataSource<'_>, address: u64, chunk: &[u64]) -> Decoded<()> {
        btree_v1::walk(source, address, BtreeV1Kind::Chunks(chunk.len()), &mut |key, child| {
            let (size, mask) = (u64::from(key.u32()?), key.u32()?);
            let offsets = chunk.iter().map(|_| key.u64()).collect::<Decoded<Vec<_>>>()?;
            let place = offsets.iter().zip(chunk).map(|(offset, length)| offset / length);
            let number = self.numbering.number(place);
            self.add(number, StoredChunk { address: child, size, mask })
        })
    }

    fn collect_tree_v2(&mut self, source: &MetadataSource<'_>, address: u64) -> Decoded<()> {
        let tree = btree_v2::read(source, address)?;
        let rank = self.numbering.grid.len();
        let wanted = if self.filtered { 11 } else { 10 };
        let fixed = source.sizes().offset + 8 * rank + if self.filtered { 4 } else { 0 };
        let size_bytes = tree.record.checked_sub(fixed).filter(|bytes| *bytes <= 8);
        let size_bytes = size_bytes.filter(|bytes| self.filtered || *bytes == 0);
        let (Some(size_bytes), true) = (size_bytes, tree.kind == wanted) else {
            return Err(format!("chunks in records of kind {} and {} bytes", tree.kind, tree.record));
        };
        tree.walk(source, &mut |record| {
            let mut cursor = source.cursor(record);
            let chunk = self.entry(&mut cursor, size_bytes)?;
            let place = (0..rank).map(|_| cursor.u64()).collect::<Decoded<Vec<_>>>()?;
            let number = self.numbering.number(place.into_iter());
            self.add(number, chunk)
        })
    }

    /// How many entries of an array are of interest.
    pub(super) fn most_entries(&self) -> u64 {
        self.numbering.most_entries()
    }

    /// Bytes of the stored size in an entry of so many bytes.
    pub(super) fn size_bytes(&self, source: &MetadataSource<'_>, client: u8, entry: usize) -> Decoded<usize> {
        let fixed = source.sizes().offset + if self.filtered { 4 } else { 0 };
        let bytes = entry.checked_sub(fixed).filter(|bytes| *bytes <= 8);
        let bytes = bytes.filter(|bytes| (*bytes > 0) == self.filtered && (client == 1) == self.filtered);
        bytes.ok_or_else(|| format!("entries of kind {client} and {entry} bytes"))
    }

    /// An address, and for chunks with filters a size and a mask.
    pub(super) fn entry(&self, cursor: &mut ByteCursor<'_>, size_bytes: usize) -> Decoded<StoredChunk> {
        let address = cursor.address()?;
        if !self.filtered {
            return Ok(StoredChunk { address, size: self.chunk_bytes, mask: 0 });
        }
        Ok(StoredChunk { address, size: cursor.uint(size_bytes)?, mask: cursor.u32()? })
    }

    /// Adds entries of an array that begin at a number.
    pub(super) fn add_entries(
        &mut self,
        source: &MetadataSource<'_>,
        first: u64,
        entries: &[u8],
        entry: usize,
        size_bytes: usize,
    ) -> Decoded<()> {
        for (at, bytes) in entries.chunks_exact(entry).enumerate() {
            let chunk = self.entry(&mut source.cursor(bytes), size_bytes)?;
            self.add_numbered(first + at as u64, chunk)?;
        }
        Ok(())
    }

    fn add_numbered(&mut self, number: u64, chunk: StoredChunk) -> Decoded<()> {
        self.add(self.numbering.present(number), chunk)
    }

    /// Adds a chunk. One outside of the grid was left there by a program that has shrunk the dataset.
    fn add(&mut self, number: Option<u64>, chunk: StoredChunk) -> Decoded<()> {
        let Some(number) = number.filter(|_| chunk.address != UNDEFINED_ADDRESS) else { return Ok(()) };
        if self.found.len() as u64 >= self.most {
            return Err(format!("more chunks than {} bytes can hold", self.most));
        }
        if !self.filtered && chunk.size != self.chunk_bytes {
            return Err(format!("a chunk of {} bytes instead of {}", chunk.size, self.chunk_bytes));
        }
        self.found.push((number, chunk));
        Ok(())
    }

    /// All chunks: in a row if nearly all of them are there and have no filters, otherwise as a table.
    fn storage(
        mut self,
        source: &MetadataSource<'_>,
        layout: &ChunkedLayout,
        filters: Vec<ChunkFilter>,
    ) -> Storage {
        self.found.sort_by_key(|(number, _)| *number);
        self.found.dedup_by_key(|(number, _)| *number);
        // A chunk beyond every file has no offset; reading it fails.
        let offset = |address: u64| source.offset_of(address).unwrap_or(i64::MAX as u64);
        let all = self.numbering.grid.iter().try_fold(1u64, |all, count| all.checked_mul(*count));
        let gaps = all.map(|all| all.saturating_sub(self.found.len() as u64));
        if let (Some(all), false, true) = (all, self.filtered, gaps.is_some_and(|gaps| gaps <= FEW_GAPS)) {
            let mut addresses = vec![UNDEFINED_ADDRESS; all as usize];
            for (number, chunk) in &self.found {
                addresses[*number as usize] = offset(chunk.address);
            }
            return Storage::Chunked(layout.chunk.clone(), addresses);
        }
        let masked = self.found.iter().any(|(_, chunk)| chunk.mask != 0);
        let masks = self.found.iter().filter(|_| masked).map(|(_, chunk)| chunk.mask);
        Storage::ChunkTable(ChunkTable {
            chunk: layout.chunk.clone(),
            filters,
            numbers: self.found.iter().map(|(number, _)| *number).collect(),
            addresses: self.found.iter().map(|(_, chunk)| offset(chunk.address)).collect(),
            sizes: self.found.iter().map(|(_, chunk)| chunk.size).collect(),
            masks: masks.collect(),
            plain_edges: layout.plain_edges,
        })
    }
}
