//! The metadata of an open file on rank 0: object headers and the blocks that belong to them. A change is copy-on-write.
//!
//! Blocks that change, and those that refer to them up to the root, are written to unused space; then the superblock, less than a
//! sector, refers to the new root. At every moment the file has the old or the new metadata, whole.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use super::block_allocator::{BlockAllocator, BlockExtent, MetadataWrite, merge_writes};
use super::chunk_index::{ChunkGrid, ChunkIndex};
use super::message_encode as encode;
use super::object_header::{StoredMessage, encode_header, header_length, message_end, message_kind, word_at};
use super::superblock::StoredSuperblock;
use super::symbol_table::{SymbolTable, SymbolTarget};
use crate::hdf5::model::attribute::Hdf5Attribute;
use crate::hdf5::model::chunk_table::StoredChunk;
use crate::hdf5::model::definition::{DatasetAddresses, Hdf5Definition, NewDataset};
use crate::hdf5::model::tree::{
    COMPLETION_ATTRIBUTE, Dataset, ObjectTree, Storage, UNDEFINED_ADDRESS, parent,
};

/// The members of a group as the file has them.
#[derive(Debug)]
pub(crate) enum GroupLinks {
    Table(SymbolTable),
    /// Link messages in the header.
    Messages,
}

/// A group, dataset or named type.
#[derive(Debug)]
pub(crate) struct StoredObject {
    pub(crate) address: u64,
    /// The block of its header, if it can be reused once it is replaced.
    pub(crate) block: Option<BlockExtent>,
    pub(crate) link_count: u32,
    pub(crate) messages: Vec<StoredMessage>,
    pub(crate) links: Option<GroupLinks>,
    pub(crate) chunks: Option<ChunkIndex>,
    /// Why it is not changed, if it is not.
    pub(crate) fixed: Option<&'static str>,
}

impl StoredObject {
    fn new(messages: Vec<StoredMessage>, links: Option<GroupLinks>) -> Self {
        Self {
            address: UNDEFINED_ADDRESS,
            block: None,
            link_count: 1,
            messages,
            links,
            chunks: None,
            fixed: None,
        }
    }

    /// The link to it.
    fn target(&self) -> SymbolTarget {
        let table = self.messages.iter().find(|message| message.kind == message_kind::SYMBOL_TABLE);
        let group =
            table.and_then(|table| Some([word_at(&table.data, 0).ok()?, word_at(&table.data, 8).ok()?]));
        SymbolTarget::Object(self.address, group)
    }

    /// Replaces the message of a kind, or adds it.
    fn set_message(&mut self, kind: u16, flags: u8, data: Vec<u8>) {
        let message = StoredMessage::new(kind, flags, data);
        match self.messages.iter_mut().find(|message| message.kind == kind) {
            Some(old) => *old = message,
            None => self.messages.push(message),
        }
    }

    fn set_attribute(&mut self, name: &str, message: StoredMessage) {
        let old = self.messages.iter_mut().find(|old| old.attribute_name() == Some(name.as_bytes()));
        match old {
            Some(old) => *old = message,
            None => self.messages.push(message),
        }
    }

    /// The number of the message of its completion attribute.
    fn completion_message(&self) -> Option<usize> {
        self.messages
            .iter()
            .position(|message| message.attribute_name() == Some(COMPLETION_ATTRIBUTE.as_bytes()))
    }
}

/// A change of the metadata, on its way to the file.
#[derive(Debug, Default)]
pub(crate) struct MetadataChange {
    /// Blocks in unused space.
    pub(crate) blocks: Vec<MetadataWrite>,
    /// Written when they are durable.
    pub(crate) superblock: Vec<u8>,
    /// Where completion attributes of changed objects are.
    pub(crate) marks: Vec<(String, u64)>,
}

/// New addresses of data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewAddresses<'u> {
    pub(crate) placed: &'u [DatasetAddresses],
    /// Chunks with filters: the path of the dataset, and their numbers.
    pub(crate) chunks: &'u [(String, u64, StoredChunk)],
    /// Where the data ends.
    pub(crate) data_end: u64,
}

/// What is defined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetadataUpdate<'u> {
    pub(crate) changes: &'u [Hdf5Definition],
    /// All objects with the changes.
    pub(crate) tree: &'u ObjectTree,
    pub(crate) addresses: NewAddresses<'u>,
    /// Where the file ends now.
    pub(crate) before: u64,
}

/// The metadata of an open file.
#[derive(Debug)]
pub(crate) struct MetadataStore {
    pub(crate) objects: HashMap<String, StoredObject>,
    pub(crate) superblock: StoredSuperblock,
    pub(crate) space: BlockAllocator,
    /// Why nothing is defined in it, if nothing is.
    pub(crate) fixed: Option<String>,
    /// The paths of objects that refer to others, and the heaps with their lists of references.
    pub(crate) referring: BTreeSet<String>,
    pub(crate) reference_heaps: Vec<BlockExtent>,
}

impl MetadataStore {
    /// That of a new file, with nothing in it.
    pub(crate) fn new() -> Self {
        let superblock = StoredSuperblock::new();
        let root = GroupLinks::Table(SymbolTable::new(superblock.sizes));
        Self {
            objects: [("/".to_owned(), StoredObject::new(group_messages(), Some(root)))].into(),
            superblock,
            space: BlockAllocator::new(super::superblock::SUPERBLOCK_BYTES),
            fixed: None,
            referring: BTreeSet::new(),
            reference_heaps: Vec::new(),
        }
    }

    /// Where the file ends.
    pub(crate) fn end(&self) -> u64 {
        self.space.end()
    }

    /// Whether changes can be made: an error says what cannot be changed, and why.
    pub(crate) fn check(&self, changes: &[Hdf5Definition]) -> Result<(), String> {
        if let Some(why) = self.fixed.as_ref().filter(|_| !changes.is_empty()) {
            return Err(format!(
                "nothing is defined in this file: {why}; copy it with h5repack or `aqueduct convert`"
            ));
        }
        let mut new = HashSet::new();
        for change in changes {
            let needed = match change {
                Hdf5Definition::Group(path) | Hdf5Definition::Dataset(path, _) => {
                    new.insert(path.as_str());
                    parent(path)
                }
                other => Some(other.path()),
            };
            if let Some(path) = needed.filter(|path| !self.objects.contains_key(*path) && !new.contains(path))
            {
                return Err(format!(
                    "{path:?} is reached by a link that is not changed; use the path that the link leads to"
                ));
            }
            let mut path = Some(change.path());
            while let Some(object) = path {
                if let Some(why) = self.objects.get(object).and_then(|object| object.fixed) {
                    return Err(format!(
                        "{:?} is not changed: {object:?} {why}; copy the file with h5repack or `aqueduct convert`",
                        change.path()
                    ));
                }
                path = parent(object);
            }
        }
        Ok(())
    }

    /// Makes changes. `complete` is the value of an object's completion attribute.
    pub(crate) fn apply(
        &mut self,
        update: MetadataUpdate<'_>,
        complete: impl Fn(&str) -> u64,
    ) -> Result<MetadataChange, String> {
        self.space.begin(Instant::now(), update.addresses.data_end);
        let mut changed = BTreeSet::from(["/".to_owned()]);
        for change in update.changes {
            self.apply_one(change, &update, &mut changed)?;
        }
        self.apply_placed(&update, &mut changed)?;
        add_groups(&mut changed);
        self.add_referring(&mut changed);
        add_groups(&mut changed);
        self.write_changed(&changed, &update, complete)
    }

    fn apply_one(
        &mut self,
        change: &Hdf5Definition,
        update: &MetadataUpdate<'_>,
        changed: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let missing = |path: &str| format!("{path:?} is missing in the metadata");
        changed.insert(change.path().to_owned());
        match change {
            Hdf5Definition::Group(path) => {
                let table = GroupLinks::Table(SymbolTable::new(self.superblock.sizes));
                self.objects.insert(path.clone(), StoredObject::new(group_messages(), Some(table)));
            }
            Hdf5Definition::Dataset(path, new) => {
                let marked = self.objects.get("/").is_some_and(|root| root.completion_message().is_some());
                let messages =
                    dataset_messages(new, marked).map_err(|why| format!("dataset {path:?}: {why}"))?;
                let chunks = new.chunk.is_some().then(ChunkIndex::default);
                self.objects
                    .insert(path.clone(), StoredObject { chunks, ..StoredObject::new(messages, None) });
            }
            Hdf5Definition::Extend(path, _) => {
                let dataset = update.tree.get(path).and_then(|node| node.dataset.as_ref());
                let dataset = dataset.ok_or_else(|| missing(path))?;
                let object = self.objects.get_mut(path).ok_or_else(|| missing(path))?;
                let space =
                    object.messages.iter_mut().find(|message| message.kind == message_kind::DATASPACE);
                let space = space.filter(|space| space.flags & 2 == 0).ok_or_else(|| missing(path))?;
                // The first dimension; the limits stay.
                let at = if space.data.first() == Some(&1) { 8 } else { 4 };
                if space.data.len() < at + 8 {
                    return Err(missing(path));
                }
                space.set_word(at, dataset.rows());
            }
            Hdf5Definition::Attribute(path, name, value) => {
                let object = self.objects.get_mut(path).ok_or_else(|| missing(path))?;
                let message = encode::attribute(name, value)?;
                if message.targets().next().is_some() {
                    self.referring.insert(path.clone());
                }
                object.set_attribute(name, message);
            }
        }
        Ok(())
    }

    /// Gives datasets their addresses.
    fn apply_placed(
        &mut self,
        update: &MetadataUpdate<'_>,
        changed: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        for DatasetAddresses { path, known, addresses } in update.addresses.placed {
            let dataset = update.tree.get(path).and_then(|node| node.dataset.as_ref());
            let Some((object, dataset)) = self.objects.get_mut(path).zip(dataset) else {
                return Err(format!("{path:?} is missing in the metadata"));
            };
            changed.insert(path.clone());
            match &dataset.storage {
                Storage::Contiguous(address) => {
                    let bytes = dataset.elements().unwrap_or(0) * dataset.datatype.size();
                    object.set_message(
                        message_kind::LAYOUT,
                        u8::from(bytes > 0),
                        encode::contiguous_layout(*address, bytes),
                    );
                }
                Storage::Chunked(chunk, all) => {
                    let bytes = chunk.iter().product::<u64>() * dataset.datatype.size();
                    // The index of a file that was opened is written anew once.
                    let (first, addresses) =
                        if object.chunks.is_some() { (*known, addresses) } else { (0, all) };
                    let index = object.chunks.get_or_insert_default();
                    for (number, address) in
                        (first..).zip(addresses).filter(|(_, at)| **at != UNDEFINED_ADDRESS)
                    {
                        index.set(number, StoredChunk { address: *address, size: bytes, mask: 0 });
                    }
                }
                Storage::ChunkTable(_) | Storage::Compact(_) | Storage::Unsupported(_) => {}
            }
        }
        self.apply_chunks(update, changed)
    }

    /// Adds chunks with filters to their indexes.
    fn apply_chunks(
        &mut self,
        update: &MetadataUpdate<'_>,
        changed: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        for (path, number, chunk) in update.addresses.chunks {
            let object =
                self.objects.get_mut(path).ok_or_else(|| format!("{path:?} is missing in the metadata"))?;
            changed.insert(path.clone());
            match &mut object.chunks {
                Some(index) => index.set(*number, *chunk),
                // The index of a file that was opened is written anew once.
                None => {
                    let index = object.chunks.insert(ChunkIndex::default());
                    let dataset = update.tree.get(path).and_then(|node| node.dataset.as_ref());
                    if let Some(Storage::ChunkTable(table)) = dataset.map(|dataset| &dataset.storage) {
                        table.iter().for_each(|(number, chunk)| index.set(number, chunk));
                    }
                }
            }
        }
        Ok(())
    }

    fn write_changed(
        &mut self,
        changed: &BTreeSet<String>,
        update: &MetadataUpdate<'_>,
        complete: impl Fn(&str) -> u64,
    ) -> Result<MetadataChange, String> {
        let missing = |path: &str| format!("{path:?} is missing in the metadata");
        let (mut out, mut marks) = (Vec::new(), Vec::new());
        // All addresses of headers are known before anything that refers to them is encoded.
        for path in changed {
            let object = self.objects.get_mut(path).ok_or_else(|| missing(path))?;
            if object.links.as_ref().is_some_and(|links| matches!(links, GroupLinks::Messages)) {
                add_links(object, path, changed);
            }
            object.address = self.space.replace(&mut object.block, header_length(&object.messages));
        }
        self.write_heaps(changed, &mut out)?;
        // Members are before their groups, and in the order of their names.
        let is_group = |path: &&String| self.objects.get(*path).is_some_and(|object| object.links.is_some());
        let (groups, others): (Vec<&String>, Vec<&String>) = changed.iter().partition(is_group);
        for path in others.into_iter().chain(groups.into_iter().rev()) {
            let mut object = self.objects.remove(path).ok_or_else(|| missing(path))?;
            let dataset = update.tree.get(path).and_then(|node| node.dataset.as_ref());
            self.write_index(&mut object, dataset, &mut out);
            if let Some(number) = object.completion_message() {
                let message = &mut object.messages[number];
                let at = message.data.len() - 8;
                message.set_word(at, complete(path));
                marks.push((path.clone(), object.address + message_end(&object.messages, number) - 8));
            }
            let header = encode_header(&object.messages, object.link_count);
            out.push((object.address, header.map_err(|why| format!("{path:?}: {why}"))?));
            if let Some((group, name)) =
                parent(path).and_then(|group| Some((group, path.rsplit_once('/')?.1)))
            {
                let target = object.target();
                let group = self.objects.get_mut(group).ok_or_else(|| missing(group))?;
                match &mut group.links {
                    Some(GroupLinks::Table(table)) => table.set(name, target),
                    Some(GroupLinks::Messages) => set_link(group, name, object.address),
                    None => return Err(format!("{path:?} is not in a group")),
                }
            }
            self.objects.insert(path.clone(), object);
        }
        let root = self.objects.get("/").ok_or_else(|| missing("/"))?.target();
        let superblock = self.superblock.with(root, self.space.end().max(update.before));
        Ok(MetadataChange { blocks: merge_writes(out, update.before), superblock, marks })
    }

    /// Writes the blocks that the layout or the symbol table of an object refers to.
    fn write_index(
        &mut self,
        object: &mut StoredObject,
        dataset: Option<&Dataset>,
        out: &mut Vec<MetadataWrite>,
    ) {
        if let Some(GroupLinks::Table(table)) = &mut object.links {
            let mut data = Vec::new();
            encode::put_words(&mut data, table.write(&mut self.space, out));
            object.set_message(message_kind::SYMBOL_TABLE, 0, data);
        }
        if let Some((index, dataset)) = object.chunks.as_mut().zip(dataset)
            && let Some(chunk) = dataset.chunk()
        {
            let grid = ChunkGrid { shape: &dataset.shape, chunk };
            let root = index.write(grid, &mut self.space, out);
            let layout = encode::chunked_layout(root, chunk, dataset.datatype.size());
            object.set_message(message_kind::LAYOUT, 0, layout);
        }
    }
}

/// Adds the groups of changed objects up to the root.
fn add_groups(changed: &mut BTreeSet<String>) {
    let mut left: Vec<String> = changed.iter().cloned().collect();
    while let Some(path) = left.pop() {
        let above = parent(&path).map(str::to_owned);
        left.extend(above.into_iter().filter(|path| changed.insert(path.clone())));
    }
}

/// The messages of a new group; the addresses follow.
fn group_messages() -> Vec<StoredMessage> {
    vec![StoredMessage::new(message_kind::SYMBOL_TABLE, 0, vec![0xFF; 16])]
}

/// The messages of a new dataset; the addresses follow.
fn dataset_messages(new: &NewDataset, marked: bool) -> Result<Vec<StoredMessage>, String> {
    let layout = match &new.chunk {
        Some(chunk) => encode::chunked_layout(UNDEFINED_ADDRESS, chunk, new.datatype.size()),
        None => {
            let elements = new.shape.iter().fold(1, |all: u64, length| all.saturating_mul(*length));
            encode::contiguous_layout(UNDEFINED_ADDRESS, elements.saturating_mul(new.datatype.size()))
        }
    };
    let mut messages = vec![
        StoredMessage::new(message_kind::DATASPACE, 0, encode::dataspace(&new.shape, new.extendible)?),
        StoredMessage::new(message_kind::DATATYPE, 1, encode::datatype(&new.datatype)?),
        StoredMessage::new(
            message_kind::FILL_VALUE,
            1,
            encode::fill_value(new.filters.is_empty() && !new.unallocated, &new.fill),
        ),
        StoredMessage::new(message_kind::LAYOUT, 0, layout),
    ];
    if !new.filters.is_empty() {
        messages.push(StoredMessage::new(message_kind::FILTERS, 1, encode::filter_pipeline(&new.filters)));
    }
    if marked && !new.unallocated {
        messages.push(encode::attribute(COMPLETION_ATTRIBUTE, &Hdf5Attribute::from(0u64))?);
    }
    Ok(messages)
}

/// Adds link messages for members that the header does not have.
fn add_links(object: &mut StoredObject, path: &str, changed: &BTreeSet<String>) {
    let inside = changed.iter().filter(|member| parent(member) == Some(path));
    for name in inside.filter_map(|member| Some(member.rsplit_once('/')?.1)) {
        if find_link(object, name).is_none() {
            // Version 1; the length of the name in four bytes; UTF-8.
            let mut data = vec![1, 0b0001_0010, 1];
            data.extend_from_slice(&(name.len() as u32).to_le_bytes());
            data.extend_from_slice(name.as_bytes());
            encode::put_words(&mut data, [UNDEFINED_ADDRESS]);
            object.messages.push(StoredMessage::new(message_kind::LINK, 0, data));
        }
    }
}

fn find_link(object: &mut StoredObject, name: &str) -> Option<(usize, usize)> {
    let hard = |(number, message): (usize, &StoredMessage)| {
        let link = super::metadata_load::decode_link(message)?;
        (link.name == name).then_some((number, link.address_at?))
    };
    object
        .messages
        .iter()
        .enumerate()
        .filter(|(_, message)| message.kind == message_kind::LINK)
        .find_map(hard)
}

fn set_link(group: &mut StoredObject, name: &str, address: u64) {
    if let Some((number, at)) = find_link(group, name) {
        group.messages[number].set_word(at, address);
    }
}
