//! Chunks that are decoded before their elements are known: each rank reads and decodes those that it needs.

use std::time::{Duration, Instant};

use aqueduct_file::File;

use crate::error::{Kind, Result};
use crate::format_file::FormatFile;
use crate::hdf5::filters::chunk_decode::decode_chunk;
use crate::hdf5::model::chunk_table::StoredChunk;
use crate::hdf5::model::tree::{Dataset, Storage};
use crate::selection::PerDimension;

/// Bytes of adjacent chunks that are read at once.
const LARGEST_READ: u64 = 8 << 20;

/// The elements of a chunk that are wanted, and where they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackedChunk {
    /// Where the chunk is; none if it is all of a compact dataset.
    pub(crate) stored: Option<StoredChunk>,
    /// Whether filters were not applied because it is beyond the edge of the dataset.
    pub(crate) plain: bool,
    pub(crate) copy: StridedCopy,
}

/// Bytes that are copied in nested steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StridedCopy {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Of each dimension, the slowest first: how many, how far apart there and here.
    pub(crate) steps: PerDimension<(u64, u64, u64)>,
    pub(crate) run: u64,
}

impl StridedCopy {
    /// Joins steps that follow each other in both places.
    pub(crate) fn joined(mut self) -> Self {
        while let Some(&(count, from, to)) = self.steps.last() {
            if count != 1 && (from != self.run || to != self.run) {
                break;
            }
            self.run *= count;
            self.steps.pop();
        }
        self
    }

    fn copy(&self, source: &[u8], target: &mut [u8]) -> Option<()> {
        copy_steps(&self.steps, self.from, self.to, self.run, source, target)
    }
}

fn copy_steps(
    steps: &[(u64, u64, u64)],
    from: u64,
    to: u64,
    run: u64,
    source: &[u8],
    target: &mut [u8],
) -> Option<()> {
    let Some((&(count, from_step, to_step), rest)) = steps.split_first() else {
        let part = source.get(from as usize..)?.get(..run as usize)?;
        target.get_mut(to as usize..)?.get_mut(..run as usize)?.copy_from_slice(part);
        return Some(());
    };
    (0..count)
        .try_for_each(|at| copy_steps(rest, from + at * from_step, to + at * to_step, run, source, target))
}

/// The bytes of chunks in the file.
pub(crate) fn packed_bytes(packed: &[PackedChunk]) -> u64 {
    let sizes = packed.iter().filter_map(|chunk| chunk.stored).map(|stored| stored.size);
    sizes.fold(0, u64::saturating_add)
}

/// Reads and decodes chunks, and copies their elements to `memory`; how long reading took. `early` has the bytes of all chunks in the order
/// of the file if they were read before.
pub(crate) fn unpack(
    core: &FormatFile,
    dataset: &Dataset,
    packed: &[PackedChunk],
    early: Option<&[u8]>,
    memory: &mut [u8],
) -> Result<Duration> {
    let mut took = Duration::ZERO;
    if packed.is_empty() {
        return Ok(took);
    }
    let mut early = early.filter(|early| early.len() as u64 == packed_bytes(packed));
    let length = core.file.size()?;
    let mut order: Vec<&PackedChunk> = packed.iter().collect();
    order.sort_by_key(|chunk| chunk.stored.map(|stored| stored.address));
    let mut bytes = Vec::new();
    let mut rest = order.as_slice();
    while let Some(first) = rest.first() {
        let Some(stored) = first.stored else {
            copy_out(core, first, compact(dataset), memory)?;
            rest = &rest[1..];
            continue;
        };
        let (count, end) = adjacent(rest, stored);
        // The metadata may claim any size; memory is taken for what the file has.
        if end > length {
            return Err(core.truncated_error(
                end - stored.address,
                length.saturating_sub(stored.address),
                "",
            ));
        }
        let size = (end - stored.address) as usize;
        let run: &[u8] = match &mut early {
            Some(rest) => {
                let (run, others) = rest.split_at(size);
                *rest = others;
                run
            }
            None => {
                bytes.resize(size, 0);
                let began = Instant::now();
                read_exactly(core, stored.address, &mut bytes)?;
                took += began.elapsed();
                &bytes
            }
        };
        for chunk in &rest[..count] {
            let Some(part) = chunk.stored else { continue };
            let start = (part.address - stored.address) as usize;
            let part_bytes = &run[start..start + part.size as usize];
            decode_one(core, dataset, chunk, part, part_bytes, memory)?;
        }
        rest = &rest[count..];
    }
    Ok(took)
}

/// How many chunks follow each other in the file, and where they end.
fn adjacent(chunks: &[&PackedChunk], first: StoredChunk) -> (usize, u64) {
    let mut end = first.address.saturating_add(first.size);
    let next = chunks[1..].iter().take_while(|chunk| match chunk.stored {
        Some(stored)
            if stored.address == end && (end - first.address).saturating_add(stored.size) <= LARGEST_READ =>
        {
            end += stored.size;
            true
        }
        _ => false,
    });
    (1 + next.count(), end)
}

fn compact(dataset: &Dataset) -> &[u8] {
    match &dataset.storage {
        Storage::Compact(bytes) => bytes,
        _ => &[],
    }
}

fn decode_one(
    core: &FormatFile,
    dataset: &Dataset,
    chunk: &PackedChunk,
    stored: StoredChunk,
    bytes: &[u8],
    memory: &mut [u8],
) -> Result<()> {
    let filters = if chunk.plain { &[] } else { dataset.filters() };
    let lengths = dataset.chunk().unwrap_or(&[]);
    let wanted = lengths.iter().try_fold(dataset.datatype.size(), |bytes, length| bytes.checked_mul(*length));
    let wanted = wanted.and_then(|wanted| usize::try_from(wanted).ok()).unwrap_or(usize::MAX);
    let decoded = decode_chunk(filters, stored.mask, bytes, wanted).map_err(|what| {
        let detail =
            format!("the chunk at bytes {}+{} cannot be decoded: {what}", stored.address, stored.size);
        core.error(Kind::Damaged, "read", detail)
    })?;
    copy_out(core, chunk, &decoded, memory)
}

fn copy_out(core: &FormatFile, chunk: &PackedChunk, bytes: &[u8], memory: &mut [u8]) -> Result<()> {
    let outside = || core.error(Kind::Damaged, "read", "elements are outside of their chunk");
    chunk.copy.copy(bytes, memory).ok_or_else(outside)
}

/// Reads all of `bytes` from an offset on.
fn read_exactly(core: &FormatFile, offset: u64, bytes: &mut [u8]) -> Result<()> {
    let file: &File = &core.file;
    let wanted = bytes.len() as u64;
    let count = file.at(offset).read_unprefetched(bytes)?.bytes();
    if count == wanted { Ok(()) } else { Err(core.truncated_error(wanted, count, "")) }
}
