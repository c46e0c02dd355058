//! Space for blocks of metadata: that of blocks that are no longer in use, or the end of the file.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Blocks begin at a multiple of so many bytes.
pub(crate) const ALIGNMENT: u64 = 8;
/// Writes beyond the old end of the file that are closer than this are merged.
const GAP: u64 = 4096;
/// For how long a reader may follow the metadata that it found when it opened the file.
pub(crate) const GRACE: Duration = Duration::from_secs(60);

/// Bytes of the file, and where they begin.
pub(crate) type MetadataWrite = (u64, Vec<u8>);

/// A block of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockExtent {
    pub(crate) address: u64,
    pub(crate) length: u64,
}

/// Allocates blocks. A block that is replaced is reused after [`GRACE`], so that a reader that opened the file before still finds it.
#[derive(Debug)]
pub(crate) struct BlockAllocator {
    end: u64,
    now: Instant,
    /// By their lengths, the oldest first, and since when they are not in use.
    retired: BTreeMap<u64, VecDeque<(Instant, u64)>>,
}

impl BlockAllocator {
    /// For a file of so many bytes.
    pub(crate) fn new(end: u64) -> Self {
        Self { end, now: Instant::now(), retired: BTreeMap::new() }
    }

    /// Where the file ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Begins a change at a time, with the end of the file at a byte.
    pub(crate) fn begin(&mut self, now: Instant, end: u64) {
        self.now = now;
        self.end = self.end.max(end);
    }

    /// A new block.
    pub(crate) fn allocate(&mut self, length: u64) -> BlockExtent {
        let is_old = |(since, _): &(Instant, u64)| self.now.saturating_duration_since(*since) >= GRACE;
        let blocks = self.retired.get_mut(&length);
        if let Some(blocks) = blocks
            && blocks.front().is_some_and(is_old)
            && let Some((_, address)) = blocks.pop_front()
        {
            return BlockExtent { address, length };
        }
        let address = self.end.next_multiple_of(ALIGNMENT);
        self.end = address + length;
        BlockExtent { address, length }
    }

    /// Notes that a block is no longer in use.
    pub(crate) fn retire(&mut self, block: BlockExtent) {
        self.retired.entry(block.length).or_default().push_back((self.now, block.address));
    }

    /// A new block in the place of one that is no longer in use.
    pub(crate) fn replace(&mut self, old: &mut Option<BlockExtent>, length: u64) -> u64 {
        let new = self.allocate(length);
        if let Some(old) = old.replace(new) {
            self.retire(old);
        }
        new.address
    }
}

/// Writes in the order of the file; close ones beyond its old end are merged, with zeros in between.
pub(crate) fn merge_writes(mut pieces: Vec<MetadataWrite>, before: u64) -> Vec<MetadataWrite> {
    pieces.sort_by_key(|(offset, _)| *offset);
    let mut all: Vec<MetadataWrite> = Vec::new();
    for (offset, bytes) in pieces {
        let end = |(at, bytes): &MetadataWrite| at + bytes.len() as u64;
        let follows =
            |last: &&mut MetadataWrite| last.0 >= before && (end(last)..=end(last) + GAP).contains(&offset);
        match all.last_mut().filter(follows) {
            Some((at, last)) => {
                last.resize((offset - *at) as usize, 0);
                last.extend_from_slice(&bytes);
            }
            None => all.push((offset, bytes)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_reused_after_a_while() {
        let mut space = BlockAllocator::new(100);
        let now = Instant::now();
        space.begin(now, 0);
        let mut block = None;
        assert_eq!(space.replace(&mut block, 10), 104);
        assert_eq!(space.replace(&mut block, 10), 120);
        space.begin(now + GRACE / 2, 0);
        assert_eq!(space.allocate(10).address, 136, "readers may still follow the first block");
        space.begin(now + GRACE, 0);
        assert_eq!((space.allocate(9).address, space.allocate(10).address), (152, 104));
        assert_eq!((space.allocate(10).address, space.end()), (168, 178));
    }

    #[test]
    fn writes_beyond_the_end_are_merged() {
        let writes = vec![(200, vec![2; 8]), (40, vec![1; 4]), (100, vec![3; 4]), (48, vec![1; 4])];
        let merged = merge_writes(writes, 100);
        assert_eq!(
            merged.iter().map(|(at, bytes)| (*at, bytes.len())).collect::<Vec<_>>(),
            [(40, 4), (48, 4), (100, 108)]
        );
    }
}
