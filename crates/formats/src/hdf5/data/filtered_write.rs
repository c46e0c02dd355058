//! Writing chunks with filters: each chunk is assembled and compressed by one rank, all of them are one collective write.
//!
//! A chunk belongs to the lowest rank that writes a part of it; others send it their parts. Compressed chunks lie one after the other from
//! the end of the file on, those of each rank where an exclusive scan of their sizes says. A chunk that is written again gets a new place, so
//! that the old one is whole until the metadata refers to the new one. Only rank 0 learns where all chunks are: it writes the index.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::chunk_lookup::outgoing;
use super::queue::{Hdf5Queue, QueuedWrite};
use super::storage_map::{StorageRegion, split_by_chunks, strides};
use crate::byte_region::{ByteRegion, RegionStride};
use crate::error::{Error, Kind, Result};
use crate::hdf5::file::{ChunksByDataset, Hdf5File};
use crate::hdf5::filters::chunk_encode::encode_chunk;
use crate::hdf5::model::chunk_table::StoredChunk;
use crate::hdf5::model::tree::{Dataset, Storage, grid};
use crate::selection::{PerDimension, ResolvedSelection};

/// Chunks begin at a multiple of so many bytes on each rank.
const RANK_ALIGNMENT: u64 = 8;

/// A write that waits, to a dataset whose chunks have filters.
pub(crate) struct FilteredWrite<'q> {
    pub(crate) dataset: usize,
    /// The end of its rows.
    pub(crate) rows: u64,
    pub(crate) block: ResolvedSelection,
    pub(crate) bytes: Cow<'q, [u8]>,
}

/// A chunk: the number of its dataset, and its own.
pub(crate) type ChunkId = (u64, u64);

/// Chunks that are written, on their way into the metadata.
#[derive(Default)]
pub(crate) struct WrittenChunks {
    /// Their datasets; the same on all ranks.
    datasets: BTreeSet<usize>,
    /// Where they are; on rank 0.
    chunks: ChunksByDataset,
}

/// Elements of a chunk that are written, side by side.
struct ChunkPart {
    first: PerDimension<u64>,
    count: PerDimension<u64>,
    stride: PerDimension<u64>,
    bytes: Vec<u8>,
}

impl ChunkPart {
    /// Whether it is all elements of a chunk that has so many in each dimension.
    fn is_whole(&self, extent: &[u64]) -> bool {
        self.count.as_slice() == extent && self.stride.iter().all(|stride| *stride == 1)
    }

    /// For another rank.
    fn encode(&self, (dataset, number): ChunkId, out: &mut Vec<u8>) {
        let head = [dataset, number, self.first.len() as u64, self.bytes.len() as u64];
        let words = head.iter().chain(&self.first).chain(&self.count).chain(&self.stride);
        words.for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        out.extend_from_slice(&self.bytes);
    }

    fn decode(bytes: &mut &[u8]) -> Option<(ChunkId, Self)> {
        let mut word = || {
            let (word, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            Some(u64::from_le_bytes(*word))
        };
        let (id, dimensions, length) = ((word()?, word()?), word()?, word()?);
        let mut list = || (0..dimensions).map(|_| word()).collect::<Option<PerDimension<u64>>>();
        let (first, count, stride) = (list()?, list()?, list()?);
        let (part, rest) = bytes.split_at_checked(length as usize)?;
        *bytes = rest;
        Some((id, Self { first, count, stride, bytes: part.to_vec() }))
    }
}

/// Numbers of an entry: the dataset, the chunk, where it is, its size, skipped filters.
const ENTRY: usize = 5;

/// Chunks of this rank after their filters.
#[derive(Default)]
struct EncodedChunks {
    bytes: Vec<u8>,
    /// Dataset, number, offset in the bytes, size, skipped filters.
    entries: Vec<[u64; ENTRY]>,
}

impl Hdf5Queue<'_> {
    /// Compresses the chunks of all ranks, which become writes from the end of the file on; where they are going to be. Collective.
    pub(super) fn encode_filtered(&mut self) -> Result<WrittenChunks> {
        let file = self.file;
        if file.filtered_datasets == 0 {
            return Ok(WrittenChunks::default());
        }
        let numbers = [(!self.filtered.is_empty()).into(), file.file_end()];
        let failed = self.failed.clone();
        let ((), [filtered, end]) = file.core.agree_with_max("queue", failed, numbers)?;
        if filtered == 0 {
            return Ok(WrittenChunks::default());
        }
        let mut parts: BTreeMap<ChunkId, Vec<ChunkPart>> = BTreeMap::new();
        let split = self.filtered.iter().try_for_each(|write| file.split_write(write, &mut parts));
        let some_in_part = parts.iter().any(|(id, parts)| !file.is_whole(*id, parts));
        let ((), [in_part]) = file.core.agree_with_max("write", split, [some_in_part.into()])?;
        let mut old = ChunksByDataset::new();
        if in_part > 0 {
            file.exchange_parts(&mut parts)?;
            old = file.find_old_chunks(&parts)?;
        }
        let encoded = file.core.agree("write", file.encode_chunks(parts, &old))?;
        let start = end.next_multiple_of(RANK_ALIGNMENT);
        let (before, total) =
            file.rank_share("write", (encoded.bytes.len() as u64).next_multiple_of(RANK_ALIGNMENT))?;
        file.new_chunks().end = start + total;
        let written = file.gather_entries(&encoded, start + before)?;
        let length = encoded.bytes.len() as u64;
        let regions = ByteRegion::new(start + before, [], length).zip(ByteRegion::new(0, [], length));
        if let Some((file, memory)) = regions.filter(|_| length > 0) {
            let places = vec![StorageRegion { file, memory }];
            // It changes no rows in place.
            self.puts.push(QueuedWrite {
                dataset: 0,
                rows: [u64::MAX, 0],
                places,
                bytes: Cow::Owned(encoded.bytes),
            });
        }
        Ok(written)
    }
}

impl Hdf5File {
    /// Notes chunks that were written: the next commit lets the metadata refer to them.
    pub(super) fn publish_chunks(&self, written: WrittenChunks) {
        if self.core.comm.size() > 1 {
            self.moved_chunks().note_written(&written.datasets);
        }
        let mut new_chunks = self.new_chunks();
        new_chunks.datasets.extend(written.datasets);
        for (dataset, chunks) in written.chunks {
            new_chunks.chunks.entry(dataset).or_default().extend(chunks);
        }
    }

    /// Gives rank 0 the places of chunks, which begin at an offset on this rank. Collective.
    fn gather_entries(&self, encoded: &EncodedChunks, first: u64) -> Result<WrittenChunks> {
        let lost = |error| Error::from_comm("write", &self.core.name, &error);
        let mut bitmap = vec![0u64; self.datasets.len().div_ceil(64)];
        encoded
            .entries
            .iter()
            .for_each(|[dataset, ..]| bitmap[*dataset as usize / 64] |= 1 << (dataset % 64));
        let bitmap = self.core.comm.allreduce_with(&bitmap, |all, own| *all |= own).map_err(lost)?;
        let written = |dataset: &usize| bitmap[dataset / 64] >> (dataset % 64) & 1 != 0;
        let datasets = (0..self.datasets.len()).filter(written).collect();
        let own = encoded.entries.iter();
        let own: Vec<u64> = own
            .flat_map(|[dataset, number, offset, size, mask]| {
                [*dataset, *number, first + offset, *size, *mask]
            })
            .collect();
        let gathered = self.core.comm.gather_varied(0, &own).map_err(lost)?;
        let mut chunks = ChunksByDataset::new();
        for entries in gathered.iter().flatten() {
            for [dataset, number, address, size, mask] in entries.as_chunks::<ENTRY>().0 {
                let chunk = StoredChunk { address: *address, size: *size, mask: *mask as u32 };
                chunks.entry(*dataset as usize).or_default().insert(*number, chunk);
            }
        }
        Ok(WrittenChunks { datasets, chunks })
    }

    /// Whether all elements of a chunk that are in its dataset are written at last.
    fn is_whole(&self, (dataset, number): ChunkId, parts: &[ChunkPart]) -> bool {
        let Ok((_, dataset, chunk)) = self.chunked_dataset(dataset as usize) else { return false };
        parts.last().is_some_and(|part| part.is_whole(&extent_of(dataset, chunk, number)))
    }

    fn chunked_dataset(&self, number: usize) -> Result<(&str, &Dataset, &[u64])> {
        let entry = self.datasets.get(number);
        let found = entry.and_then(|(path, _)| {
            let dataset = self.tree.get(path)?.dataset.as_ref()?;
            Some((path.as_str(), dataset, dataset.chunk()?))
        });
        found.ok_or_else(|| {
            self.core.error(Kind::BadArgument, "write", format!("dataset {number} has no chunks"))
        })
    }

    /// The parts of chunks that a write consists of.
    fn split_write(
        &self,
        write: &FilteredWrite<'_>,
        parts: &mut BTreeMap<ChunkId, Vec<ChunkPart>>,
    ) -> Result<()> {
        let (_, dataset, chunk) = self.chunked_dataset(write.dataset)?;
        let (block, size) = (&write.block, dataset.datatype.size());
        let bad = |what: String| self.core.error(Kind::BadArgument, "write", what);
        let rank = chunk.len();
        let cuts: Vec<Vec<(u64, u64, u64, u64)>> = (0..rank)
            .map(|at| split_by_chunks(block.start[at], block.count[at], block.stride[at], chunk[at]))
            .collect();
        let (grid, steps) = (grid(&dataset.shape, chunk), strides(size, &block.count).map_err(bad)?);
        let mut which = vec![0; rank];
        loop {
            let chosen: Vec<_> = which.iter().zip(&cuts).map(|(which, cuts)| cuts[*which]).collect();
            let number = chosen.iter().zip(&grid).fold(0, |number, (cut, count)| number * count + cut.0);
            let offset = chosen.iter().zip(&steps).map(|(cut, step)| cut.2 * step).sum();
            let counts =
                chosen.iter().zip(&steps).map(|(cut, step)| RegionStride { count: cut.3, stride: *step });
            let region = ByteRegion::new(offset, counts.collect::<PerDimension<_>>(), size);
            let region = region.ok_or_else(|| bad("nothing is written".to_owned()))?;
            let mut bytes = vec![0; region.bytes() as usize];
            self.memory(&region)?
                .gather(&write.bytes, 0, &mut bytes)
                .map_err(|error| bad(error.to_string()))?;
            let part = ChunkPart {
                first: chosen.iter().map(|cut| cut.1).collect(),
                count: chosen.iter().map(|cut| cut.3).collect(),
                stride: block.stride.clone(),
                bytes,
            };
            parts.entry((write.dataset as u64, number)).or_default().push(part);
            let Some(at) = (0..rank).rev().find(|at| which[*at] + 1 < cuts[*at].len()) else { return Ok(()) };
            which[at] += 1;
            which[at + 1..].fill(0);
        }
    }

    /// Sends the parts of chunks to the ranks that they belong to. Collective.
    fn exchange_parts(&self, parts: &mut BTreeMap<ChunkId, Vec<ChunkPart>>) -> Result<()> {
        if self.core.comm.size() == 1 {
            return Ok(());
        }
        let owners = self.find_owners(parts.keys().copied())?;
        let mut messages: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        parts.retain(|id, parts| {
            let owner = owners.get(id).copied().filter(|owner| *owner != self.core.comm.rank());
            if let Some(owner) = owner {
                let message = messages.entry(owner).or_default();
                parts.iter().for_each(|part| part.encode(*id, message));
            }
            owner.is_none()
        });
        let incoming = self.core.comm.route(&outgoing(messages));
        let incoming = incoming.map_err(|error| Error::from_comm("write", &self.core.name, &error))?;
        for (_, message) in incoming {
            let mut message = message.as_slice();
            while let Some((id, part)) = ChunkPart::decode(&mut message) {
                parts.entry(id).or_default().push(part);
            }
        }
        Ok(())
    }

    /// Where chunks are of which this rank writes a part, and that only rank 0 knows. Collective.
    fn find_old_chunks(&self, parts: &BTreeMap<ChunkId, Vec<ChunkPart>>) -> Result<ChunksByDataset> {
        if self.moved_chunks().is_empty() {
            return Ok(ChunksByDataset::new());
        }
        let unknown = |(id, parts): &(&ChunkId, &Vec<ChunkPart>)| {
            !self.knows_chunks(id.0 as usize) && !self.is_whole(**id, parts)
        };
        let wanted: BTreeSet<ChunkId> = parts.iter().filter(unknown).map(|(id, _)| *id).collect();
        self.ask_for_chunks("write", &wanted)
    }

    /// Assembles chunks and applies their filters.
    fn encode_chunks(
        &self,
        parts: BTreeMap<ChunkId, Vec<ChunkPart>>,
        old: &ChunksByDataset,
    ) -> Result<EncodedChunks> {
        let mut out = EncodedChunks::default();
        for ((dataset, number), parts) in parts {
            let (path, described, _) = self.chunked_dataset(dataset as usize)?;
            let Storage::ChunkTable(table) = &described.storage else { continue };
            let chunk = self.assemble_chunk(dataset as usize, number, parts, old)?;
            let (bytes, mask) = encode_chunk(&table.filters, &chunk).map_err(|what| {
                self.core.error(
                    Kind::BadArgument,
                    "write",
                    format!("chunk {number} of dataset {path:?}: {what}"),
                )
            })?;
            out.entries.push([dataset, number, out.bytes.len() as u64, bytes.len() as u64, mask.into()]);
            out.bytes.extend_from_slice(&bytes);
        }
        Ok(out)
    }

    /// A chunk with all parts, over what the file has of it.
    fn assemble_chunk(
        &self,
        dataset: usize,
        number: u64,
        mut parts: Vec<ChunkPart>,
        old: &ChunksByDataset,
    ) -> Result<Vec<u8>> {
        let (_, described, chunk) = self.chunked_dataset(dataset)?;
        if let Some(last) = parts.pop_if(|part| part.is_whole(chunk)) {
            return Ok(last.bytes);
        }
        let size = described.datatype.size();
        let is_whole = self.is_whole((dataset as u64, number), &parts);
        let before = if is_whole { None } else { self.read_chunk(dataset, number, old)? };
        let mut memory = match before {
            Some(before) => before,
            None => {
                let elements = chunk.iter().product::<u64>() as usize;
                let zero = vec![0; size as usize];
                let fill = if described.fill.is_empty() { &zero } else { &described.fill };
                fill.repeat(elements)
            }
        };
        let bad = |what: String| self.core.error(Kind::BadArgument, "write", what);
        let steps = strides(size, chunk).map_err(bad)?;
        for part in parts {
            let offset = part.first.iter().zip(&steps).map(|(first, step)| first * step).sum();
            let counts = part.count.iter().zip(&part.stride).zip(&steps);
            let counts =
                counts.map(|((count, stride), step)| RegionStride { count: *count, stride: stride * step });
            let region = ByteRegion::new(offset, counts.collect::<PerDimension<_>>(), size);
            let region = region.ok_or_else(|| bad("nothing is written".to_owned()))?;
            let outcome = self.memory(&region)?.scatter(&part.bytes, 0, &mut memory);
            outcome.map_err(|error| bad(error.to_string()))?;
        }
        Ok(memory)
    }
}

/// How many elements of a chunk are in its dataset, in each dimension.
fn extent_of(dataset: &Dataset, chunk: &[u64], mut number: u64) -> PerDimension<u64> {
    let mut extent = PerDimension::from_slice(chunk);
    for (at, count) in grid(&dataset.shape, chunk).into_iter().enumerate().rev() {
        let place = number % count.max(1);
        number /= count.max(1);
        extent[at] = chunk[at].min(dataset.shape[at].saturating_sub(place * chunk[at]));
    }
    extent
}
