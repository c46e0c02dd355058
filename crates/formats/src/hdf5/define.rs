//! Definitions: at any time, all or none of a batch, the same on all ranks.

use std::collections::HashSet;

use aqueduct_object::{Object, encode};
use xxhash_rust::xxh3::xxh3_64;

use super::completion_attribute::CompletionState;
use super::definition_log::DefinitionLog;
use super::file::{DatasetId, Hdf5File, LARGEST_CHUNK, initial_completion};
use super::metadata::metadata_store::NewAddresses;
use super::model::attribute::Hdf5Attribute;
use super::model::chunk_table::ChunkTable;
use super::model::dataset_options::Hdf5DatasetOptions;
use super::model::datatype::Datatype;
use super::model::definition::{DatasetAddresses, Hdf5Definition, NewDataset};
use super::model::tree::{
    COMPLETION_ATTRIBUTE, Dataset, Hdf5Object, ObjectTree, ROWS_DIMENSION_ATTRIBUTE, Storage,
    UNDEFINED_ADDRESS, UNLIMITED, absolute, grid, parent, too_many,
};
use crate::error::{Error, Kind, Result};

/// The longest attribute that fits in an object header.
const LONGEST_ATTRIBUTE: usize = 64_000;
/// Elements of this size begin at a multiple of a page, others at a multiple of a word.
const LARGE: u64 = 64 << 10;
const PAGE: u64 = 4096;
const WORD: u64 = 8;

/// Definitions that are being made: what a closure given to [`Hdf5File::define`] gets.
#[derive(Debug)]
pub struct Hdf5Definitions<'a> {
    file: &'a str,
    tree: &'a mut ObjectTree,
    log: &'a mut DefinitionLog,
    /// The datasets of the file, and the paths of new ones, which have the numbers after those.
    known: &'a [(String, CompletionState)],
    new: Vec<String>,
    changes: Vec<Hdf5Definition>,
}

impl Hdf5Definitions<'_> {
    /// What there is, with the definitions made so far.
    pub fn tree(&self) -> &ObjectTree {
        self.tree
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
        self.log.insert(self.tree, &path, Hdf5Object::group());
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
        self.dataset_with_as(path, datatype, shape, &Hdf5DatasetOptions::new())
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
        self.dataset_with_as(path, datatype, shape, &Hdf5DatasetOptions::new().chunk(chunk).extendible())
    }

    /// A dataset that is stored as the options say: in chunks, extendible, compressed.
    pub fn dataset_with<T: Object>(
        &mut self,
        path: &str,
        shape: &[u64],
        options: &Hdf5DatasetOptions,
    ) -> Result<DatasetId> {
        let datatype = self.datatype::<T>()?;
        self.dataset_with_as(path, datatype, shape, options)
    }

    /// The same, of a type that is known as a value.
    pub fn dataset_with_as(
        &mut self,
        path: &str,
        datatype: Datatype,
        shape: &[u64],
        options: &Hdf5DatasetOptions,
    ) -> Result<DatasetId> {
        let filters = options.filters(&datatype);
        let (chunk, extendible) = (options.chunk.clone(), options.extendible);
        if chunk.is_none() && (extendible || !filters.is_empty()) {
            let detail = format!(
                "dataset {path:?} can be extended or compressed in chunks only; choose their shape with `chunk`"
            );
            return Err(self.error(Kind::BadArgument, detail));
        }
        let (fill, unallocated) = (options.fill.clone(), options.unallocated);
        if !fill.is_empty() && fill.len() as u64 != datatype.size() {
            let detail = format!(
                "the fill value of dataset {path:?} has {} bytes; {datatype} has {}",
                fill.len(),
                datatype.size()
            );
            return Err(self.error(Kind::WrongType, detail));
        }
        self.add(
            path,
            NewDataset { datatype, shape: shape.to_vec(), extendible, chunk, filters, fill, unallocated },
        )
    }

    /// Gives a growing dataset so many rows in all.
    #[doc(alias = "H5Dset_extent")]
    pub fn extend(&mut self, id: DatasetId, rows: u64) -> Result<()> {
        let old = self.known.get(id.0).map(|(path, _)| path);
        let path = old.or_else(|| self.new.get(id.0.checked_sub(self.known.len())?));
        let Some(path) = path.cloned() else {
            let detail = format!("there is no dataset number {}; it belongs to another file", id.0);
            return Err(self.error(Kind::NoSuchName, detail));
        };
        let known = self.tree.get_mut(&path).and_then(|node| node.dataset.as_mut());
        let Some(dataset) = known.filter(|dataset| dataset.extendible) else {
            let detail = format!("dataset {path:?} cannot be extended; define it with `extendible`");
            return Err(self.error(Kind::BadArgument, detail));
        };
        if rows < dataset.shape[0] {
            let detail = format!("dataset {path:?} has {} rows; {rows} would be fewer", dataset.shape[0]);
            return Err(self.error(Kind::BadArgument, detail));
        }
        if rows > dataset.shape[0] {
            let shape = [&[rows], &dataset.shape[1..]].concat();
            if let Some(why) = too_large(&shape, dataset.chunk(), dataset.datatype.size()) {
                return Err(self.error(Kind::TooLarge, format!("dataset {path:?} {why}")));
            }
            self.log.extend(&path, dataset, rows);
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
        if let Some(target) = values.references().iter().find(|target| !self.tree.contains_key(**target)) {
            let detail = format!("attribute {name:?} of {path:?} refers to {target:?}, which is not there");
            return Err(self.error(Kind::NoSuchName, detail));
        }
        let Some(node) = self.tree.get_mut(&path) else {
            return Err(
                self.error(Kind::NoSuchName, format!("there is no {path:?} for the attribute {name:?}"))
            );
        };
        self.log.set_attribute(&path, node, name, values.clone());
        self.changes.push(Hdf5Definition::Attribute(path, name.to_owned(), values));
        Ok(())
    }

    /// Counts the complete rows of a new dataset along this dimension, not along the first: those before it have the length 1.
    pub fn count_rows_along(&mut self, path: &str, dimension: u64) -> Result<()> {
        self.attribute(path, ROWS_DIMENSION_ATTRIBUTE, dimension)
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
        if let Some(why) = too_large(&new.shape, new.chunk.as_deref(), new.datatype.size()) {
            return Err(self.error(Kind::TooLarge, format!("dataset {path:?} {why}")));
        }
        if let Some(outer) = parent(&path) {
            self.group(outer)?;
        }
        let storage = match &new.chunk {
            Some(chunk) if !new.filters.is_empty() || new.unallocated => Storage::ChunkTable(ChunkTable {
                chunk: chunk.clone(),
                filters: new.filters.clone(),
                ..ChunkTable::default()
            }),
            Some(chunk) => Storage::Chunked(chunk.clone(), Vec::new()),
            None => Storage::Contiguous(UNDEFINED_ADDRESS),
        };
        let (datatype, shape, fill) = (new.datatype.clone(), new.shape.clone(), new.fill.clone());
        let limits = match (new.extendible, shape.split_first()) {
            (true, Some((_, rest))) => [&[UNLIMITED], rest].concat(),
            _ => Vec::new(),
        };
        let conversions = Vec::new();
        let dataset =
            Dataset { datatype, shape, extendible: new.extendible, storage, fill, limits, conversions };
        let object = Hdf5Object { dataset: Some(dataset), ..Hdf5Object::group() };
        self.log.insert(self.tree, &path, object);
        self.new.push(path.clone());
        self.changes.push(Hdf5Definition::Dataset(path, new));
        Ok(DatasetId(self.known.len() + self.new.len() - 1))
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

impl Drop for Hdf5Definitions<'_> {
    fn drop(&mut self) {
        // The closure has panicked: the file is as before.
        if std::thread::panicking() {
            std::mem::take(self.log).undo(self.tree);
        }
    }
}

impl Hdf5File {
    /// Makes the definitions of a closure, all of them or none: whenever they are wanted, before and after data is written. Collective, and
    /// the same on all ranks. What it returns, the closure returned.
    ///
    /// Nothing of the file is lost if the program ends in between.
    pub fn define<R>(&mut self, define: impl FnOnce(&mut Hdf5Definitions<'_>) -> Result<R>) -> Result<R> {
        let mut log = DefinitionLog::default();
        let (before, filtered) = (self.datasets.len(), self.filtered_datasets);
        let outcome = self.define_logged(define, &mut log);
        if outcome.is_err() {
            log.undo(&mut self.tree);
            for (path, _) in self.datasets.drain(before..) {
                self.dataset_numbers.remove(&path);
            }
            self.filtered_datasets = filtered;
        }
        outcome
    }

    fn define_logged<R>(
        &mut self,
        define: impl FnOnce(&mut Hdf5Definitions<'_>) -> Result<R>,
        log: &mut DefinitionLog,
    ) -> Result<R> {
        let defined = self.may_write("define").and_then(|()| {
            let mut definitions = Hdf5Definitions {
                file: &self.core.name,
                tree: &mut self.tree,
                log,
                known: &self.datasets,
                new: Vec::new(),
                changes: Vec::new(),
            };
            let result = define(&mut definitions);
            let changes = std::mem::take(&mut definitions.changes);
            result.map(|result| (result, changes))
        });
        let defined = defined.and_then(|defined| match &self.metadata {
            Some(store) => store
                .check(&defined.1)
                .map_err(|why| self.core.error(Kind::Unsupported, "define", why))
                .map(|()| defined),
            None => Ok(defined),
        });
        let hash = defined.as_ref().ok().map(|(_, changes)| xxh3_64(&encode(changes)));
        // Rank 0 knows where the file ends.
        let end = self.file_end();
        let ((result, changes), [end]) =
            self.core.agree_same("define", defined, "list of definitions", hash, [end])?;
        if changes.is_empty() {
            return Ok(result);
        }
        let Some((placed, data_end)) = place_data(&mut self.tree, &changes, end) else {
            let detail = "the file would be larger than every file can be";
            return Err(self.core.error(Kind::TooLarge, "define", detail));
        };
        let has_fill = |path: &str| {
            let node = self.tree.get(path).and_then(|node| node.dataset.as_ref());
            node.is_some_and(|dataset| !dataset.fill.is_empty())
        };
        if placed.iter().any(|placed| has_fill(&placed.path)) {
            let filled = self.write_fill_values(&self.tree, &placed);
            self.core.agree("define", filled)?;
        }
        self.adopt(&changes);
        let addresses = NewAddresses { placed: &placed, chunks: &[], data_end };
        self.commit_metadata("define", &changes, addresses)?;
        Ok(result)
    }

    /// Stores the offsets of completion attributes; an object that is not a dataset is the root.
    pub(super) fn note_marks(&mut self, marks: Vec<(String, u64)>) {
        for (path, address) in marks {
            match self.dataset_numbers.get(&path) {
                Some(number) => self.datasets[*number].1.address = address,
                None => self.root_mark_address = Some(address),
            }
        }
    }

    /// Takes datasets that were defined.
    fn adopt(&mut self, changes: &[Hdf5Definition]) {
        let marked = self.tree.get("/").is_some_and(|root| root.complete().is_some());
        for change in changes {
            let Hdf5Definition::Dataset(path, new) = change else { continue };
            let dimension = self.tree.get(path).map_or(0, Hdf5Object::rows_dimension);
            let rows = (marked && !new.unallocated).then_some(0);
            self.add_dataset(path.clone(), initial_completion(rows, dimension));
        }
    }
}

/// Why a dataset of this shape cannot be, if it cannot.
fn too_large(shape: &[u64], chunk: Option<&[u64]>, size: u64) -> Option<String> {
    if let Some(why) = chunk.and_then(|chunk| too_many(shape, chunk)) {
        return Some(format!("of {why}"));
    }
    let bytes = shape.iter().try_fold(size, |bytes, length| bytes.checked_mul(*length));
    let fits = bytes.is_some_and(|bytes| bytes < 1 << 62);
    (!fits).then(|| "is larger than every file".to_owned())
}

/// Gives the elements of new datasets, and of new chunks, places from the end of the file on, the same on all ranks: the places, and where they
/// end. None if they are beyond the largest file.
fn place_data(
    tree: &mut ObjectTree,
    changes: &[Hdf5Definition],
    end: u64,
) -> Option<(Vec<DatasetAddresses>, u64)> {
    let (mut at, mut placed, mut seen) = (end, Vec::new(), HashSet::new());
    let sized = changes.iter().filter(|change| match change {
        Hdf5Definition::Attribute(..) => false,
        Hdf5Definition::Dataset(_, new) => !new.unallocated,
        _ => true,
    });
    for path in sized.map(Hdf5Definition::path).filter(|path| seen.insert(*path)) {
        let Some(dataset) = tree.get_mut(path).and_then(|node| node.dataset.as_mut()) else { continue };
        let size = dataset.datatype.size();
        let (known, count, bytes) = match &dataset.storage {
            Storage::Contiguous(_) => (0, 1, dataset.elements()?.checked_mul(size)?),
            Storage::Chunked(chunk, addresses) => {
                let chunks = grid(&dataset.shape, chunk).into_iter().try_fold(1, u64::checked_mul)?;
                let bytes = chunk.iter().try_fold(size, |bytes, length| bytes.checked_mul(*length))?;
                let known = addresses.len() as u64;
                (known, chunks.saturating_sub(known), bytes)
            }
            Storage::ChunkTable(_) | Storage::Compact(_) | Storage::Unsupported(_) => continue,
        };
        let mut addresses = Vec::with_capacity(count as usize);
        for _ in 0..count {
            if bytes == 0 {
                addresses.push(UNDEFINED_ADDRESS);
                continue;
            }
            let start = at.checked_next_multiple_of(if bytes >= LARGE { PAGE } else { WORD })?;
            at = start.checked_add(bytes).filter(|at| *at < 1 << 62)?;
            addresses.push(start);
        }
        match &mut dataset.storage {
            Storage::Contiguous(address) => *address = addresses[0],
            Storage::Chunked(_, all) => all.extend(&addresses),
            Storage::ChunkTable(_) | Storage::Compact(_) | Storage::Unsupported(_) => {}
        }
        placed.push(DatasetAddresses { path: path.to_owned(), known, addresses });
    }
    Some((placed, at))
}
