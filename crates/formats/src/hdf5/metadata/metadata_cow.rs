//! Renewal: a changed description beside the one in use. Pure.
//!
//! Changed blocks, and those that point to them, up to the root, are written to unused space; then the superblock, in one sector, gets the
//! address of the new root. At any time the file has the old metadata or the new one, complete, for every program that
//! reads it. The places that the old blocks had are taken by those of later renewals, but not before [`GRACE`] has passed: a reader that
//! opened the file earlier may still follow the old description.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use super::byte_image::ByteImage;
use super::metadata_file::MetadataWrite;
use super::metadata_graph::{BlockPointer, END_AT, MetadataGraph, SUPERBLOCK};
use super::ordered_writes::OrderedWrites;

/// What begins at a multiple of so many bytes.
const ALIGNMENT: u64 = 8;
/// Writes to unused space that are closer than this are merged.
const GAP: u64 = 4096;

/// How long a reader may follow the description that it found when it opened the file.
const GRACE: Duration = Duration::from_secs(60);

/// Places of blocks that the description refers to no longer, by their lengths, the oldest first, and since when.
#[derive(Debug, Default)]
pub(crate) struct RetiredBlocks(BTreeMap<u64, VecDeque<(Instant, u64)>>);

/// Blocks that have moved: from where, how long, to where.
#[derive(Debug, Default)]
pub(crate) struct BlockMoves(BTreeMap<u64, (u64, u64)>);

impl BlockMoves {
    /// Where a byte is now.
    pub(crate) fn place(&self, at: u64) -> u64 {
        match self.0.range(..=at).next_back() {
            Some((from, (length, to))) if at < from + length => to + (at - from),
            _ => at,
        }
    }

    fn has(&self, block: u64) -> bool {
        self.0.contains_key(&block)
    }
}

/// How a file's description is renewed.
#[derive(Debug)]
pub(crate) struct MetadataCow {
    pub(crate) patch: OrderedWrites,
    pub(crate) moves: BlockMoves,
    /// Where the file ends then.
    pub(crate) length: u64,
}

impl MetadataCow {
    /// The renewal of a file that had `before` bytes, was changed like this in memory, and now looks like `image` there; none if it has something
    /// that cannot be moved.
    pub(crate) fn new(
        image: &ByteImage<'_>,
        changes: &[MetadataWrite],
        before: u64,
        spare: &mut RetiredBlocks,
    ) -> Option<Self> {
        Self::at(Instant::now(), image, changes, before, spare)
    }

    /// The same at a given time.
    fn at(
        now: Instant,
        image: &ByteImage<'_>,
        changes: &[MetadataWrite],
        before: u64,
        spare: &mut RetiredBlocks,
    ) -> Option<Self> {
        let graph = MetadataGraph::of(image)?;
        let changed = changed(&graph, changes, before);
        let moving = with_ancestors(&graph, changed);
        let (moves, length) =
            allocate_blocks(&graph, &moving, image.length, |length| spare.take(length, now));
        let at_new_place = |pointer: &BlockPointer| (pointer.at, moves.place(pointer.to).to_le_bytes());
        let mut fresh: Vec<MetadataWrite> = Vec::new();
        for (from, (length, to)) in &moves.0 {
            fresh.push((*to, relocate_pointers(image, &graph, *from..from + length, at_new_place)?));
        }
        let mut first = relocate_pointers(image, &graph, 0..SUPERBLOCK, at_new_place)?;
        first[END_AT as usize..END_AT as usize + 8].copy_from_slice(&length.to_le_bytes());
        let mut after = Vec::new();
        for (offset, bytes) in changes {
            let cut = (before.saturating_sub(*offset) as usize).min(bytes.len());
            let (old, new) = bytes.split_at(cut);
            if !new.is_empty() {
                fresh.push((offset + cut as u64, new.to_vec()));
            }
            after.extend(outside(&moves, *offset, old));
        }
        // Siblings of a moved node get its new address.
        let beside = |pointer: &&BlockPointer| {
            pointer.sideways
                && moves.has(pointer.to)
                && graph.block_containing(pointer.at).is_some_and(|at| !moves.has(at))
        };
        after
            .extend(graph.pointers.iter().filter(beside).map(at_new_place).map(|(at, to)| (at, to.to_vec())));
        spare.retire(&moves, now);
        let patch = OrderedWrites { unreferenced: joined(fresh, before), in_place: vec![(0, first)], after };
        Some(Self { patch, moves, length })
    }
}

impl RetiredBlocks {
    /// A place of this length that no reader follows any more.
    fn take(&mut self, length: u64, now: Instant) -> Option<u64> {
        let places = self.0.get_mut(&length)?;
        let is_old = |(since, _): &(Instant, u64)| now.saturating_duration_since(*since) >= GRACE;
        places.front().is_some_and(is_old).then(|| places.pop_front())?.map(|(_, place)| place)
    }

    fn retire(&mut self, moves: &BlockMoves, now: Instant) {
        for (from, (length, _)) in &moves.0 {
            self.0.entry(*length).or_default().push_back((now, *from));
        }
    }
}

/// The blocks in use that are changed.
fn changed(graph: &MetadataGraph, changes: &[MetadataWrite], before: u64) -> BTreeSet<u64> {
    let mut changed = BTreeSet::new();
    for (offset, bytes) in changes {
        let end = (offset + bytes.len() as u64).min(before);
        changed.extend(graph.block_containing(*offset).filter(|_| *offset < end));
        changed.extend(graph.blocks.range(*offset..end.max(*offset)).map(|(at, _)| *at));
    }
    changed
}

/// The same, and all blocks on the way to them.
fn with_ancestors(graph: &MetadataGraph, changed: BTreeSet<u64>) -> BTreeSet<u64> {
    let mut above: HashMap<u64, Vec<u64>> = HashMap::new();
    for pointer in graph.pointers.iter().filter(|pointer| !pointer.sideways) {
        above.entry(pointer.to).or_default().extend(graph.block_containing(pointer.at));
    }
    let mut left: Vec<u64> = changed.iter().copied().collect();
    let mut all = changed;
    while let Some(block) = left.pop() {
        left.extend(above.get(&block).into_iter().flatten().filter(|block| all.insert(**block)));
    }
    all
}

/// Space for blocks: free space, or the end of the file, which is extended.
fn allocate_blocks(
    graph: &MetadataGraph,
    moving: &BTreeSet<u64>,
    end: u64,
    mut spare: impl FnMut(u64) -> Option<u64>,
) -> (BlockMoves, u64) {
    let (mut moves, mut end) = (BlockMoves::default(), end);
    for (from, length) in moving.iter().filter_map(|block| graph.blocks.get_key_value(block)) {
        let to = spare(*length).unwrap_or_else(|| {
            let to = end.next_multiple_of(ALIGNMENT);
            end = to + length;
            to
        });
        moves.0.insert(*from, (*length, to));
    }
    (moves, end)
}

/// Some bytes with the addresses in them renewed.
fn relocate_pointers(
    image: &ByteImage<'_>,
    graph: &MetadataGraph,
    range: Range<u64>,
    at_new_place: impl Fn(&BlockPointer) -> (u64, [u8; 8]),
) -> Option<Vec<u8>> {
    let mut bytes = image.bytes(range.start, range.end - range.start)?;
    for (at, word) in graph.pointers_in(&range).iter().map(at_new_place) {
        let inside = (at - range.start) as usize;
        bytes[inside..inside + 8].copy_from_slice(&word);
    }
    Some(bytes)
}

/// Writes in the order of the file; beyond its old end close ones are merged, with zeros in between.
fn joined(mut pieces: Vec<MetadataWrite>, before: u64) -> Vec<MetadataWrite> {
    pieces.sort_by_key(|(offset, _)| *offset);
    let mut all: Vec<MetadataWrite> = Vec::new();
    for (offset, bytes) in pieces {
        let end = |(at, bytes): &MetadataWrite| at + bytes.len() as u64;
        match all
            .last_mut()
            .filter(|last| last.0 >= before && (end(last)..=end(last) + GAP).contains(&offset))
        {
            Some((at, last)) => {
                last.resize((offset - *at) as usize, 0);
                last.extend_from_slice(&bytes);
            }
            None => all.push((offset, bytes)),
        }
    }
    all
}

/// The parts of a write outside of moved blocks and of the superblock.
fn outside(moves: &BlockMoves, offset: u64, bytes: &[u8]) -> Vec<MetadataWrite> {
    let (mut at, end, mut pieces) = (offset.max(SUPERBLOCK), offset + bytes.len() as u64, Vec::new());
    let mut keep = |range: Range<u64>| {
        if !range.is_empty() {
            pieces.push((
                range.start,
                bytes[(range.start - offset) as usize..(range.end - offset) as usize].to_vec(),
            ));
        }
    };
    for (from, (length, _)) in &moves.0 {
        if from + length > at && *from < end {
            keep(at..(*from).max(at));
            at = from + length;
        }
    }
    keep(at.min(end)..end);
    pieces
}

#[cfg(test)]
mod tests {
    use super::super::libhdf5;
    use super::super::metadata_file::MetadataFile;
    use super::super::metadata_writer::NewFileMetadata;
    use super::*;
    use crate::hdf5::model::attribute::Hdf5Attribute;
    use crate::hdf5::model::datatype::Datatype;
    use crate::hdf5::model::definition::{Hdf5Definition, NewDataset};
    use crate::hdf5::model::tree::{Hdf5Object, ObjectTree};

    /// A file as the library knows it, as it is on its way, and places that are free.
    struct Pair {
        shadow: MetadataFile,
        disk: MetadataFile,
        spare: RetiredBlocks,
        now: Instant,
    }

    impl Pair {
        fn new() -> Self {
            let mut pair = Self {
                shadow: MetadataFile::new().unwrap(),
                disk: MetadataFile::new().unwrap(),
                spare: RetiredBlocks::default(),
                now: Instant::now(),
            };
            let tree = ObjectTree::from([("/".to_owned(), Hdf5Object::group())]);
            let NewFileMetadata { patch, length, .. } = NewFileMetadata::of(&tree, 0).unwrap();
            for shadow in [&mut pair.shadow, &mut pair.disk] {
                shadow.apply(&patch, length).unwrap();
            }
            pair
        }

        fn found(&self) -> ObjectTree {
            libhdf5::probe_file(&self.disk.path()).unwrap()
        }

        /// Makes changes; after each piece, and after a half of it, the old tree or the new one is found.
        fn change(&mut self, changes: &[Hdf5Definition]) -> usize {
            let (old, before) = (self.found(), self.shadow.len().unwrap());
            libhdf5::apply_definitions(&self.shadow.path(), changes, &old, &HashMap::new()).unwrap();
            let (pieces, pages) = self.shadow.changes().unwrap();
            let image = ByteImage { pages: &pages, length: self.shadow.len().unwrap() };
            let renewal = MetadataCow::at(self.now, &image, &pieces, before, &mut self.spare);
            let renewal = renewal.expect("all of it is known");
            self.shadow.apply(&renewal.patch, renewal.length).unwrap();
            let new = libhdf5::probe_file(&self.shadow.path()).unwrap();
            assert_ne!(old, new);
            self.disk.set_len(renewal.length.max(before)).unwrap();
            let OrderedWrites { unreferenced: fresh, in_place: placed, after } = &renewal.patch;
            assert!(placed.len() == 1 && placed[0].1.len() < 512, "one sector");
            for (pieces, halves, expected) in
                [(fresh, true, &old), (placed, false, &new), (after, true, &new)]
            {
                for (offset, bytes) in pieces {
                    if halves {
                        self.disk.write(*offset, &bytes[..bytes.len() / 2]).unwrap();
                        assert_eq!(self.found(), *expected, "{changes:?}: half of the piece at {offset}");
                    }
                    self.disk.write(*offset, bytes).unwrap();
                    assert_eq!(self.found(), *expected, "{changes:?}: the piece at {offset}");
                }
            }
            renewal.moves.0.len()
        }
    }

    fn growing(path: &str, chunk: u64) -> Hdf5Definition {
        let shape = vec![0, 4];
        Hdf5Definition::Dataset(
            path.into(),
            NewDataset { datatype: Datatype::Float(8), shape, extendible: true, chunk: Some(vec![1, chunk]) },
        )
    }

    fn attribute(path: &str, name: &str, value: impl Into<Hdf5Attribute>) -> Hdf5Definition {
        Hdf5Definition::Attribute(path.into(), name.into(), value.into())
    }

    #[test]
    fn every_moment_has_a_description() {
        let mut pair = Pair::new();
        pair.change(&[
            Hdf5Definition::Group("/a".into()),
            Hdf5Definition::Group("/a/b".into()),
            growing("/a/b/x", 2),
        ]);
        pair.change(&[
            attribute("/a/b/x", "unit", "J"),
            attribute("/a", "unit", "m"),
            attribute("/a", "three", [1.0, 2.0, 3.0]),
        ]);
        // Text that is replaced, by itself and beside other text.
        pair.change(&[attribute("/a", "unit", "something longer than before")]);
        pair.change(&[attribute("/a/b/x", "unit", ""), attribute("/", "of", "the root")]);
        // More chunks than a node holds, so that nodes are split: several times over.
        for rows in [1, 2, 30, 70, 71] {
            let moved = pair.change(&[Hdf5Definition::Extend("/a/b/x".into(), rows)]);
            assert!((5..=20).contains(&moved), "{moved} blocks: those that change, and the way to them");
        }
        // More objects than a node has entries, and names than a heap has room for.
        for number in 0..6 {
            let names = (0..=number % 3 * 5).map(|name| growing(&format!("/a/number{number}-{name}"), 4));
            pair.change(&names.collect::<Vec<_>>());
        }
        pair.change(&[
            attribute("/a/number3-0", "late", 1u64),
            Hdf5Definition::Extend("/a/number5-2".into(), 3),
        ]);
    }

    #[test]
    fn places_are_used_again() {
        let mut pair = Pair::new();
        pair.change(&[growing("/x", 4)]);
        let mut lengths = Vec::new();
        for step in 0..30u64 {
            pair.now += GRACE;
            pair.change(&[attribute("/x", "step", step)]);
            lengths.push(pair.shadow.len().unwrap());
        }
        assert_eq!(lengths[5], lengths[29], "{lengths:?}");
    }

    /// A reader that has read the superblock finds all of that description, whatever is defined meanwhile.
    #[test]
    fn blocks_of_an_earlier_description_stay_for_its_readers() {
        let mut pair = Pair::new();
        pair.change(&[growing("/x", 4), attribute("/x", "step", 0u64)]);
        let found = pair.found();
        let superblock = {
            let (_, pages) = pair.disk.changes().unwrap();
            let image = ByteImage { pages: &pages, length: pair.disk.len().unwrap() };
            image.bytes(0, SUPERBLOCK).unwrap()
        };
        pair.now += GRACE / 4;
        for step in 1..4u64 {
            pair.change(&[attribute("/x", "step", step)]);
        }
        let later = pair.found();
        pair.disk.write(0, &superblock).unwrap();
        assert_ne!(later, found);
        assert_eq!(pair.found(), found, "the description that the reader follows is still whole");
    }

    #[test]
    fn what_is_not_known_is_left_alone() {
        let (pages, mut spare) = ([(0, vec![0; 4096])].into(), RetiredBlocks::default());
        assert!(
            MetadataCow::new(&ByteImage { pages: &pages, length: 4096 }, &[], 4096, &mut spare).is_none()
        );
        assert!(MetadataCow::new(&ByteImage { pages: &pages, length: 10 }, &[], 10, &mut spare).is_none());
    }
}
