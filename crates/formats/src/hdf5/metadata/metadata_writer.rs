//! Drafts: the description of a new file of groups, and of datasets of numbers in one piece, made without the library. Pure.
//!
//! All of such a file is known before a byte of it is written, so that every rank can compute all offsets, and the library, which takes some ten
//! microseconds for a dataset, is asked only when definitions come later or are of other kinds. The bytes are those of the earliest version of the format,
//! in which the library writes too: it goes on from there.

use std::collections::HashMap;

use super::metadata_graph::{ENTRY, SUPERBLOCK};
use super::ordered_writes::OrderedWrites;
use crate::hdf5::model::attribute::Hdf5Attribute;
use crate::hdf5::model::datatype::Datatype;
use crate::hdf5::model::definition::DatasetAddresses;
use crate::hdf5::model::tree::{
    COMPLETION_ATTRIBUTE, Dataset, Hdf5Object, ObjectTree, Storage, UNDEFINED_ADDRESS, parent,
};

/// Half of the entries and of the children that a node of a group has room for: what the library takes.
const LEAF: usize = 4;
const INNER: usize = 16;
/// Data begins at a multiple of so many bytes, that of a dataset at a multiple of a word, or of this if it is large.
const PAGE: u64 = 4096;
const WORD: u64 = 8;
const LARGE: u64 = 64 << 10;
/// The longest header of an object that is made here.
const LONGEST_HEADER: usize = 60_000;
/// The most dimensions of the format.
const DIMENSIONS: usize = 32;
/// Where a heap has nothing free.
const NOTHING_FREE: u64 = 1;

/// The metadata of a file. It is after the data, so that a file that has it has its full length.
#[derive(Debug)]
pub(crate) struct NewFileMetadata {
    pub(crate) patch: OrderedWrites,
    /// Where the file ends.
    pub(crate) length: u64,
    /// Where the elements of datasets lie.
    pub(crate) placed: Vec<DatasetAddresses>,
    /// Where marks lie.
    pub(crate) marks: Vec<(String, u64)>,
}

impl NewFileMetadata {
    /// The metadata of all objects, after the `before` bytes of a file without data; none if libhdf5 is needed.
    pub(crate) fn of(tree: &ObjectTree, before: u64) -> Option<Self> {
        let (placed, end) = place_datasets(tree, before)?;
        let addresses = placed.iter().map(|placed| (placed.path.as_str(), placed.addresses[0])).collect();
        let mut builder = MetadataBuilder {
            base: end,
            bytes: Vec::new(),
            addresses,
            objects: HashMap::new(),
            marks: Vec::new(),
        };
        let (marked, inside) = (tree.get("/")?.attribute(COMPLETION_ATTRIBUTE).cloned(), group_members(tree));
        // The members of a group are before it.
        for (path, node) in tree.iter().rev() {
            let object = match &node.dataset {
                Some(dataset) => builder.dataset(path, node, dataset, marked.as_ref())?,
                None => builder.group(path, node, inside.get(path.as_str()).map_or(&[], Vec::as_slice))?,
            };
            builder.objects.insert(path, object);
        }
        let root = *builder.objects.get("/")?;
        let MetadataBuilder { bytes, marks, .. } = builder;
        let length = end + bytes.len() as u64;
        let patch = OrderedWrites {
            unreferenced: vec![(end, bytes)],
            in_place: vec![(0, superblock(&root, length))],
            after: Vec::new(),
        };
        Some(Self { patch, length, placed, marks })
    }
}

/// Where the elements of datasets lie, one after the other, and where the last of them ends.
fn place_datasets(tree: &ObjectTree, before: u64) -> Option<(Vec<DatasetAddresses>, u64)> {
    let unit = if tree.values().any(|node| node.dataset.is_some()) { PAGE } else { WORD };
    let mut at = before.max(SUPERBLOCK).next_multiple_of(unit);
    let datasets = tree.iter().filter_map(|(path, node)| Some((path, node.dataset.as_ref()?)));
    let place = |(path, dataset): (&String, &Dataset)| {
        let bytes = dataset.elements()?.checked_mul(dataset.datatype.size())?;
        let start = at.checked_next_multiple_of(if bytes >= LARGE { PAGE } else { WORD })?;
        let address = if bytes == 0 { UNDEFINED_ADDRESS } else { start };
        if bytes > 0 {
            at = start.checked_add(bytes)?.checked_next_multiple_of(WORD)?;
        }
        Some(DatasetAddresses { path: path.clone(), known: 0, addresses: vec![address] })
    };
    let placed = datasets.map(place).collect::<Option<Vec<_>>>()?;
    (at < 1 << 62).then_some((placed, at))
}

/// The members of each group in the order of names.
fn group_members(tree: &ObjectTree) -> HashMap<&str, Vec<&str>> {
    let mut inside: HashMap<&str, Vec<&str>> = HashMap::new();
    for path in tree.keys() {
        if let Some(group) = parent(path) {
            inside.entry(group).or_default().push(path);
        }
    }
    inside
}

/// An object as an entry of its group.
#[derive(Clone, Copy)]
struct SymbolTableEntry {
    header: u64,
    /// Of a group: where its tree and its names are.
    group: Option<[u64; 2]>,
}

impl SymbolTableEntry {
    fn entry(&self, name: u64, out: &mut Vec<u8>) {
        words(out, [name, self.header, self.group.is_some().into()]);
        words(out, self.group.unwrap_or_default());
    }
}

/// The description as far as it is made.
struct MetadataBuilder<'t> {
    base: u64,
    bytes: Vec<u8>,
    addresses: HashMap<&'t str, u64>,
    objects: HashMap<&'t str, SymbolTableEntry>,
    marks: Vec<(String, u64)>,
}

impl<'t> MetadataBuilder<'t> {
    /// Appends a block; its address.
    fn block(&mut self, bytes: &[u8]) -> u64 {
        let at = self.base + self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(WORD as usize), 0);
        at
    }

    fn dataset(
        &mut self,
        path: &str,
        node: &Hdf5Object,
        dataset: &Dataset,
        marked: Option<&Hdf5Attribute>,
    ) -> Option<SymbolTableEntry> {
        let Storage::Contiguous(_) = dataset.storage else { return None };
        let (address, size) = (*self.addresses.get(path)?, dataset.elements()? * dataset.datatype.size());
        let mut header = ObjectHeader::default();
        header.message(0x01, 0, &space(&dataset.shape)?)?;
        header.message(0x03, 1, &datatype(&dataset.datatype)?)?;
        // Filled never, for room there is from the beginning.
        header.message(0x05, 1, &[2, 1, 1, 1, 0, 0, 0, 0])?;
        let mut layout = vec![3, 1];
        words(&mut layout, [address, size]);
        header.message(0x08, u8::from(size > 0), &layout)?;
        let own = marked.map(|mark| (COMPLETION_ATTRIBUTE, mark));
        let said = node.attributes.iter().map(|(name, values)| (name.as_str(), values));
        self.object(path, header, said.chain(own))
    }

    fn group(&mut self, path: &str, node: &Hdf5Object, inside: &[&'t str]) -> Option<SymbolTableEntry> {
        let mut names = vec![0; WORD as usize];
        let mut nodes = Vec::new();
        for some in inside.chunks(2 * LEAF) {
            let mut block = b"SNOD\x01\0".to_vec();
            block.extend_from_slice(&(some.len() as u16).to_le_bytes());
            let mut last = 0;
            for path in some {
                last = names.len() as u64;
                self.objects.get(path)?.entry(last, &mut block);
                let name = path.rsplit_once('/')?.1;
                names.extend_from_slice(name.is_ascii().then_some(name)?.as_bytes());
                names.resize((names.len() + 1).next_multiple_of(WORD as usize), 0);
            }
            block.resize(8 + 2 * LEAF * ENTRY as usize, 0);
            nodes.push((self.block(&block), last));
        }
        let tree = self.tree(nodes);
        let (length, names) = (names.len() as u64, self.block(&names));
        let mut heap = b"HEAP\0\0\0\0".to_vec();
        words(&mut heap, [length, NOTHING_FREE, names]);
        let group = [tree, self.block(&heap)];
        let (mut header, mut table) = (ObjectHeader::default(), Vec::new());
        words(&mut table, group);
        header.message(0x11, 0, &table)?;
        let said = node.attributes.iter().map(|(name, values)| (name.as_str(), values));
        Some(SymbolTableEntry { group: Some(group), ..self.object(path, header, said)? })
    }

    /// Nodes above these, each with the last name in it, up to one.
    fn tree(&mut self, mut nodes: Vec<(u64, u64)>) -> u64 {
        const BYTES: usize = 24 + 2 * INNER * 16 + 8;
        let mut level = 0;
        loop {
            let first = self.base + self.bytes.len() as u64;
            let count = nodes.len().div_ceil(2 * INNER).max(1);
            let (mut above, mut key) = (Vec::new(), 0);
            for number in 0..count {
                let from = (number * 2 * INNER).min(nodes.len());
                let children = &nodes[from..nodes.len().min(from + 2 * INNER)];
                let mut block = b"TREE\0".to_vec();
                block.push(level);
                block.extend_from_slice(&(children.len() as u16).to_le_bytes());
                let beside = |number: usize| first + (number * BYTES) as u64;
                let left = if number > 0 { beside(number - 1) } else { UNDEFINED_ADDRESS };
                let right = if number + 1 < count { beside(number + 1) } else { UNDEFINED_ADDRESS };
                words(&mut block, [left, right, key]);
                for (child, last) in children {
                    words(&mut block, [*child, *last]);
                    key = *last;
                }
                block.resize(BYTES, 0);
                above.push((self.block(&block), key));
            }
            if let [(root, _)] = above.as_slice() {
                return *root;
            }
            (nodes, level) = (above, level + 1);
        }
    }

    /// The header of an object with its attributes.
    fn object<'a>(
        &mut self,
        path: &str,
        mut header: ObjectHeader,
        said: impl Iterator<Item = (&'a str, &'a Hdf5Attribute)>,
    ) -> Option<SymbolTableEntry> {
        let mut mark = None;
        for (name, values) in said {
            header.message(0x0C, 0, &attribute(name, values)?)?;
            if name == COMPLETION_ATTRIBUTE {
                mark = Some(header.bytes.len() as u64 - WORD);
            }
        }
        let at = self.block(&header.finish()?);
        self.marks.extend(mark.map(|mark| (path.to_owned(), at + mark)));
        Some(SymbolTableEntry { header: at, group: None })
    }
}

/// The header of an object: messages.
struct ObjectHeader {
    count: u16,
    bytes: Vec<u8>,
}

impl Default for ObjectHeader {
    fn default() -> Self {
        Self { count: 0, bytes: vec![0; 16] }
    }
}

impl ObjectHeader {
    fn message(&mut self, kind: u16, flags: u8, data: &[u8]) -> Option<()> {
        let length = data.len().next_multiple_of(WORD as usize);
        self.count += 1;
        self.bytes.extend_from_slice(&kind.to_le_bytes());
        self.bytes.extend_from_slice(&u16::try_from(length).ok()?.to_le_bytes());
        self.bytes.extend_from_slice(&[flags, 0, 0, 0]);
        let end = self.bytes.len() + length;
        self.bytes.extend_from_slice(data);
        self.bytes.resize(end, 0);
        (end <= LONGEST_HEADER).then_some(())
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        let length = u32::try_from(self.bytes.len() - 16).ok()?;
        self.bytes[0] = 1;
        self.bytes[2..4].copy_from_slice(&self.count.to_le_bytes());
        self.bytes[4..8].copy_from_slice(&1u32.to_le_bytes());
        self.bytes[8..12].copy_from_slice(&length.to_le_bytes());
        Some(self.bytes)
    }
}

fn words<const N: usize>(out: &mut Vec<u8>, words: [u64; N]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// A shape, which stays as it is.
fn space(shape: &[u64]) -> Option<Vec<u8>> {
    let dimensions = (shape.len() <= DIMENSIONS).then_some(shape.len() as u8)?;
    let mut out = vec![1, dimensions, u8::from(dimensions > 0), 0, 0, 0, 0, 0];
    shape.iter().chain(shape).for_each(|length| words(&mut out, [*length]));
    Some(out)
}

/// A number.
fn datatype(datatype: &Datatype) -> Option<Vec<u8>> {
    let (class, bits, size, form): (u8, [u8; 3], u32, &[u8]) = match datatype {
        Datatype::Int(size @ (1 | 2 | 4 | 8)) => (0x10, [8, 0, 0], *size, &[]),
        Datatype::UInt(size @ (1 | 2 | 4 | 8)) => (0x10, [0, 0, 0], *size, &[]),
        // Where the sign is, where exponent and fraction are and how long, and what the exponent counts from.
        Datatype::Float(4) => (0x11, [0x20, 31, 0], 4, &[23, 8, 0, 23, 127, 0, 0, 0]),
        Datatype::Float(8) => (0x11, [0x20, 63, 0], 8, &[52, 11, 0, 52, 0xFF, 3, 0, 0]),
        _ => return None,
    };
    let mut out = vec![class];
    out.extend_from_slice(&bits);
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&(8 * size as u16).to_le_bytes());
    out.extend_from_slice(form);
    Some(out)
}

/// A numeric attribute.
fn attribute(name: &str, values: &Hdf5Attribute) -> Option<Vec<u8>> {
    let Hdf5Attribute::Values(ty, shape, values) = values else { return None };
    let (ty, space) = (datatype(ty)?, space(shape)?);
    let name = name.is_ascii().then(|| [name.as_bytes(), &[0]].concat())?;
    let mut out = vec![1, 0];
    for part in [&name, &ty, &space] {
        out.extend_from_slice(&u16::try_from(part.len()).ok()?.to_le_bytes());
    }
    for part in [&name, &ty, &space, values] {
        out.extend_from_slice(part);
        out.resize(out.len().next_multiple_of(WORD as usize), 0);
    }
    Some(out)
}

/// The first bytes of a file: what the sizes are, where the root is.
fn superblock(root: &SymbolTableEntry, length: u64) -> Vec<u8> {
    let mut out = b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0".to_vec();
    for number in [LEAF as u16, INNER as u16, 0, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    words(&mut out, [0, UNDEFINED_ADDRESS, length, UNDEFINED_ADDRESS]);
    root.entry(0, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::super::libhdf5;
    use super::super::metadata_file::MetadataFile;
    use super::*;
    use crate::hdf5::completion_attribute;
    use crate::hdf5::model::definition::{Hdf5Definition, NewDataset};

    fn dataset(datatype: Datatype, shape: &[u64]) -> Hdf5Object {
        let storage = Storage::Contiguous(UNDEFINED_ADDRESS);
        let dataset =
            Dataset { datatype, shape: shape.to_vec(), extendible: false, storage, fill: Vec::new() };
        Hdf5Object { dataset: Some(dataset), ..Hdf5Object::group() }
    }

    fn with(objects: impl IntoIterator<Item = (String, Hdf5Object)>) -> ObjectTree {
        let root =
            Hdf5Object { attributes: [(COMPLETION_ATTRIBUTE.to_owned(), 0u64.into())].into(), dataset: None };
        [("/".to_owned(), root)].into_iter().chain(objects).collect()
    }

    /// So many datasets in a group, every number among them.
    fn many(count: u64) -> impl Iterator<Item = (String, Hdf5Object)> {
        let kinds = [1, 2, 4, 8].map(Datatype::Int).into_iter().chain([1, 2, 4, 8].map(Datatype::UInt));
        let kinds: Vec<Datatype> = kinds.chain([4, 8].map(Datatype::Float)).collect();
        (0..count).map(move |at| {
            (format!("/group/number{at}"), dataset(kinds[at as usize % kinds.len()].clone(), &[at % 5, 3]))
        })
    }

    /// The tree as the library finds it in a draft: with addresses, and with marks.
    fn expected(mut tree: ObjectTree, draft: &NewFileMetadata) -> ObjectTree {
        for DatasetAddresses { path, addresses, .. } in &draft.placed {
            let node = tree.get_mut(path).unwrap();
            node.attributes.insert(COMPLETION_ATTRIBUTE.to_owned(), 0u64.into());
            let dataset = node.dataset.as_mut().unwrap();
            let empty = dataset.elements() == Some(0);
            dataset.storage = Storage::Contiguous(if empty { 0 } else { addresses[0] });
        }
        tree
    }

    fn on_disk(draft: &NewFileMetadata) -> MetadataFile {
        let mut shadow = MetadataFile::new().unwrap();
        shadow.apply(&draft.patch, draft.length).unwrap();
        shadow
    }

    #[test]
    fn the_library_finds_what_was_drafted_and_goes_on() {
        // None, up to a node, one more, a level of nodes, one more.
        for count in [0, 1, 8, 9, 256, 257, 9000] {
            let group = ("/group".to_owned(), Hdf5Object::group());
            let tree = with([group].into_iter().chain(many(count)));
            let draft = NewFileMetadata::of(&tree, 0).unwrap();
            let shadow = on_disk(&draft);
            let found = libhdf5::probe_file(&shadow.path()).unwrap();
            assert!(found == expected(tree, &draft), "{count} datasets");
            let new =
                NewDataset { datatype: Datatype::Int(4), shape: vec![2], extendible: false, chunk: None };
            let names = ["/group/a", "/group/number3x", "/group/z", "/other"];
            let changes = names.map(|name| Hdf5Definition::Dataset(name.into(), new.clone()));
            libhdf5::apply_definitions(&shadow.path(), &changes, &found, &HashMap::new()).unwrap();
            let more = libhdf5::probe_file(&shadow.path()).unwrap();
            assert!(names.iter().all(|name| more.contains_key(*name)), "{count} datasets");
            assert!(found.iter().all(|(path, node)| more.get(path) == Some(node)), "{count} datasets");
        }
    }

    #[test]
    fn marks_lie_where_it_says() {
        let numbers = Hdf5Attribute::shaped(&[2, 2], &[1.5f32, 2.5, 3.5, 4.5]).unwrap();
        let (mut single, mut inner) = (dataset(Datatype::Float(8), &[]), Hdf5Object::group());
        single.attributes.insert("numbers".into(), numbers.clone());
        inner.attributes.insert("three".into(), [1i16, 2, 3].into());
        let tree = with([
            ("/a".to_owned(), Hdf5Object::group()),
            ("/a/b".to_owned(), inner),
            ("/a/b/single".to_owned(), single),
            ("/large".to_owned(), dataset(Datatype::UInt(1), &[1 << 20])),
            ("/zero".to_owned(), dataset(Datatype::Int(2), &[0])),
        ]);
        let draft = NewFileMetadata::of(&tree, 700).unwrap();
        let shadow = on_disk(&draft);
        for (at, (_, address)) in draft.marks.iter().enumerate() {
            assert_eq!(address % 8, 0, "within a sector");
            shadow.write(*address, &(100 + at as u64).to_le_bytes()).unwrap();
        }
        let found = libhdf5::probe_file(&shadow.path()).unwrap();
        for (at, (path, _)) in draft.marks.iter().enumerate() {
            assert_eq!(found[path].complete(), Some(100 + at as u64), "{path}");
        }
        assert_eq!(draft.marks.len(), 4, "three datasets and the root");
        assert_eq!(found["/a/b/single"].attribute("numbers"), Some(&numbers));
        assert_eq!(found["/a/b"].attribute("three"), Some(&[1i16, 2, 3].into()));
        let extents = found["/large"].dataset.as_ref().unwrap().extents();
        assert!(extents[0].0.is_multiple_of(PAGE) && extents[0].0 + extents[0].1 <= draft.length);
        // The library agrees about the places of marks.
        let objects: Vec<(&str, u64)> = draft.marks.iter().map(|(path, _)| (path.as_str(), 0)).collect();
        let places: Vec<u64> = draft.marks.iter().map(|(_, address)| *address).collect();
        assert_eq!(completion_attribute::locate_marks(&shadow, &objects, 1).unwrap(), places);
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_library() {
        let mut said = dataset(Datatype::Int(4), &[2]);
        said.attributes.insert("unit".into(), "m".into());
        let mut grown = dataset(Datatype::Int(4), &[2]);
        grown.dataset.as_mut().unwrap().storage = Storage::Chunked(vec![1], Vec::new());
        let others = [said, grown, dataset(Datatype::Bool, &[2]), dataset(Datatype::Int(4), &[1; 33])];
        for other in others {
            assert!(NewFileMetadata::of(&with([("/x".to_owned(), other)]), 0).is_none());
        }
        let named = dataset(Datatype::Int(4), &[2]);
        assert!(NewFileMetadata::of(&with([("/größe".to_owned(), named)]), 0).is_none());
    }
}
