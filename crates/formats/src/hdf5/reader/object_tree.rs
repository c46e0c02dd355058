//! The objects of a file: walks over all groups and describes what is in them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::attribute_decode::{AttributeReader, StoredReferences};
use super::byte_cursor::Decoded;
use super::chunk_index;
use super::data_layout::{self, DataLayout};
use super::dataspace;
use super::datatype_decode;
use super::global_heap::GlobalHeap;
use super::group_links::{self, LinkTarget};
use super::metadata_source::MetadataSource;
use super::object_header::{self, ObjectHeader, message};
use super::shared_message::SharedMessages;
use super::superblock::{self, Superblock};
use crate::hdf5::filters::chunk_decode::unsupported;
use crate::hdf5::model::link::Hdf5Link;
use crate::hdf5::model::tree::{Dataset, Hdf5Object, ObjectTree, Storage, UNDEFINED_ADDRESS, absolute};

/// Groups that are nested deeper are refused.
const DEEPEST: usize = 512;
/// Bytes that the shortest link has in a file.
const SHORTEST_LINK: u64 = 8;
/// The most soft links that are followed one after another.
const MOST_SOFT_LINKS: usize = 16;
/// How many links of groups are kept, unless one group has more.
const MOST_KEPT_LINKS: usize = 1 << 17;

/// What a file contains.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileContents {
    pub(crate) tree: ObjectTree,
    /// Soft and external links, by their paths.
    pub(crate) links: BTreeMap<String, Hdf5Link>,
}

/// Reads all metadata of a file.
pub(crate) fn read(source: &mut MetadataSource<'_>) -> Decoded<FileContents> {
    let superblock = superblock::read(source)?;
    let source = &*source;
    let shared = SharedMessages::read(source, superblock.extension)?;
    let mut walk = ObjectWalk {
        source,
        shared: &shared,
        attributes: AttributeReader {
            source,
            shared: &shared,
            heap: GlobalHeap::default(),
            references: Vec::new(),
        },
        found: FileContents::default(),
        root: superblock.root,
        paths: HashMap::new(),
        references: Vec::new(),
        soft_links: 0,
        groups: RefCell::default(),
    };
    walk.object(superblock.root, "/", &mut Vec::new())?;
    walk.resolve_references();
    let is_group = walk.found.tree.get("/").is_some_and(|root| root.dataset.is_none());
    if is_group { Ok(walk.found) } else { Err("its root is no group".to_owned()) }
}

/// All texts of a dataset of variable-length text, from its elements as they are stored.
pub(crate) fn read_texts(source: &mut MetadataSource<'_>, elements: &[u8]) -> Decoded<Vec<String>> {
    let Superblock { sizes, .. } = superblock::read(source)?;
    let mut heap = GlobalHeap::default();
    elements.chunks_exact(8 + sizes.offset).map(|element| heap.text(source, element)).collect()
}

struct ObjectWalk<'s, 'f> {
    source: &'s MetadataSource<'f>,
    shared: &'s SharedMessages,
    attributes: AttributeReader<'s, 'f>,
    found: FileContents,
    root: u64,
    /// Paths of objects by their addresses.
    paths: HashMap<u64, String>,
    /// Attributes with references: the path of the object, and their names.
    references: Vec<(String, String, StoredReferences)>,
    /// How many soft links lead to the object that is read.
    soft_links: usize,
    groups: RefCell<GroupCache>,
}

/// The links of a group by their names; none if the object is no group.
type SharedLinks = Option<Rc<BTreeMap<String, LinkTarget>>>;

/// The links of groups that were read, by the addresses of the groups: soft links lead to the same groups again and again.
#[derive(Default)]
struct GroupCache {
    groups: HashMap<u64, SharedLinks>,
    /// How many links all of them have.
    links: usize,
}

impl GroupCache {
    fn insert(&mut self, address: u64, links: &SharedLinks) {
        let count = 1 + links.as_ref().map_or(0, |links| links.len());
        if self.links + count > MOST_KEPT_LINKS {
            *self = Self::default();
        }
        if self.groups.insert(address, links.clone()).is_none() {
            self.links += count;
        }
    }
}

impl ObjectWalk<'_, '_> {
    /// Adds the object at an address, and all that is in it unless it is inside itself.
    fn object(&mut self, address: u64, path: &str, above: &mut Vec<u64>) -> Decoded<()> {
        let at = |error: String| format!("{path:?}: {error}");
        if above.len() > DEEPEST {
            return Err(at(format!("groups in groups more than {DEEPEST} deep")));
        }
        let length = self.source.file_length();
        if self.found.tree.len() as u64 > length / SHORTEST_LINK {
            return Err(at(format!(
                "more groups and datasets than {length} bytes can name: they are linked to again and again"
            )));
        }
        let header = object_header::read(self.source, address).map_err(at)?;
        let links = self.links_of(address, &header).map_err(at)?;
        let is_dataset = header.find(message::DATA_LAYOUT).is_some();
        if links.is_none() && !is_dataset {
            // A committed datatype; a root without links is an empty group.
            if path != "/" {
                return Ok(());
            }
        }
        let attributes = self.attributes.read(&header).map_err(at)?;
        let references = self.attributes.references.drain(..);
        self.references.extend(references.map(|(name, references)| (path.to_owned(), name, references)));
        if self.soft_links == 0 {
            self.paths.entry(address).or_insert_with(|| path.to_owned());
        }
        let dataset = if is_dataset { Some(self.dataset(&header).map_err(at)?) } else { None };
        self.found.tree.insert(path.to_owned(), Hdf5Object { attributes, dataset });
        if is_dataset || above.contains(&address) {
            return Ok(());
        }
        above.push(address);
        for (name, target) in links.iter().flat_map(|links| links.iter()) {
            let inner = format!("{}/{name}", path.trim_end_matches('/'));
            if absolute(&inner).as_deref() != Some(inner.as_str()) {
                return Err(format!("{inner:?}: a name that is no name of an object"));
            }
            self.link(target, &inner, above)?;
        }
        above.pop();
        Ok(())
    }

    fn link(&mut self, target: &LinkTarget, path: &str, above: &mut Vec<u64>) -> Decoded<()> {
        match target {
            LinkTarget::Hard(address) => self.object(*address, path, above),
            LinkTarget::Soft(target) => {
                let found = self.resolve(target, above, MOST_SOFT_LINKS)?;
                let link = Hdf5Link::Soft { target: target.clone(), resolved: found.is_some() };
                self.found.links.insert(path.to_owned(), link);
                self.soft_links += 1;
                let outcome = found.map_or(Ok(()), |address| self.object(address, path, above));
                self.soft_links -= 1;
                outcome
            }
            LinkTarget::External(file, target) => {
                let (file, target) = (file.clone(), target.clone());
                self.found.links.insert(path.to_owned(), Hdf5Link::External { file, target });
                Ok(())
            }
            LinkTarget::UserDefined(class) => {
                self.found.links.insert(path.to_owned(), Hdf5Link::UserDefined { class: *class });
                Ok(())
            }
        }
    }

    /// Replaces references by paths.
    fn resolve_references(&mut self) {
        for (path, name, references) in std::mem::take(&mut self.references) {
            let found = references.resolve(|address| self.paths.get(&address).cloned().unwrap_or_default());
            if let Some(object) = self.found.tree.get_mut(&path) {
                object.attributes.insert(name, found);
            }
        }
    }

    /// The links of a group whose header was read.
    fn links_of(&self, address: u64, header: &ObjectHeader) -> Decoded<SharedLinks> {
        if let Some(known) = self.groups.borrow().groups.get(&address) {
            return Ok(known.clone());
        }
        let links = group_links::read(self.source, header)?.map(Rc::new);
        if links.is_some() {
            self.groups.borrow_mut().insert(address, &links);
        }
        Ok(links)
    }

    /// The links of the group at an address.
    fn links_at(&self, address: u64) -> Decoded<SharedLinks> {
        if let Some(known) = self.groups.borrow().groups.get(&address) {
            return Ok(known.clone());
        }
        let links = self.links_of(address, &object_header::read(self.source, address)?)?;
        if links.is_none() {
            self.groups.borrow_mut().insert(address, &links);
        }
        Ok(links)
    }

    /// The object of a path, from the root or from the innermost of these groups; none if there is none.
    fn resolve(&self, path: &str, above: &[u64], most: usize) -> Decoded<Option<u64>> {
        let mut groups = if path.starts_with('/') { vec![self.root] } else { above.to_vec() };
        for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
            let Some(group) = groups.last() else { return Ok(None) };
            let links = self.links_at(*group)?;
            match links.as_ref().and_then(|links| links.get(name)) {
                Some(LinkTarget::Hard(address)) => groups.push(*address),
                Some(LinkTarget::Soft(target)) if most > 0 => {
                    match self.resolve(target, &groups, most - 1)? {
                        Some(address) => groups.push(address),
                        None => return Ok(None),
                    }
                }
                _ => return Ok(None),
            }
            if groups.len() > 2 * DEEPEST {
                return Ok(None);
            }
        }
        Ok(groups.last().copied())
    }

    /// The body of the first message of a type.
    fn message<'h>(&self, header: &'h ObjectHeader, kind: u16) -> Decoded<Option<Cow<'h, [u8]>>> {
        let Some(found) = header.find(kind) else { return Ok(None) };
        Ok(Some(match self.shared.resolve(self.source, found)? {
            Cow::Borrowed(found) => Cow::Borrowed(&found.body),
            Cow::Owned(found) => Cow::Owned(found.body),
        }))
    }

    fn dataset(&self, header: &ObjectHeader) -> Decoded<Dataset> {
        let source = self.source;
        let required = |kind: u16, what: &str| {
            self.message(header, kind)?.ok_or_else(|| format!("a dataset without a {what}"))
        };
        let space = required(message::DATASPACE, "dataspace")?;
        let mut space =
            dataspace::decode(source.cursor(&space)).map_err(|error| format!("dataspace: {error}"))?;
        let stored = required(message::DATATYPE, "datatype")?;
        let stored = datatype_decode::decode(&mut source.cursor(&stored));
        let stored = stored.map_err(|error| format!("datatype: {error}"))?;
        let layout = required(message::DATA_LAYOUT, "layout")?;
        let layout =
            data_layout::decode(source.cursor(&layout)).map_err(|error| format!("layout: {error}"))?;
        let filters = self.message(header, message::FILTER_PIPELINE)?;
        let filters = filters.map(|body| data_layout::decode_filters(source.cursor(&body))).transpose();
        let filters = filters.map_err(|error| format!("filters: {error}"))?.unwrap_or_default();
        if space.null {
            space.shape = vec![0];
        }
        let size = stored.datatype.size();
        let storage = match layout {
            _ if header.find(message::EXTERNAL_FILES).is_some() => Storage::Unsupported(
                "its data is in other files (external storage); `h5repack` copies it".to_owned(),
            ),
            DataLayout::Virtual => Storage::Unsupported(
                "it is a virtual dataset, whose data is in other datasets; `h5repack -l CONTI` copies it"
                    .to_owned(),
            ),
            DataLayout::Compact(bytes) => {
                let wanted = space.elements().and_then(|count| count.checked_mul(size));
                if wanted.is_none_or(|wanted| wanted > bytes.len() as u64) {
                    return Err(format!(
                        "a compact dataset of shape {:?} in {} bytes",
                        space.shape,
                        bytes.len()
                    ));
                }
                Storage::Compact(bytes)
            }
            DataLayout::Contiguous { .. } if space.elements() == Some(0) => Storage::Contiguous(0),
            DataLayout::Contiguous { address: UNDEFINED_ADDRESS, .. } => {
                Storage::Contiguous(UNDEFINED_ADDRESS)
            }
            DataLayout::Contiguous { address, .. } => Storage::Contiguous(source.offset_of(address)?),
            DataLayout::Chunked(layout) if layout.element != size => {
                return Err(format!(
                    "elements of {size} bytes in chunks with elements of {}",
                    layout.element
                ));
            }
            DataLayout::Chunked(_) if unsupported(&filters).is_some() => {
                Storage::Unsupported(unsupported(&filters).unwrap_or_default())
            }
            DataLayout::Chunked(layout) => chunk_index::read(source, &space, &layout, filters)?,
        };
        let extendible = space.limits.first().is_some_and(|limit| *limit > space.shape[0]);
        let fill = self.fill_value(header, size)?;
        let (shape, limits) = (space.shape, space.limits);
        let (datatype, conversions) = (stored.datatype, stored.conversions);
        Ok(Dataset { datatype, shape, extendible, storage, fill, limits, conversions })
    }

    fn fill_value(&self, header: &ObjectHeader, size: u64) -> Decoded<Vec<u8>> {
        let fill = match self.message(header, message::FILL_VALUE)? {
            Some(body) => data_layout::decode_fill_value(self.source.cursor(&body)),
            None => match self.message(header, message::OLD_FILL_VALUE)? {
                Some(body) => data_layout::decode_old_fill_value(self.source.cursor(&body)).map(Some),
                None => Ok(None),
            },
        };
        let fill = fill.map_err(|error| format!("fill value: {error}"))?.unwrap_or_default();
        let usable = fill.len() as u64 == size && fill.iter().any(|byte| *byte != 0);
        Ok(if usable { fill } else { Vec::new() })
    }
}
