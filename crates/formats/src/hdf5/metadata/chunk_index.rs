//! The index of a chunked dataset: a B-tree of version 1, whose leaves have the addresses of chunks.
//!
//! A node has the chunks, or the nodes, of a fixed range of numbers, so that a new chunk changes one leaf and the nodes above it. Chunks
//! are numbered with the last dimension fastest, which is the order of their keys.

use std::collections::{BTreeMap, BTreeSet};

use super::block_allocator::{BlockAllocator, BlockExtent, MetadataWrite};
use super::message_encode::put_words;
use crate::hdf5::model::chunk_table::StoredChunk;
use crate::hdf5::model::tree::{UNDEFINED_ADDRESS, grid};

/// Children of a node at most; the format fixes it for files of superblock version 0.
const FANOUT: u64 = 64;

/// The chunks of a dataset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkGrid<'d> {
    pub(crate) shape: &'d [u64],
    pub(crate) chunk: &'d [u64],
}

impl ChunkGrid<'_> {
    /// The first element of a chunk, in each dimension.
    fn offsets(&self, mut number: u64) -> Vec<u64> {
        let counts = grid(self.shape, self.chunk);
        let mut offsets = vec![0; counts.len()];
        for at in (0..counts.len()).rev() {
            // The first dimension takes the rest.
            let count = if at == 0 { u64::MAX } else { counts[at].max(1) };
            offsets[at] = number % count * self.chunk[at];
            number /= count;
        }
        offsets
    }
}

#[derive(Clone, Copy, Debug)]
struct IndexNode {
    block: BlockExtent,
    /// The first chunk below it.
    first: u64,
}

/// The nodes of an index, by level and number.
#[derive(Debug, Default)]
pub(crate) struct ChunkIndex {
    chunks: BTreeMap<u64, StoredChunk>,
    levels: Vec<BTreeMap<u64, IndexNode>>,
    /// Leaves that have changed.
    changed: BTreeSet<u64>,
}

impl ChunkIndex {
    /// Adds a chunk, or gives it another location.
    pub(crate) fn set(&mut self, number: u64, location: StoredChunk) {
        if self.chunks.insert(number, location) != Some(location) {
            self.changed.insert(number / FANOUT);
        }
    }

    /// Writes the nodes that have changed; the address of the root.
    pub(crate) fn write(
        &mut self,
        dataset: ChunkGrid<'_>,
        space: &mut BlockAllocator,
        out: &mut Vec<MetadataWrite>,
    ) -> u64 {
        let mut changed = std::mem::take(&mut self.changed);
        let mut level = 0;
        loop {
            if self.levels.len() == level {
                self.levels.push(BTreeMap::new());
                if level > 0 {
                    // The nodes below it have had none above them.
                    changed = self.levels[level - 1].keys().map(|number| number / FANOUT).collect();
                }
            }
            self.write_level(level, &changed, dataset, space, out);
            let nodes = &self.levels[level];
            if let (true, Some((_, root))) = (nodes.len() <= 1, nodes.iter().next())
                && self.levels.len() == level + 1
            {
                return root.block.address;
            }
            if nodes.is_empty() {
                return UNDEFINED_ADDRESS;
            }
            changed = changed.iter().map(|number| number / FANOUT).collect();
            level += 1;
        }
    }

    fn write_level(
        &mut self,
        level: usize,
        changed: &BTreeSet<u64>,
        dataset: ChunkGrid<'_>,
        space: &mut BlockAllocator,
        out: &mut Vec<MetadataWrite>,
    ) {
        let key_bytes = 8 + 8 * (dataset.chunk.len() + 1);
        let length = 24 + FANOUT as usize * (key_bytes + 8) + key_bytes;
        for number in changed {
            let Some(first) = self.children(level, *number).first().map(|(first, _)| *first) else {
                continue;
            };
            let nodes = &mut self.levels[level];
            let mut block = nodes.get(number).map(|node| node.block);
            space.replace(&mut block, length as u64);
            nodes.extend(block.map(|block| (*number, IndexNode { block, first })));
        }
        for number in changed {
            let Some(node) = self.levels[level].get(number).copied() else { continue };
            let address = |(_, node): (&u64, &IndexNode)| node.block.address;
            let left = self.levels[level].range(..number).next_back();
            let right = self.levels[level].range(number + 1..).next();
            // No reader follows the addresses of siblings: those of blocks in use are changed in place.
            for (beside, at) in [(left, 16), (right, 8)] {
                if let Some((_, beside)) = beside.filter(|(number, _)| !changed.contains(number)) {
                    out.push((beside.block.address + at, node.block.address.to_le_bytes().to_vec()));
                }
            }
            let siblings = [left, right].map(|beside| beside.map_or(UNDEFINED_ADDRESS, address));
            let bytes = self.encode_node(level, *number, siblings, dataset, length);
            out.push((node.block.address, bytes));
        }
    }

    /// The children of a node: the first chunk of each, and its address.
    fn children(&self, level: usize, number: u64) -> Vec<(u64, u64)> {
        let range = number * FANOUT..(number + 1) * FANOUT;
        if level == 0 {
            self.chunks.range(range).map(|(number, chunk)| (*number, chunk.address)).collect()
        } else {
            let nodes = self.levels[level - 1].range(range);
            nodes.map(|(_, node)| (node.first, node.block.address)).collect()
        }
    }

    fn encode_node(
        &self,
        level: usize,
        number: u64,
        siblings: [u64; 2],
        dataset: ChunkGrid<'_>,
        length: usize,
    ) -> Vec<u8> {
        let children = self.children(level, number);
        let mut out = Vec::with_capacity(length);
        out.extend_from_slice(b"TREE\x01");
        out.push(level as u8);
        out.extend_from_slice(&(children.len() as u16).to_le_bytes());
        put_words(&mut out, siblings);
        let key = |out: &mut Vec<u8>, chunk: Option<&StoredChunk>, offsets: &[u64]| {
            let (bytes, mask) = chunk.map_or((0, 0), |chunk| (chunk.size as u32, chunk.mask));
            out.extend_from_slice(&bytes.to_le_bytes());
            out.extend_from_slice(&mask.to_le_bytes());
            offsets.iter().chain([&0]).for_each(|offset| put_words(out, [*offset]));
        };
        for (first, address) in &children {
            key(&mut out, self.chunks.get(first), &dataset.offsets(*first));
            put_words(&mut out, [*address]);
        }
        // The first chunk that is not below this node, or what is beyond the last one.
        let span = FANOUT.pow(level as u32 + 1);
        match self.chunks.range((number + 1) * span..).next() {
            Some((next, chunk)) => key(&mut out, Some(chunk), &dataset.offsets(*next)),
            None => {
                let last = self.chunks.last_key_value().map_or(0, |(last, _)| *last);
                let beyond: Vec<u64> =
                    dataset.offsets(last).iter().zip(dataset.chunk).map(|(at, chunk)| at + chunk).collect();
                key(&mut out, None, &beyond);
            }
        }
        out.resize(length, 0);
        out
    }
}
