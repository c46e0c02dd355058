//! Symbol tables: the members of a group in the earliest version of the format. Names are in a local heap, members in nodes of up to
//! `2 * leaf_k` entries, which a B-tree refers to.

use super::block_allocator::{BlockAllocator, BlockExtent, MetadataWrite};
use super::message_encode::put_words;
use crate::hdf5::model::tree::UNDEFINED_ADDRESS;

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 40;
/// A local heap without free space.
const NOTHING_FREE: u64 = 1;
/// What an entry caches: nothing, the symbol table of a group, or a soft link.
const CACHED_GROUP: u32 = 1;
const SOFT_LINK: u32 = 2;

/// How many entries and children the nodes of a file's groups have, halved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupNodeSizes {
    pub(crate) leaf_k: u16,
    pub(crate) inner_k: u16,
}

impl Default for GroupNodeSizes {
    fn default() -> Self {
        Self { leaf_k: 4, inner_k: 16 }
    }
}

/// What a link refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolTarget {
    /// An object header; of a group also its tree and its heap.
    Object(u64, Option<[u64; 2]>),
    /// The offset of a path in the heap.
    Soft(u32),
}

impl SymbolTarget {
    /// The entry of a link with a name.
    pub(crate) fn encode(self, name: u64, out: &mut Vec<u8>) {
        let (header, cache, scratch) = match self {
            Self::Object(header, None) => (header, 0, [0; 2]),
            Self::Object(header, Some(group)) => (header, CACHED_GROUP, group),
            Self::Soft(offset) => (UNDEFINED_ADDRESS, SOFT_LINK, [offset.into(), 0]),
        };
        put_words(out, [name, header, cache.into()]);
        put_words(out, scratch);
    }

    /// The name and the target of an entry.
    pub(crate) fn decode(entry: &[u8; ENTRY_BYTES]) -> (u64, Self) {
        let word = |at: usize| u64::from_le_bytes(*entry[at..].first_chunk().expect("an entry has 40 bytes"));
        let target = match word(16) as u32 {
            SOFT_LINK => Self::Soft(word(24) as u32),
            CACHED_GROUP => Self::Object(word(8), Some([word(24), word(32)])),
            _ => Self::Object(word(8), None),
        };
        (word(0), target)
    }
}

/// A member of a group.
#[derive(Clone, Debug)]
struct GroupMember {
    name: String,
    /// The offset of its name in the heap.
    name_at: u64,
    target: SymbolTarget,
}

/// A symbol table node.
#[derive(Debug, Default)]
struct GroupLeaf {
    members: Vec<GroupMember>,
    block: Option<BlockExtent>,
    changed: bool,
}

/// The members of a group, and the blocks in which the file has them.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    sizes: GroupNodeSizes,
    names: Vec<u8>,
    names_changed: bool,
    leaves: Vec<GroupLeaf>,
    names_block: Option<BlockExtent>,
    heap_block: Option<BlockExtent>,
    tree_blocks: Vec<BlockExtent>,
    /// The addresses of the tree and the heap.
    address: [u64; 2],
}

impl SymbolTable {
    /// A group without members.
    pub(crate) fn new(sizes: GroupNodeSizes) -> Self {
        Self::with_names(sizes, vec![0; 8])
    }

    /// A group whose heap has these bytes.
    pub(crate) fn with_names(sizes: GroupNodeSizes, names: Vec<u8>) -> Self {
        Self {
            sizes,
            names,
            names_changed: true,
            leaves: Vec::new(),
            names_block: None,
            heap_block: None,
            tree_blocks: Vec::new(),
            address: [UNDEFINED_ADDRESS; 2],
        }
    }

    fn capacity(&self) -> usize {
        2 * usize::from(self.sizes.leaf_k)
    }

    /// Adds members whose names the heap has, in the order of names.
    pub(crate) fn load(&mut self, members: Vec<(String, u64, SymbolTarget)>) {
        let capacity = self.capacity();
        for (name, name_at, target) in members {
            if self.leaves.last().is_none_or(|leaf| leaf.members.len() == capacity) {
                self.leaves.push(GroupLeaf { changed: true, ..GroupLeaf::default() });
            }
            let leaf = self.leaves.last_mut().expect("a leaf was added");
            leaf.members.push(GroupMember { name, name_at, target });
        }
    }

    /// The number of the leaf that has a name, or would have it.
    fn leaf_of(&self, name: &str) -> usize {
        let after = |leaf: &GroupLeaf| leaf.members.last().is_some_and(|last| last.name.as_str() < name);
        self.leaves.partition_point(after).min(self.leaves.len().saturating_sub(1))
    }

    /// Adds a member, or gives it another target.
    pub(crate) fn set(&mut self, name: &str, target: SymbolTarget) {
        if self.leaves.is_empty() {
            self.leaves.push(GroupLeaf::default());
        }
        let (number, capacity) = (self.leaf_of(name), self.capacity());
        let leaf = &mut self.leaves[number];
        match leaf.members.binary_search_by(|member| member.name.as_str().cmp(name)) {
            Ok(at) => {
                leaf.changed |= leaf.members[at].target != target;
                leaf.members[at].target = target;
            }
            Err(at) => {
                let name_at = self.names.len() as u64;
                self.names.extend_from_slice(name.as_bytes());
                self.names.resize((self.names.len() + 1).next_multiple_of(8), 0);
                self.names_changed = true;
                leaf.changed = true;
                leaf.members.insert(at, GroupMember { name: name.to_owned(), name_at, target });
                if leaf.members.len() > capacity {
                    // Names that are added in order leave full leaves.
                    let cut = if at == capacity { capacity } else { capacity / 2 };
                    let members = leaf.members.split_off(cut);
                    self.leaves.insert(number + 1, GroupLeaf { members, block: None, changed: true });
                }
            }
        }
    }

    /// Writes what has changed; the addresses of the tree and the heap.
    pub(crate) fn write(&mut self, space: &mut BlockAllocator, out: &mut Vec<MetadataWrite>) -> [u64; 2] {
        let capacity = self.capacity();
        let mut changed = self.address[0] == UNDEFINED_ADDRESS;
        for leaf in self.leaves.iter_mut().filter(|leaf| leaf.changed) {
            let mut block = b"SNOD\x01\0".to_vec();
            block.extend_from_slice(&(leaf.members.len() as u16).to_le_bytes());
            leaf.members.iter().for_each(|member| member.target.encode(member.name_at, &mut block));
            block.resize(8 + capacity * ENTRY_BYTES, 0);
            out.push((space.replace(&mut leaf.block, block.len() as u64), block));
            (leaf.changed, changed) = (false, true);
        }
        if changed {
            self.address[0] = self.write_tree(space, out);
        }
        if self.names_changed {
            let names = space.replace(&mut self.names_block, self.names.len() as u64);
            out.push((names, self.names.clone()));
            let mut heap = b"HEAP\0\0\0\0".to_vec();
            put_words(&mut heap, [self.names.len() as u64, NOTHING_FREE, names]);
            self.address[1] = space.replace(&mut self.heap_block, heap.len() as u64);
            out.push((self.address[1], heap));
            self.names_changed = false;
        }
        self.address
    }

    /// Writes the tree above the leaves, anew: siblings refer to one another.
    fn write_tree(&mut self, space: &mut BlockAllocator, out: &mut Vec<MetadataWrite>) -> u64 {
        let fanout = 2 * usize::from(self.sizes.inner_k);
        let bytes = 24 + fanout * 16 + 8;
        self.tree_blocks.drain(..).for_each(|block| space.retire(block));
        let last_name = |leaf: &GroupLeaf| leaf.members.last().map_or(0, |member| member.name_at);
        // Each child, and the last name in it.
        let mut nodes: Vec<(u64, u64)> =
            self.leaves.iter().filter_map(|leaf| Some((leaf.block?.address, last_name(leaf)))).collect();
        let mut level = 0;
        loop {
            let count = nodes.len().div_ceil(fanout).max(1);
            let blocks: Vec<BlockExtent> = (0..count).map(|_| space.allocate(bytes as u64)).collect();
            let (mut above, mut key) = (Vec::new(), 0);
            for (number, at) in blocks.iter().enumerate() {
                let from = (number * fanout).min(nodes.len());
                let children = &nodes[from..nodes.len().min(from + fanout)];
                let mut block = b"TREE\0".to_vec();
                block.push(level);
                block.extend_from_slice(&(children.len() as u16).to_le_bytes());
                let beside =
                    |number: usize| blocks.get(number).map_or(UNDEFINED_ADDRESS, |block| block.address);
                put_words(&mut block, [beside(number.wrapping_sub(1)), beside(number + 1), key]);
                for (child, last) in children {
                    put_words(&mut block, [*child, *last]);
                    key = *last;
                }
                block.resize(bytes, 0);
                out.push((at.address, block));
                above.push((at.address, key));
            }
            self.tree_blocks.extend(blocks);
            if let [(root, _)] = above.as_slice() {
                return *root;
            }
            (nodes, level) = (above, level + 1);
        }
    }
}
