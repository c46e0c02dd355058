//! Definitions: at any time, all or none of a batch, the same on all ranks.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use aqueduct_object::{Object, encode};
use xxhash_rust::xxh3::xxh3_64;

use super::commit::{CommitOutline, WritePhases, plan_commit};
use super::completion_attribute;
use super::completion_attribute::CompletionState;
use super::file::{DatasetId, Hdf5File, initial_completion};
use super::metadata::byte_image::ByteImage;
use super::metadata::libhdf5;
use super::metadata::metadata_cow::{BlockMoves, MetadataCow, RetiredBlocks};
use super::metadata::metadata_writer::NewFileMetadata;
use super::metadata::ordered_writes::OrderedWrites;
use super::model::attribute::Hdf5Attribute;
use super::model::datatype::Datatype;
use super::model::definition::{DatasetAddresses, Hdf5Definition, NewDataset};
use super::model::tree::{
    COMPLETION_ATTRIBUTE, Dataset, Hdf5Object, ObjectTree, Storage, UNDEFINED_ADDRESS, absolute, parent,
    too_many,
};
use super::open::copy_around;
use crate::error::{Error, Kind, Result};

/// The largest chunk that the format allows.
const LARGEST_CHUNK: u64 = (1 << 32) - 1;
/// The longest attribute that fits in an object header.
const LONGEST_ATTRIBUTE: usize = 64_000;

/// Definitions that are being made: what a closure given to [`Hdf5File::define`] gets.
#[derive(Debug)]
pub struct Hdf5Definitions<'a> {
    file: &'a str,
    tree: ObjectTree,
    paths: Vec<String>,
    changes: Vec<Hdf5Definition>,
}

impl Hdf5Definitions<'_> {
    /// What there is, with the definitions made so far.
    pub fn tree(&self) -> &ObjectTree {
        &self.tree
    }

    /// Creates a group and its parents. An existing group is not changed.
    #[doc(alias = "H5Gcreate")]
    pub fn group(&mut self, path: &str) -> Result<()> {
        let path = self.checked(path)?;
        match self.tree.get(&path) {
            Some(node) if node.dataset.is_none() => return Ok(()),
            Some(_) => {
                return Err(self.error(
                    Kind::NameExists,
                    format!("there is a dataset {path:?}, which cannot hold others"),
                ));
            }
            None => {}
        }
        if let Some(outer) = parent(&path) {
            self.group(outer)?;
        }
        self.tree.insert(path.clone(), Hdf5Object::group());
        self.changes.push(Hdf5Definition::Group(path));
        Ok(())
    }

    /// A dataset of this shape, its elements in one piece; without dimensions a single value. Groups are made as needed.
    #[doc(alias = "H5Dcreate")]
    pub fn dataset<T: Object>(&mut self, path: &str, shape: &[u64]) -> Result<DatasetId> {
        let datatype = self.datatype::<T>()?;
        self.dataset_as(path, datatype, shape)
    }

    /// The same, of a type that is known as a value.
    pub fn dataset_as(&mut self, path: &str, datatype: Datatype, shape: &[u64]) -> Result<DatasetId> {
        self.add(path, NewDataset { datatype, shape: shape.to_vec(), extendible: false, chunk: None })
    }

    /// A dataset in chunks, whose first dimension can be [extended](Hdf5Definitions::extend). A chunk is accessed in one piece: one that
    /// holds the data of one write is the fastest.
    pub fn extendible<T: Object>(&mut self, path: &str, shape: &[u64], chunk: &[u64]) -> Result<DatasetId> {
        let datatype = self.datatype::<T>()?;
        self.extendible_as(path, datatype, shape, chunk)
    }

    /// The same, of a type that is known as a value.
    pub fn extendible_as(
        &mut self,
        path: &str,
        datatype: Datatype,
        shape: &[u64],
        chunk: &[u64],
    ) -> Result<DatasetId> {
        self.add(
            path,
            NewDataset { datatype, shape: shape.to_vec(), extendible: true, chunk: Some(chunk.to_vec()) },
        )
    }

    /// Gives a growing dataset so many rows in all.
    #[doc(alias = "H5Dset_extent")]
    pub fn extend(&mut self, id: DatasetId, rows: u64) -> Result<()> {
        let Some(path) = self.paths.get(id.0).cloned() else {
            let detail = format!("there is no dataset number {}; it belongs to another file", id.0);
            return Err(self.error(Kind::NoSuchName, detail));
        };
        let known = self.tree.get_mut(&path).and_then(|node| node.dataset.as_mut());
        let Some(dataset) = known.filter(|dataset| dataset.extendible) else {
            let detail = format!("dataset {path:?} cannot grow; define it with `growing`");
            return Err(self.error(Kind::BadArgument, detail));
        };
        if rows < dataset.shape[0] {
            let detail = format!("dataset {path:?} has {} rows; {rows} would be fewer", dataset.shape[0]);
            return Err(self.error(Kind::BadArgument, detail));
        }
        if rows > dataset.shape[0] {
            dataset.shape[0] = rows;
            self.fits(&path)?;
            self.changes.push(Hdf5Definition::Extend(path, rows));
        }
        Ok(())
    }

    /// Sets an attribute of a group or dataset; replaces an attribute of this name.
    #[doc(alias = "H5Acreate")]
    pub fn attribute(&mut self, path: &str, name: &str, values: impl Into<Hdf5Attribute>) -> Result<()> {
        let (path, values) = (self.checked(path)?, values.into());
        if name.is_empty() || name.contains('\0') || name == COMPLETION_ATTRIBUTE {
            let detail =
                format!("{name:?} is no name for an attribute: empty, with a zero, or the one of marks");
            return Err(self.error(Kind::BadArgument, detail));
        }
        if encode(&values).len() > LONGEST_ATTRIBUTE {
            let detail =
                format!("attribute {name:?} has more than {LONGEST_ATTRIBUTE} bytes; make it a dataset");
            return Err(self.error(Kind::TooLarge, detail));
        }
        let Some(node) = self.tree.get_mut(&path) else {
            return Err(self.error(Kind::NoSuchName, format!("there is no {path:?} to say {name:?} about")));
        };
        node.attributes.insert(name.to_owned(), values.clone());
        self.changes.push(Hdf5Definition::Attribute(path, name.to_owned(), values));
        Ok(())
    }

    fn add(&mut self, path: &str, new: NewDataset) -> Result<DatasetId> {
        let path = self.checked(path)?;
        if self.tree.contains_key(&path) {
            return Err(self.error(Kind::NameExists, format!("there is a group or dataset {path:?} already")));
        }
        if let Some(what) = new.datatype.foreign() {
            return Err(self.error(Kind::WrongType, format!("dataset {path:?} cannot be of {what}")));
        }
        if let Some(chunk) = &new.chunk {
            let bytes = chunk.iter().try_fold(new.datatype.size(), |all, length| all.checked_mul(*length));
            let sound = chunk.len() == new.shape.len() && !chunk.is_empty();
            if !sound || bytes.is_none_or(|bytes| bytes == 0 || bytes > LARGEST_CHUNK) {
                let detail = format!(
                    "chunks of {chunk:?} do not suit dataset {path:?} of {:?}: as many dimensions, none of length 0, up to 4 GiB",
                    new.shape
                );
                return Err(self.error(Kind::BadArgument, detail));
            }
        }
        if let Some(outer) = parent(&path) {
            self.group(outer)?;
        }
        let storage = match &new.chunk {
            Some(chunk) => Storage::Chunked(chunk.clone(), Vec::new()),
            None => Storage::Contiguous(UNDEFINED_ADDRESS),
        };
        let (datatype, shape, fill) = (new.datatype.clone(), new.shape.clone(), Vec::new());
        let dataset = Dataset { datatype, shape, extendible: new.extendible, storage, fill };
        self.tree.insert(path.clone(), Hdf5Object { dataset: Some(dataset), ..Hdf5Object::group() });
        self.fits(&path)?;
        self.paths.push(path.clone());
        self.changes.push(Hdf5Definition::Dataset(path, new));
        Ok(DatasetId(self.paths.len() - 1))
    }

    fn fits(&self, path: &str) -> Result<()> {
        let dataset = self.tree.get(path).and_then(|node| node.dataset.as_ref());
        let bytes = dataset.and_then(|dataset| dataset.elements()?.checked_mul(dataset.datatype.size()));
        let chunks = dataset.and_then(|dataset| too_many(&dataset.shape, dataset.chunk()?));
        if let Some(why) = chunks {
            return Err(self.error(Kind::TooLarge, format!("dataset {path:?} of {why}")));
        }
        if bytes.is_some_and(|bytes| bytes < 1 << 62) {
            return Ok(());
        }
        Err(self.error(Kind::TooLarge, format!("dataset {path:?} is larger than every file")))
    }

    fn datatype<T: Object>(&self) -> Result<Datatype> {
        Datatype::of::<T>().map_err(|what| self.error(Kind::WrongType, what))
    }

    fn checked(&self, path: &str) -> Result<String> {
        absolute(path).ok_or_else(|| {
            let detail =
                format!("{path:?} is no path: names between single slashes, none of them \".\" or \"..\"");
            self.error(Kind::BadArgument, detail)
        })
    }

    fn error(&self, kind: Kind, detail: impl Into<String>) -> Error {
        Error::new(kind, "define", self.file, detail)
    }
}

/// The result of definitions that rank 0 broadcasts.
#[derive(Object, Default)]
struct DefinitionOutcome {
    placed: Vec<DatasetAddresses>,
    outline: CommitOutline,
}

/// The state that rank 0 keeps: pending writes, offsets of completion attributes, and blocks that moved since.
#[derive(Default)]
struct RootOutcome {
    phases: WritePhases,
    marks: Vec<(String, u64)>,
    moves: BlockMoves,
}

impl Hdf5File {
    /// Makes the definitions of a closure, all of them or none: whenever they are wanted, before and after data is written. Collective, and
    /// the same on all ranks. What it returns, the closure returned.
    ///
    /// Nothing of the file is lost if the program ends in between.
    pub fn define<R>(&mut self, define: impl FnOnce(&mut Hdf5Definitions<'_>) -> Result<R>) -> Result<R> {
        let defined = self.may_write("define").and_then(|()| {
            let paths = self.datasets.iter().map(|(path, _)| path.clone()).collect();
            let mut definitions = Hdf5Definitions {
                file: &self.core.name,
                tree: self.tree.clone(),
                paths,
                changes: Vec::new(),
            };
            define(&mut definitions).map(|result| (result, definitions.tree, definitions.changes))
        });
        let hash = defined.as_ref().ok().map(|(_, _, changes)| xxh3_64(&encode(changes)));
        let ((result, tree, changes), []) =
            self.core.agree_same("define", defined, "list of definitions", hash, [])?;
        if changes.is_empty() {
            return Ok(result);
        }
        let begun = self.empty_file_end.take();
        if let Some((draft, before)) =
            begun.and_then(|before| Some((NewFileMetadata::of(&tree, before)?, before)))
        {
            self.adopt(tree, &changes, draft.placed.clone());
            self.write_new_metadata("define", draft, before).inspect_err(|_| self.broken = true)?;
            return Ok(result);
        }
        self.session += 1;
        let cast = if self.is_root() { self.create_metadata_file() } else { Ok(()) };
        let before = self.metadata_file.as_ref().and_then(|shadow| shadow.len().ok());
        let made = if self.is_root() {
            cast.and_then(|()| self.apply_definitions(&tree, &changes, before))
        } else {
            Ok(Default::default())
        };
        let placed = made.as_ref().map(|(made, _)| made).map_err(Clone::clone);
        let agreed = self.broadcast_from_root("define", placed).inspect_err(|_| {
            // What was about to be free is in use.
            self.retired_blocks = RetiredBlocks::default();
            let restored = self
                .metadata_file
                .as_ref()
                .zip(before)
                .is_none_or(|(shadow, length)| shadow.restore(length).is_ok());
            self.broken |= !restored;
        });
        let (made, (_, RootOutcome { phases, marks, moves })) = (agreed?, made?);
        self.commit_metadata("define", made.outline, &phases).inspect_err(|_| self.broken = true)?;
        self.adopt(tree, &changes, made.placed);
        self.find_marks(marks, &moves);
        Ok(result)
    }

    /// Rank 0 gives the library something to change, if it has not been asked before.
    fn create_metadata_file(&mut self) -> Result<()> {
        if self.metadata_file.is_none() {
            let mut shadow = copy_around(&self.core, &self.tree, self.core.file.size()?)?;
            let settled = shadow.mark_synced();
            settled.map_err(|error| self.core.error(Kind::Library, "define", error.to_string()))?;
            self.metadata_file = Some(shadow);
        }
        Ok(())
    }

    /// Rank 0 has the library change the shadow, which had `before` bytes.
    fn apply_definitions(
        &mut self,
        tree: &ObjectTree,
        changes: &[Hdf5Definition],
        before: Option<u64>,
    ) -> Result<(DefinitionOutcome, RootOutcome)> {
        let name = std::sync::Arc::clone(&self.core.name);
        let failed = |what: String| Error::new(Kind::Library, "define", &name, what);
        let io = |error: rustix::io::Errno| failed(format!("the file's description in memory: {error}"));
        let there = self.metadata_file.as_mut().zip(before);
        let (shadow, before) = there.ok_or_else(|| failed("there is nothing to define in".to_owned()))?;
        let size = self.core.file.size()?;
        let marks = if self.root_mark_address.is_some() {
            marks_to_find(&self.datasets, tree, changes)
        } else {
            Vec::new()
        };
        let words = marks
            .iter()
            .map(|(path, _)| *path)
            .zip(completion_attribute::marker_values(self.session))
            .collect();
        let placed = libhdf5::apply_definitions(&shadow.path(), changes, &self.tree, &words)
            .map_err(|error| failed(error.to_string()))?;
        let addresses = completion_attribute::find_marks(shadow, &marks, self.session).map_err(failed)?;
        let marks: Vec<(String, u64)> =
            marks.iter().map(|(path, _)| (*path).to_owned()).zip(addresses).collect();
        let (pieces, pages) = shadow.changes().map_err(io)?;
        let image = ByteImage { pages: &pages, length: shadow.len().map_err(io)? };
        // What others may refer to stays where it is.
        let renewal = tree
            .values()
            .all(Hdf5Object::is_plain)
            .then(|| MetadataCow::new(&image, &pieces, before, &mut self.retired_blocks));
        let MetadataCow { patch, moves, length } = renewal.flatten().unwrap_or_else(|| MetadataCow {
            patch: OrderedWrites::new(pieces, before),
            moves: BlockMoves::default(),
            length: image.length,
        });
        shadow.apply(&patch, length).map_err(io)?;
        let (outline, phases) = plan_commit(patch, size, length);
        Ok((DefinitionOutcome { placed, outline }, RootOutcome { phases, marks, moves }))
    }

    /// Stores the offsets of completion attributes; an object that is not a dataset is the root.
    pub(super) fn note_marks(&mut self, marks: Vec<(String, u64)>) {
        let known = self.datasets.iter_mut().map(|(path, progress)| (path.as_str(), progress));
        let mut known: HashMap<&str, &mut CompletionState> = known.collect();
        for (path, address) in marks {
            match known.get_mut(path.as_str()) {
                Some(progress) => progress.address = address,
                None => self.root_mark_address = Some(address),
            }
        }
    }

    /// The same, and that blocks have moved, with the marks in them.
    fn find_marks(&mut self, marks: Vec<(String, u64)>, moves: &BlockMoves) {
        self.note_marks(marks);
        let addresses = self.datasets.iter_mut().map(|(_, progress)| &mut progress.address);
        for address in addresses.chain(&mut self.root_mark_address) {
            *address = moves.place(*address);
        }
    }

    /// Takes definitions that were made for what there is.
    fn adopt(&mut self, mut tree: ObjectTree, changes: &[Hdf5Definition], placed: Vec<DatasetAddresses>) {
        for DatasetAddresses { path, known, addresses } in placed {
            let Some(dataset) = tree.get_mut(&path).and_then(|node| node.dataset.as_mut()) else { continue };
            match &mut dataset.storage {
                Storage::Contiguous(address) => {
                    *address = addresses.first().copied().unwrap_or(UNDEFINED_ADDRESS);
                }
                Storage::Chunked(_, all) => {
                    all.truncate(known as usize);
                    all.extend(addresses);
                }
                Storage::Unsupported(_) => {}
            }
        }
        let marked = tree.get("/").is_some_and(|root| root.complete().is_some());
        // A new definition did not exist before.
        for change in changes {
            if let Hdf5Definition::Dataset(path, _) = change {
                self.datasets.push((path.clone(), initial_completion(marked.then_some(0))));
            }
        }
        self.tree = tree;
    }
}

/// Objects whose marks are to be found, with their values: those of new datasets, and of changed objects, where they may have moved.
fn marks_to_find<'c>(
    datasets: &[(String, CompletionState)],
    tree: &ObjectTree,
    changes: &'c [Hdf5Definition],
) -> Vec<(&'c str, u64)> {
    let mut touched: Vec<(&str, u64)> = Vec::new();
    let known: HashMap<&str, &CompletionState> =
        datasets.iter().map(|(path, progress)| (path.as_str(), progress)).collect();
    let mut seen = HashSet::new();
    for path in changes.iter().filter_map(|change| match change {
        Hdf5Definition::Dataset(path, _) | Hdf5Definition::Attribute(path, ..) => Some(path.as_str()),
        _ => None,
    }) {
        let known = known.get(path);
        let is_new = known.is_none() && tree.get(path).is_some_and(|node| node.dataset.is_some());
        let marked = is_new || known.is_some_and(|progress| progress.marked) || path == "/";
        if marked && seen.insert(path) {
            touched.push((path, known.map_or(0, |progress| progress.complete.load(Ordering::Relaxed))));
        }
    }
    touched
}
