//! Loads the metadata of a file that is opened for writing: object headers and the members of groups.
//!
//! What is not understood is not changed: a message is kept as it is, an object that cannot be moved is marked as fixed.

use std::collections::{BTreeSet, HashMap, HashSet};

use aqueduct_file::File;

use super::block_allocator::BlockAllocator;
use super::message_encode as encode;
use super::metadata_store::{GroupLinks, MetadataStore, StoredObject};
use super::object_header::{
    DecodedHeader, MetadataBytes, StoredMessage, decode_header, message_kind, number_at, word_at,
};
use super::superblock::StoredSuperblock;
use super::symbol_table::{ENTRY_BYTES, GroupNodeSizes, SymbolTable, SymbolTarget};
use crate::hdf5::model::tree::{COMPLETION_ATTRIBUTE, ObjectTree, UNDEFINED_ADDRESS};

/// Bytes that are read at once.
const WINDOW: u64 = 64 << 10;
/// The largest block that is taken for metadata.
const LARGEST_BLOCK: u64 = 64 << 20;
/// The deepest tree of a group.
const DEEPEST: u8 = 16;

/// Bytes of a file, read in windows.
pub(crate) struct MetadataReader<'f> {
    file: &'f File,
    length: u64,
    start: u64,
    window: Vec<u8>,
}

impl<'f> MetadataReader<'f> {
    pub(crate) fn new(file: &'f File, length: u64) -> Self {
        Self { file, length, start: 0, window: Vec::new() }
    }
}

impl MetadataBytes for MetadataReader<'_> {
    fn bytes(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, String> {
        let end = offset.checked_add(length).filter(|end| *end <= self.length && length <= LARGEST_BLOCK);
        let end = end.ok_or_else(|| format!("{length} bytes at byte {offset} are not in the file"))?;
        if offset < self.start || end > self.start + self.window.len() as u64 {
            self.window.resize(length.max(WINDOW).min(self.length - offset) as usize, 0);
            let count =
                self.file.at(offset).read(&mut self.window).map_err(|error| error.to_string())?.bytes();
            self.window.truncate(count as usize);
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        let part = self.window.get(from..from + length as usize);
        part.map(<[u8]>::to_vec).ok_or_else(|| format!("the file ends before byte {end}"))
    }
}

/// A link message.
pub(crate) struct DecodedLink {
    pub(crate) name: String,
    /// Of a hard link: where in the message the address of the object is.
    pub(crate) address_at: Option<usize>,
}

/// Decodes a link message of version 1.
pub(crate) fn decode_link(message: &StoredMessage) -> Option<DecodedLink> {
    let data = &message.data;
    let flags = *data.get(1).filter(|_| data[0] == 1)?;
    let mut at = 2;
    let kind = if flags & 8 != 0 {
        at += 1;
        *data.get(2)?
    } else {
        0
    };
    at += if flags & 4 != 0 { 8 } else { 0 } + usize::from(flags & 16 != 0);
    let width = 1 << (flags & 3);
    let length = number_at(data, at, width).ok()? as usize;
    let name = data.get(at + width..(at + width).checked_add(length)?)?;
    let address_at = at + width + length;
    let hard = kind == 0 && data.len() >= address_at + 8;
    Some(DecodedLink { name: String::from_utf8(name.to_vec()).ok()?, address_at: hard.then_some(address_at) })
}

impl MetadataStore {
    /// The metadata of a file, and where its completion attributes are; if it has some in its root.
    ///
    /// `tree` has what the reader found: attributes with references that it knows are written anew when objects move.
    pub(crate) fn load(
        file: &File,
        length: u64,
        tree: &ObjectTree,
    ) -> Result<(Self, Vec<(String, u64)>), String> {
        let mut reader = MetadataReader::new(file, length);
        let first = reader.bytes(0, length.min(128))?;
        let superblock = match StoredSuperblock::decode(&first) {
            Ok(superblock) => superblock,
            Err(why) => {
                let mut store = Self::new();
                store.fixed = Some(why);
                return Ok((store, Vec::new()));
            }
        };
        let end = superblock.end()?.max(length);
        let root = superblock.root()?;
        let mut loader = MetadataLoader {
            reader: &mut reader,
            sizes: superblock.sizes,
            objects: HashMap::new(),
            paths: HashMap::new(),
            shared: HashSet::new(),
            marks: Vec::new(),
            tree,
            references: false,
            checked_marks: false,
        };
        loader.load_all(root)?;
        let MetadataLoader { mut objects, shared, marks, references, checked_marks, .. } = loader;
        for path in shared {
            if let Some(object) = objects.get_mut(&path) {
                object.fixed = Some("has several hard links");
            }
        }
        if checked_marks {
            return Err("another program has rewritten it in a later version of the format, in which completion attributes \
                        cannot be changed: read it, or delete the attribute \"aqueduct_complete\" of its root to write \
                        without them"
                .to_owned());
        }
        let fixed = references
            .then(|| "it has references to objects, which would not find them afterwards".to_owned());
        let marked = marks.iter().any(|(path, _)| path == "/");
        let refers =
            |messages: &[StoredMessage]| messages.iter().any(|message| message.targets().next().is_some());
        let referring = objects.iter().filter(|(_, object)| refers(&object.messages));
        let referring = referring.map(|(path, _)| path.clone()).collect();
        let (space, reference_heaps) = (BlockAllocator::new(end), Vec::new());
        let store = Self { objects, superblock, space, fixed, referring, reference_heaps };
        Ok((store, if marked { marks } else { Vec::new() }))
    }
}

struct MetadataLoader<'r, 'f> {
    reader: &'r mut MetadataReader<'f>,
    sizes: GroupNodeSizes,
    objects: HashMap<String, StoredObject>,
    /// Paths by the addresses of headers.
    paths: HashMap<u64, String>,
    /// Objects with several paths.
    shared: HashSet<String>,
    marks: Vec<(String, u64)>,
    tree: &'r ObjectTree,
    references: bool,
    /// Whether completion attributes are in headers with checksums.
    checked_marks: bool,
}

impl MetadataLoader<'_, '_> {
    fn load_all(&mut self, root: u64) -> Result<(), String> {
        let mut left = vec![("/".to_owned(), root)];
        while let Some((path, address)) = left.pop() {
            if let Some(other) = self.paths.get(&address) {
                self.shared.extend([path, other.clone()]);
                continue;
            }
            self.paths.insert(address, path.clone());
            let header = decode_header(self.reader, address).map_err(|why| format!("{path:?}: {why}"))?;
            let (links, members, fixed) =
                self.members(&header).map_err(|why| format!("group {path:?}: {why}"))?;
            let prefix = if path == "/" { "" } else { path.as_str() };
            left.extend(members.into_iter().map(|(name, address)| (format!("{prefix}/{name}"), address)));
            self.find_mark(&path, &header);
            let dense = header.message(message_kind::ATTRIBUTE_INFO).is_some_and(has_dense_attributes);
            let fixed = fixed.or(dense.then_some("has attributes in a fractal heap"));
            let DecodedHeader { links: link_count, mut messages, .. } = header;
            messages.retain(|message| message.kind != message_kind::ATTRIBUTE_INFO);
            for message in messages.iter_mut().filter(|message| has_references(message)) {
                match self.known_references(&path, message) {
                    Some(known) => *message = known,
                    None => self.references = true,
                }
            }
            let object =
                StoredObject { address, block: None, link_count, messages, links, chunks: None, fixed };
            self.objects.insert(path, object);
        }
        Ok(())
    }

    /// An attribute with references to objects that are all known, as it is written here.
    fn known_references(&self, path: &str, message: &StoredMessage) -> Option<StoredMessage> {
        let name = std::str::from_utf8(message.attribute_name()?).ok()?;
        let value = self.tree.get(path)?.attribute(name)?;
        let targets = value.references();
        let known = !targets.is_empty() && targets.iter().all(|target| self.tree.contains_key(*target));
        if known { encode::attribute(name, value).ok() } else { None }
    }

    /// Notes where the completion attribute is.
    fn find_mark(&mut self, path: &str, header: &DecodedHeader) {
        let is_mark =
            |message: &StoredMessage| message.attribute_name() == Some(COMPLETION_ATTRIBUTE.as_bytes());
        let Some(number) = header.messages.iter().position(is_mark) else { return };
        let data = &header.messages[number].data;
        let end = header.offsets[number] + data.len() as u64;
        if header.version == 1 && end.is_multiple_of(8) && data.len() >= 8 {
            self.marks.push((path.to_owned(), end - 8));
        } else {
            self.checked_marks |= path == "/";
        }
    }

    /// The links of a group, the addresses of its members, and why it cannot be changed.
    #[expect(clippy::type_complexity, reason = "taken apart at once")]
    fn members(
        &mut self,
        header: &DecodedHeader,
    ) -> Result<(Option<GroupLinks>, Vec<(String, u64)>, Option<&'static str>), String> {
        if let Some(table) = header.message(message_kind::SYMBOL_TABLE) {
            let (table, members) = self.table(word_at(&table.data, 0)?, word_at(&table.data, 8)?)?;
            return Ok((Some(GroupLinks::Table(table)), members, None));
        }
        let Some(info) = header.message(message_kind::LINK_INFO) else { return Ok((None, Vec::new(), None)) };
        let at = 2 + if info.data.get(1).is_some_and(|flags| flags & 1 != 0) { 8 } else { 0 };
        if word_at(&info.data, at)? != UNDEFINED_ADDRESS {
            return Ok((None, Vec::new(), Some("has its members in a fractal heap")));
        }
        let mut members = Vec::new();
        for message in header.messages.iter().filter(|message| message.kind == message_kind::LINK) {
            let link = decode_link(message).ok_or("a link message is damaged")?;
            if let Some(at) = link.address_at {
                members.push((link.name, word_at(&message.data, at)?));
            }
        }
        Ok((Some(GroupLinks::Messages), members, None))
    }

    /// A symbol table, and the members that are objects.
    fn table(&mut self, tree: u64, heap: u64) -> Result<(SymbolTable, Vec<(String, u64)>), String> {
        let head = self.reader.bytes(heap, 32)?;
        if !head.starts_with(b"HEAP") {
            return Err(format!("at byte {heap} there is no local heap"));
        }
        let names = self.reader.bytes(word_at(&head, 24)?, word_at(&head, 8)?)?;
        let mut leaves = Vec::new();
        let mut seen = BTreeSet::new();
        self.walk_tree(tree, DEEPEST, &mut seen, &mut leaves)?;
        let mut members = Vec::new();
        for leaf in leaves {
            let head = self.reader.bytes(leaf, 8)?;
            let count = number_at(&head, 6, 2)?;
            if !head.starts_with(b"SNOD") {
                return Err(format!("at byte {leaf} there is no symbol table node"));
            }
            let entries = self.reader.bytes(leaf + 8, count * ENTRY_BYTES as u64)?;
            for entry in entries.as_chunks::<ENTRY_BYTES>().0 {
                let (name_at, target) = SymbolTarget::decode(entry);
                let name = names.get(name_at as usize..).ok_or("a name is beyond its heap")?;
                let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                let name = String::from_utf8(name.to_vec()).map_err(|_| "a name is not UTF-8")?;
                members.push((name, name_at, target));
            }
        }
        members.sort_by(|one, other| one.0.cmp(&other.0));
        let objects = members.iter().filter_map(|(name, _, target)| match target {
            SymbolTarget::Object(address, _) => Some((name.clone(), *address)),
            SymbolTarget::Soft(_) => None,
        });
        let objects = objects.collect();
        let mut table = SymbolTable::with_names(self.sizes, names);
        table.load(members);
        Ok((table, objects))
    }

    fn walk_tree(
        &mut self,
        node: u64,
        depth: u8,
        seen: &mut BTreeSet<u64>,
        leaves: &mut Vec<u64>,
    ) -> Result<(), String> {
        let head = self.reader.bytes(node, 24)?;
        if !head.starts_with(b"TREE\0") || depth == 0 || !seen.insert(node) {
            return Err(format!("at byte {node} there is no tree of a group"));
        }
        let (level, count) = (head[5], number_at(&head, 6, 2)?);
        let children = self.reader.bytes(node + 24, 8 + count * 16)?;
        for number in 0..count as usize {
            let child = word_at(&children, 8 + number * 16)?;
            if level == 0 {
                leaves.push(child);
            } else {
                self.walk_tree(child, depth - 1, seen, leaves)?;
            }
        }
        Ok(())
    }
}

fn has_dense_attributes(message: &StoredMessage) -> bool {
    let at = 2 + if message.data.get(1).is_some_and(|flags| flags & 1 != 0) { 2 } else { 0 };
    word_at(&message.data, at) != Ok(UNDEFINED_ADDRESS)
}

/// Whether the type in a message has references; or is not understood, and might.
fn has_references(message: &StoredMessage) -> bool {
    // A named type is an object of its own.
    if message.flags & 2 != 0 {
        return false;
    }
    let ty = match message.kind {
        message_kind::DATATYPE => Some(message.data.as_slice()),
        message_kind::ATTRIBUTE => attribute_type(&message.data),
        _ => return false,
    };
    ty.and_then(scan_type).is_none_or(|(_, references)| references)
}

/// The type of an attribute.
fn attribute_type(data: &[u8]) -> Option<&[u8]> {
    let version = *data.first()?;
    // The type is shared: it is the address of a named one.
    if version > 1 && data.get(1)? & 1 != 0 {
        return Some(&[0x13, 0, 0, 0, 1, 0, 0, 0]);
    }
    let length = |at: usize| Some(number_at(data, at, 2).ok()? as usize);
    let name = if version == 1 { length(2)?.next_multiple_of(8) } else { length(2)? };
    let from = if version >= 3 { 9 } else { 8 } + name;
    data.get(from..from + length(4)?)
}

/// The bytes of an encoded type, and whether references are in it.
fn scan_type(bytes: &[u8]) -> Option<(usize, bool)> {
    let (class, version) = (bytes.first()? & 15, bytes[0] >> 4);
    let count = usize::from(u16::from_le_bytes(*bytes.get(1..)?.first_chunk()?));
    let padded = |length: usize| if version < 3 { length.next_multiple_of(8) } else { length };
    let name_length = |at: usize| Some(padded(bytes.get(at..)?.iter().position(|byte| *byte == 0)? + 1));
    let inner = |at: usize| scan_type(bytes.get(at..)?).map(|(length, references)| (at + length, references));
    match class {
        0 | 4 => Some((12, false)),
        1 => Some((20, false)),
        2 => Some((10, false)),
        3 => Some((8, false)),
        5 => Some((8 + usize::from(bytes[1]), false)),
        6 => {
            let size = number_at(bytes, 4, 4).ok()?;
            let (mut at, mut references) = (8, false);
            for _ in 0..count {
                at += name_length(at)?;
                at += match version {
                    1 => 32,
                    2 => 4,
                    // As many bytes as the offsets need.
                    _ => (64 - size.leading_zeros() as usize).div_ceil(8).max(1),
                };
                let (end, has) = inner(at)?;
                (at, references) = (end, references | has);
            }
            Some((at, references))
        }
        7 => Some((8, true)),
        8 => {
            let (mut at, _) = inner(8)?;
            let size = number_at(bytes, 12, 4).ok()? as usize;
            for _ in 0..count {
                at += name_length(at)?;
            }
            Some((at + count * size, false))
        }
        9 => inner(8),
        10 => {
            let dimensions = usize::from(*bytes.get(8)?);
            inner(if version < 3 { 12 + 8 * dimensions } else { 9 + 4 * dimensions })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdf5::model::datatype::Datatype;

    #[test]
    fn references_are_found_in_types() {
        let number = |size| Datatype::Int(size);
        let fields = vec![
            ("abcd7".to_owned(), 0, number(8)),
            ("flag".to_owned(), 8, Datatype::Bool),
            ("at".to_owned(), 9, Datatype::Array(Box::new(Datatype::Float(8)), 3)),
        ];
        let ty = encode::datatype(&Datatype::Compound(33, fields)).unwrap();
        assert_eq!(scan_type(&ty), Some((ty.len(), false)));
        let list = [0x19, 0, 0, 0, 16, 0, 0, 0, 0x17, 0, 0, 0, 8, 0, 0, 0];
        assert_eq!(scan_type(&list), Some((16, true)));
        let text = encode::datatype(&Datatype::VlenText).unwrap();
        assert_eq!(scan_type(&text), Some((text.len(), false)));
        assert_eq!(scan_type(&text[..10]), None);
    }
}
