//! Places: which bytes of the file, and of memory, a part of a dataset has. Pure.

use super::packed_chunk::{PackedChunk, StridedCopy};
use std::collections::BTreeMap;

use crate::byte_region::{ByteRegion, RegionStride};
use crate::hdf5::model::chunk_table::{ChunkTable, StoredChunk};
use crate::hdf5::model::tree::{Dataset, Storage, UNDEFINED_ADDRESS, grid};
use crate::selection::{PerDimension, ResolvedSelection};

/// As many bytes in the file as in memory, in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorageRegion {
    pub(crate) file: ByteRegion,
    pub(crate) memory: ByteRegion,
}

/// Where a part of a dataset is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StorageMap {
    pub(crate) regions: Vec<StorageRegion>,
    /// The memory of unwritten elements, which have no storage in the file.
    pub(crate) gaps: Vec<ByteRegion>,
    /// Chunks that are decoded first.
    pub(crate) packed: Vec<PackedChunk>,
}

/// The storage of a part, which is inside the dataset, not empty, and fits in memory.
///
/// `new` has chunks that were written since the metadata was.
pub(crate) fn map_storage(
    dataset: &Dataset,
    block: &ResolvedSelection,
    new: Option<&BTreeMap<u64, StoredChunk>>,
) -> Result<StorageMap, String> {
    let size = dataset.datatype.size();
    match &dataset.storage {
        Storage::Contiguous(address) => {
            let mut places = StorageMap::default();
            places.add(size, *address, &dataset.shape, &whole(block), block)?;
            Ok(places)
        }
        Storage::Compact(_) => {
            let mut places = StorageMap::default();
            places.pack(size, None, false, &dataset.shape, &whole(block), block)?;
            Ok(places)
        }
        Storage::Chunked(chunk, addresses) => chunked(chunk, dataset, block, |places, number, sub| {
            let address = addresses.get(number as usize).copied().unwrap_or(UNDEFINED_ADDRESS);
            places.add(size, address, chunk, sub, block)
        }),
        Storage::ChunkTable(table) => chunked(&table.chunk, dataset, block, |places, number, sub| match new
            .and_then(|new| new.get(&number).copied())
            .or_else(|| table.find(number))
        {
            None => places.add(size, UNDEFINED_ADDRESS, &table.chunk, sub, block),
            Some(stored) => {
                let plain = table.plain_edges && is_at_edge(table, &dataset.shape, number);
                places.pack(size, Some(stored), plain, &table.chunk, sub, block)
            }
        }),
        Storage::Unsupported(why) => Err(why.clone()),
    }
}

/// All of a block, as one piece of storage.
fn whole(block: &ResolvedSelection) -> ChunkOverlap {
    ChunkOverlap {
        first: block.start.clone(),
        memory: PerDimension::from_elem(0, block.count.len()),
        count: block.count.clone(),
    }
}

/// Whether a chunk is partly outside of the dataset.
fn is_at_edge(table: &ChunkTable, shape: &[u64], mut number: u64) -> bool {
    let counts = grid(shape, &table.chunk);
    (0..shape.len()).rev().any(|at| {
        let place = number % counts[at].max(1);
        number /= counts[at].max(1);
        (place + 1).saturating_mul(table.chunk[at]) > shape[at]
    })
}

/// What a chunk has of a block: where it begins in the chunk and in the block, and how many there are, in each dimension.
struct ChunkOverlap {
    first: PerDimension<u64>,
    memory: PerDimension<u64>,
    count: PerDimension<u64>,
}

impl StorageMap {
    /// One piece of storage of a shape, at an address.
    fn add(
        &mut self,
        size: u64,
        address: u64,
        shape: &[u64],
        sub: &ChunkOverlap,
        block: &ResolvedSelection,
    ) -> Result<(), String> {
        let (strides, inner) = (strides(size, shape)?, strides(size, &block.count)?);
        let mut file = Some(if address == UNDEFINED_ADDRESS { 0 } else { address });
        let mut memory = 0;
        let (mut outer_steps, mut inner_steps) = (PerDimension::new(), PerDimension::new());
        for at in 0..shape.len() {
            file = file.and_then(|file| file.checked_add(sub.first[at].checked_mul(strides[at])?));
            memory += sub.memory[at] * inner[at];
            let stride = strides[at]
                .checked_mul(block.stride[at])
                .ok_or("a stride exceeds the maximum file size (2^63 - 1)")?;
            outer_steps.push(RegionStride { count: sub.count[at], stride });
            inner_steps.push(RegionStride { count: sub.count[at], stride: inner[at] });
        }
        let file = file
            .filter(|file| *file < i64::MAX as u64)
            .ok_or("an offset exceeds the maximum file size (2^63 - 1)")?;
        let memory = ByteRegion::new(memory, inner_steps, size).ok_or("nothing is in it")?;
        if address == UNDEFINED_ADDRESS {
            self.gaps.push(memory);
        } else {
            let file = ByteRegion::new(file, outer_steps, size).ok_or("nothing is in it")?;
            self.regions.push(StorageRegion { file, memory });
        }
        Ok(())
    }
}

impl StorageMap {
    /// One chunk that is decoded, of a shape.
    fn pack(
        &mut self,
        size: u64,
        stored: Option<StoredChunk>,
        plain: bool,
        shape: &[u64],
        sub: &ChunkOverlap,
        block: &ResolvedSelection,
    ) -> Result<(), String> {
        let (strides, inner) = (strides(size, shape)?, strides(size, &block.count)?);
        let mut copy = StridedCopy { from: 0, to: 0, steps: PerDimension::new(), run: size };
        for at in 0..shape.len() {
            copy.from += sub.first[at] * strides[at];
            copy.to += sub.memory[at] * inner[at];
            copy.steps.push((sub.count[at], strides[at].saturating_mul(block.stride[at]), inner[at]));
        }
        self.packed.push(PackedChunk { stored, plain, copy: copy.joined() });
        Ok(())
    }
}

/// Bytes from one to the next in each dimension.
pub(crate) fn strides(size: u64, shape: &[u64]) -> Result<PerDimension<u64>, String> {
    let mut strides = PerDimension::from_elem(size, shape.len());
    for at in (1..shape.len()).rev() {
        let stride = strides[at].checked_mul(shape[at]).filter(|stride| i64::try_from(*stride).is_ok());
        strides[at - 1] = stride.ok_or("it is larger than every file")?;
    }
    Ok(strides)
}

/// The part in each chunk, which `add` puts into the map by the number of the chunk.
fn chunked(
    chunk: &[u64],
    dataset: &Dataset,
    block: &ResolvedSelection,
    add: impl Fn(&mut StorageMap, u64, &ChunkOverlap) -> Result<(), String>,
) -> Result<StorageMap, String> {
    let mut places = StorageMap::default();
    visit_chunks(chunk, dataset, block, |number, sub| add(&mut places, number, sub))?;
    Ok(places)
}

/// The numbers of the chunks that a part of a dataset is in.
pub(crate) fn chunk_numbers(dataset: &Dataset, block: &ResolvedSelection) -> Result<Vec<u64>, String> {
    let mut numbers = Vec::new();
    if let Some(chunk) = dataset.chunk() {
        visit_chunks(chunk, dataset, block, |number, _| {
            numbers.push(number);
            Ok(())
        })?;
    }
    Ok(numbers)
}

/// Calls a function with the number of each chunk that a part of a dataset is in, and with the part in it.
fn visit_chunks(
    chunk: &[u64],
    dataset: &Dataset,
    block: &ResolvedSelection,
    mut visit: impl FnMut(u64, &ChunkOverlap) -> Result<(), String>,
) -> Result<(), String> {
    let rank = chunk.len();
    let cuts: Vec<Vec<(u64, u64, u64, u64)>> = (0..rank)
        .map(|at| split_by_chunks(block.start[at], block.count[at], block.stride[at], chunk[at].max(1)))
        .collect();
    let grid = grid(&dataset.shape, chunk);
    let mut which = vec![0; rank];
    loop {
        let chosen: Vec<_> = which.iter().zip(&cuts).map(|(which, cuts)| cuts[*which]).collect();
        let number = chosen
            .iter()
            .zip(&grid)
            .try_fold(0u64, |number, (cut, count)| number.checked_mul(*count)?.checked_add(cut.0));
        let number = number.ok_or("it has more chunks than can be counted")?;
        let sub = ChunkOverlap {
            first: chosen.iter().map(|cut| cut.1).collect(),
            memory: chosen.iter().map(|cut| cut.2).collect(),
            count: chosen.iter().map(|cut| cut.3).collect(),
        };
        visit(number, &sub)?;
        // The next one, the last dimension first.
        let Some(at) = (0..rank).rev().find(|at| which[*at] + 1 < cuts[*at].len()) else { return Ok(()) };
        which[at] += 1;
        which[at + 1..].fill(0);
    }
}

/// One dimension cut by chunks: which chunk, where it begins in it, where in the block, how many.
pub(crate) fn split_by_chunks(start: u64, count: u64, stride: u64, chunk: u64) -> Vec<(u64, u64, u64, u64)> {
    let (mut cuts, mut done) = (Vec::new(), 0);
    while done < count {
        let at = start + done * stride;
        let number = at / chunk;
        let room = ((number + 1).saturating_mul(chunk) - at).div_ceil(stride).min(count - done);
        cuts.push((number, at - number * chunk, done, room));
        done += room;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use aqueduct_testkit::rng::SeededRng;

    use super::*;
    use crate::hdf5::model::datatype::Datatype;

    /// The bytes of a region, one by one.
    fn bytes(region: &ByteRegion) -> Vec<u64> {
        match region.split() {
            Some(parts) => parts.flat_map(|part| bytes(&part)).collect(),
            None => (region.offset..region.offset + region.run).collect(),
        }
    }

    /// Every element of every block is found at its place, in chunks of any shape; those of chunks that are nowhere, in gaps.
    #[test]
    fn elements_lie_where_chunks_say() {
        for seed in 0..2000 {
            let seeded = &mut SeededRng::new(seed);
            let mut below = |most: usize| seeded.below(most) as u64;
            let shape = [1 + below(5), 1 + below(7)];
            let chunk = [1 + below(4), 1 + below(4)];
            let count = grid(&shape, &chunk);
            let mut address = |at: u64| if below(4) == 0 { UNDEFINED_ADDRESS } else { (at * 7 + 3) * 100 };
            let addresses: Vec<u64> = (0..count[0] * count[1]).map(&mut address).collect();
            let stride = [1 + below(2), 1 + below(3)];
            let start = [below(shape[0] as usize), below(shape[1] as usize)];
            let most = |at: usize| (shape[at] - start[at]).div_ceil(stride[at]) as usize;
            let taken = [1 + below(most(0)), 1 + below(most(1))];
            let block = ResolvedSelection {
                start: PerDimension::from_slice(&start),
                count: PerDimension::from_slice(&taken),
                stride: PerDimension::from_slice(&stride),
            };
            let storage = Storage::Chunked(chunk.to_vec(), addresses.clone());
            let (datatype, fill) = (Datatype::UInt(2), Vec::new());
            let (shape_of, limits, conversions) = (shape.to_vec(), Vec::new(), Vec::new());
            let dataset =
                Dataset { datatype, shape: shape_of, extendible: true, storage, fill, limits, conversions };
            let mut found = vec![None; (taken[0] * taken[1]) as usize];
            let StorageMap { regions: places, gaps, .. } = map_storage(&dataset, &block, None).unwrap();
            for byte in gaps.iter().flat_map(bytes).step_by(2) {
                assert!(found[byte as usize / 2].replace(UNDEFINED_ADDRESS).is_none(), "seed {seed}: twice");
            }
            for place in places {
                let pairs: Vec<_> = bytes(&place.file).into_iter().zip(bytes(&place.memory)).collect();
                for pair in pairs.chunks(2) {
                    assert!(found[pair[0].1 as usize / 2].replace(pair[0].0).is_none(), "seed {seed}: twice");
                }
            }
            for row in 0..taken[0] {
                for column in 0..taken[1] {
                    let at = [start[0] + row * stride[0], start[1] + column * stride[1]];
                    let number = at[0] / chunk[0] * count[1] + at[1] / chunk[1];
                    let inside = at[0] % chunk[0] * chunk[1] + at[1] % chunk[1];
                    let address = addresses[number as usize];
                    let expected =
                        if address == UNDEFINED_ADDRESS { UNDEFINED_ADDRESS } else { address + 2 * inside };
                    assert_eq!(found[(row * taken[1] + column) as usize], Some(expected), "seed {seed}");
                }
            }
        }
    }
}
