//! Blocks: what a description of the earliest version is made of, found by following its addresses from the root. Pure.
//!
//! Only the offsets of blocks and the pointers between them are interpreted. Unknown structures are no error: such a file uses the journal.

use std::collections::BTreeMap;
use std::ops::Range;

use super::byte_image::ByteImage;

/// Bytes of the superblock, which is at the start of the file.
pub(crate) const SUPERBLOCK: u64 = 96;
/// The offset of the end-of-file address in it.
pub(crate) const END_AT: u64 = 40;
const ROOT_AT: u64 = 56;
/// The address of nothing.
const UNDEFINED: u64 = u64::MAX;
/// Half the children of a node that knows where chunks are: fixed in this version.
const CHUNK_K: u64 = 32;
/// Bytes of an entry of a group, and of what comes before the entries of a node.
pub(crate) const ENTRY: u64 = 40;
const NODE: u64 = 24;
/// The largest block that is taken for one.
const LARGEST: u64 = 64 << 20;

/// Eight bytes with the address of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPointer {
    pub(crate) at: u64,
    pub(crate) to: u64,
    /// From a node to the one beside it, which no reader follows: they come from above.
    pub(crate) sideways: bool,
}

/// All blocks that can be reached, and how.
#[derive(Debug, Default)]
pub(crate) struct MetadataGraph {
    /// Where they lie, and how long they are; without the superblock.
    pub(crate) blocks: BTreeMap<u64, u64>,
    /// In the order of the file.
    pub(crate) pointers: Vec<BlockPointer>,
}

/// What a block is expected to be.
enum Kind {
    Header,
    /// The rest of a header.
    Messages(u64),
    GroupNode,
    Entries,
    Heap,
    Names(u64),
    /// With keys of so many bytes.
    ChunkNode(u64),
    /// Text of variable length.
    Texts,
}

impl MetadataGraph {
    /// The blocks of a file; none if something in it is not known here.
    pub(crate) fn of(image: &ByteImage<'_>) -> Option<Self> {
        let first = image.bytes(0, SUPERBLOCK)?;
        // Version 0, addresses and lengths of eight bytes, addresses from the start of the file on, no driver's own block.
        let known = first.starts_with(b"\x89HDF\r\n\x1a\n\0") && first[13..15] == [8, 8];
        if !known || image.u64_at(24)? != 0 || image.u64_at(48)? != UNDEFINED {
            return None;
        }
        let quarter = |at: u64| image.u16_at(at).map(u64::from);
        let walk = MetadataWalker {
            image,
            leaf: quarter(16)?,
            inner: quarter(18)?,
            graph: Self::default(),
            left: Vec::new(),
        };
        walk.all()
    }

    /// The block that contains a byte.
    pub(crate) fn block_containing(&self, at: u64) -> Option<u64> {
        let (start, length) = self.blocks.range(..=at).next_back()?;
        (at < start + length).then_some(*start)
    }

    /// The addresses that begin in some bytes.
    pub(crate) fn pointers_in(&self, range: &Range<u64>) -> &[BlockPointer] {
        let first = |at: u64| self.pointers.partition_point(|pointer| pointer.at < at);
        &self.pointers[first(range.start)..first(range.end)]
    }

    /// Whether two blocks have a byte in common: then they are none.
    fn overlaps(&self) -> bool {
        let mut end = SUPERBLOCK;
        self.blocks.iter().any(|(at, length)| std::mem::replace(&mut end, at + length) > *at)
    }
}

struct MetadataWalker<'a> {
    image: &'a ByteImage<'a>,
    /// Half of the entries and children that a node of a group has room for.
    leaf: u64,
    inner: u64,
    graph: MetadataGraph,
    left: Vec<(u64, Kind)>,
}

impl MetadataWalker<'_> {
    fn all(mut self) -> Option<MetadataGraph> {
        self.entry(ROOT_AT)?;
        while let Some((at, kind)) = self.left.pop() {
            let length = self.length(at, &kind)?;
            self.image.holds(at, length).then_some(())?;
            // Another way to the same one is the same one.
            if self.graph.blocks.insert(at, length).is_none() {
                self.inside(at, length, &kind)?;
            }
        }
        self.graph.pointers.sort_by_key(|pointer| pointer.at);
        (!self.graph.overlaps()).then_some(self.graph)
    }

    fn points(&mut self, at: u64, kind: Kind) -> Option<()> {
        let to = self.image.u64_at(at)?;
        if to != UNDEFINED {
            self.graph.pointers.push(BlockPointer { at, to, sideways: false });
            self.left.push((to, kind));
        }
        Some(())
    }

    fn sideways(&mut self, at: u64) -> Option<()> {
        for at in [at, at + 8] {
            let to = self.image.u64_at(at)?;
            if to != UNDEFINED {
                self.graph.pointers.push(BlockPointer { at, to, sideways: true });
            }
        }
        Some(())
    }

    fn length(&self, at: u64, kind: &Kind) -> Option<u64> {
        let begins = |sign: &[u8; 4]| (self.image.bytes(at, 4)? == sign).then_some(());
        match kind {
            Kind::Header => {
                (self.image.bytes(at, 1)? == [1]).then_some(())?;
                Some(16 + u64::from(self.image.u32_at(at + 8)?))
            }
            Kind::Messages(length) | Kind::Names(length) => Some(*length),
            Kind::GroupNode => begins(b"TREE").map(|()| NODE + 2 * self.inner * 16 + 8),
            Kind::Entries => begins(b"SNOD").map(|()| 8 + 2 * self.leaf * ENTRY),
            Kind::Heap => begins(b"HEAP").map(|()| 32),
            Kind::ChunkNode(key) => begins(b"TREE").map(|()| NODE + 2 * CHUNK_K * (key + 8) + key),
            Kind::Texts => {
                begins(b"GCOL")?;
                self.image.u64_at(at + 8)
            }
        }
        .filter(|length| (1..=LARGEST).contains(length))
    }

    /// Looks for addresses in a block.
    fn inside(&mut self, at: u64, length: u64, kind: &Kind) -> Option<()> {
        match kind {
            Kind::Header => self.messages(at + 16, at + length),
            Kind::Messages(_) => self.messages(at, at + length),
            Kind::GroupNode => self.node(at, 8, 0),
            Kind::ChunkNode(key) => self.node(at, *key, 1),
            Kind::Entries => {
                let count = u64::from(self.image.u16_at(at + 6)?);
                (0..count).try_for_each(|number| self.entry(at + 8 + number * ENTRY))
            }
            Kind::Heap => {
                let length = self.image.u64_at(at + 8)?;
                self.points(at + 24, Kind::Names(length))
            }
            Kind::Names(_) | Kind::Texts => Some(()),
        }
    }

    /// An entry of a group: an object and cached information.
    fn entry(&mut self, at: u64) -> Option<()> {
        self.points(at + 8, Kind::Header)?;
        if self.image.u32_at(at + 16)? == 1 {
            self.points(at + 24, Kind::GroupNode)?;
            self.points(at + 32, Kind::Heap)?;
        }
        Some(())
    }

    fn node(&mut self, at: u64, key: u64, kind: u8) -> Option<()> {
        let [found, level, ..] = *self.image.bytes(at + 4, 2)?.first_chunk::<2>()?;
        if found != kind {
            return None;
        }
        self.sideways(at + 8)?;
        let count = u64::from(self.image.u16_at(at + 6)?);
        for number in 0..count {
            let child = at + NODE + key + number * (key + 8);
            match (kind, level) {
                (0, 0) => self.points(child, Kind::Entries)?,
                (0, _) => self.points(child, Kind::GroupNode)?,
                // A chunk: data.
                (_, 0) => {}
                _ => self.points(child, Kind::ChunkNode(key))?,
            }
        }
        Some(())
    }

    /// The messages of an object's header.
    fn messages(&mut self, mut at: u64, end: u64) -> Option<()> {
        while at + 8 <= end {
            let (kind, length) = (self.image.u16_at(at)?, u64::from(self.image.u16_at(at + 2)?));
            let flags = self.image.bytes(at + 4, 1)?[0];
            let data = at + 8;
            if data + length > end || flags & 2 != 0 {
                // Truncated, or stored elsewhere.
                return None;
            }
            match kind {
                0x08 => self.layout(data)?,
                0x0C => self.attribute(data, data + length)?,
                0x10 => {
                    let length = self.image.u64_at(data + 8)?;
                    self.points(data, Kind::Messages(length))?;
                }
                0x11 => {
                    self.points(data, Kind::GroupNode)?;
                    self.points(data + 8, Kind::Heap)?;
                }
                // Nothing, shape, type, filling, filters, comment, time: no addresses.
                0x00 | 0x01 | 0x03 | 0x04 | 0x05 | 0x0B | 0x0D | 0x0E | 0x12 => {}
                _ => return None,
            }
            at = data + length;
        }
        Some(())
    }

    /// Where the data of a dataset is: in chunks that nodes know of, or in places that stay.
    fn layout(&mut self, data: u64) -> Option<()> {
        let [version, class, dimensions] = *self.image.bytes(data, 3)?.first_chunk::<3>()?;
        match (version, class) {
            (3, 2) => self.points(data + 3, Kind::ChunkNode(8 + 8 * u64::from(dimensions))),
            (3, 0 | 1) => Some(()),
            _ => None,
        }
    }

    /// An attribute: variable-length text is stored elsewhere, as are referenced objects.
    fn attribute(&mut self, data: u64, end: u64) -> Option<()> {
        let [version, flags] = *self.image.bytes(data, 2)?.first_chunk::<2>()?;
        // Where the name begins, and what it and the other parts are filled up to.
        let (name_at, filled) = match (version, flags) {
            (1, _) => (8, 8),
            (2, 0) => (8, 1),
            (3, 0) => (9, 1),
            _ => return None,
        };
        let mut parts = [0; 3];
        for (part, at) in parts.iter_mut().zip([2, 4, 6]) {
            *part = u64::from(self.image.u16_at(data + at)?).next_multiple_of(filled);
        }
        let [name, datatype, space] = parts;
        let datatype_at = data + name_at + name;
        match self.image.bytes(datatype_at, 1)?[0] & 15 {
            7 => None,
            9 => {
                let values = datatype_at + datatype + space;
                for value in (0..end.saturating_sub(values) / 16).map(|number| values + 16 * number) {
                    // Empty text has no storage.
                    if self.image.u32_at(value)? > 0 && self.image.u64_at(value + 4)? > 0 {
                        self.points(value + 4, Kind::Texts)?;
                    }
                }
                Some(())
            }
            _ => Some(()),
        }
    }
}
