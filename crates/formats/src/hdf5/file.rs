//! An open HDF5 file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aqueduct_comm::Op;
use aqueduct_comm::agreement::from_root;
use aqueduct_file::Counters;
use aqueduct_file::prefetcher::Prefetcher;
use aqueduct_object::{Object, decode, encode};

use super::completion_attribute::CompletionState;
use super::data::chunk_lookup::MovedChunks;
use super::data::chunk_prefetch::ChunkSelection;
use super::filters::chunk_decode::decode_chunk;
use super::metadata::metadata_store::{MetadataStore, NewAddresses};
use super::model::chunk_table::StoredChunk;
use super::model::link::Hdf5Link;
use super::model::tree::{Dataset, Hdf5Object, ObjectTree, Storage};
use crate::error::{Error, Kind, Result};
use crate::format_file::FormatFile;

/// The largest chunk that the format allows.
pub(super) const LARGEST_CHUNK: u64 = (1 << 32) - 1;

/// A dataset of an open file, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DatasetId(pub(super) usize);

/// Chunks that were written since the last commit, and where the last one ends.
#[derive(Debug, Default)]
pub(super) struct NewChunks {
    /// On rank 0, which writes the index: where they are.
    pub(super) chunks: ChunksByDataset,
    /// Their datasets; the same on all ranks.
    pub(super) datasets: BTreeSet<usize>,
    pub(super) end: u64,
}

/// Where chunks are, by the number of their dataset and their own.
pub(super) type ChunksByDataset = BTreeMap<usize, BTreeMap<u64, StoredChunk>>;

/// An HDF5 file that all ranks of a communicator have open.
///
/// Made by [`Hdf5CreateOptions`](super::Hdf5CreateOptions) and [`Hdf5OpenOptions`](super::Hdf5OpenOptions). Its methods say whether they are
/// *collective*: called by all ranks, in the same order. Written data is marked as complete by [`commit`](Hdf5File::commit) and [`close`](Hdf5File::close).
pub struct Hdf5File {
    pub(super) core: FormatFile,
    /// Whether space is reserved when a dataset is defined.
    pub(super) reserve: bool,
    pub(super) tree: ObjectTree,
    /// Soft and external links, by their paths.
    pub(super) links: BTreeMap<String, Hdf5Link>,
    /// The paths of datasets, by number, and how far each of them is.
    pub(super) datasets: Vec<(String, CompletionState)>,
    /// The numbers of datasets, by their paths.
    pub(super) dataset_numbers: HashMap<String, usize>,
    /// The offset of the completion attribute of the file; on rank 0, if it has one.
    pub(super) root_mark_address: Option<u64>,
    /// The metadata of a file that is written; on rank 0.
    pub(super) metadata: Option<MetadataStore>,
    /// Chunks that were written and that the metadata does not refer to yet.
    pub(super) new_chunks: Mutex<NewChunks>,
    /// Datasets of whose chunks only rank 0 knows all places.
    pub(super) moved_chunks: Mutex<MovedChunks>,
    /// Reads chunks with filters ahead.
    pub(super) chunk_prefetcher: Mutex<Prefetcher<ChunkSelection>>,
    /// How many datasets have chunks with filters.
    pub(super) filtered_datasets: usize,
    /// Whether the file has metadata.
    pub(super) created: bool,
    /// Whether a change of the metadata failed half-way: what is known of it is not what the file has.
    pub(super) broken: bool,
}

impl std::fmt::Debug for Hdf5File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hdf5File")
            .field("name", &self.core.name)
            .field("tree", &self.tree)
            .finish_non_exhaustive()
    }
}

impl Hdf5File {
    /// Whether what was synced outlives the process and a restart of the machine: not on `memfs:` and tmpfs.
    pub fn is_persistent(&self) -> bool {
        self.core.file.is_persistent()
    }

    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Whether this is the rank that writes what one rank writes for all.
    pub(crate) fn is_root(&self) -> bool {
        self.core.is_root()
    }

    /// An outcome that is the same on all ranks. Collective.
    pub(crate) fn agree<T>(&self, operation: &'static str, mine: Result<T>) -> Result<T> {
        self.core.agree(operation, mine)
    }

    /// Where this rank's elements begin among those of all ranks, in their order, and how many there are. Collective.
    pub(crate) fn rank_share(&self, operation: &'static str, count: u64) -> Result<(u64, u64)> {
        let lost = |error| Error::from_comm(operation, &self.core.name, &error);
        let before = self.core.comm.exclusive_scan_one(Op::Sum, count).map_err(lost)?;
        Ok((before.unwrap_or(0), self.core.comm.allreduce_one(Op::Sum, count).map_err(lost)?))
    }

    /// All groups and datasets, by their paths. What attributes say about completeness is what it was when the file was opened;
    /// [`complete`](Hdf5File::complete) knows better.
    pub fn tree(&self) -> &ObjectTree {
        &self.tree
    }

    /// Soft, external and user-defined links, by their paths. Soft ones are followed: their objects are in the [tree](Self::tree) too.
    pub fn links(&self) -> &BTreeMap<String, Hdf5Link> {
        &self.links
    }

    /// Why a path has no object: it may be a link that is not followed.
    fn missing(&self, path: &str, otherwise: String) -> String {
        let link = super::model::tree::absolute(path).and_then(|path| self.links.get(&path));
        link.map_or(otherwise, |link| format!("{path:?} is {link}"))
    }

    /// Whether a soft link leads to an object: it has another path too.
    pub(super) fn is_linked(&self, path: &str) -> bool {
        let mut above = Some(path);
        !self.links.is_empty()
            && std::iter::from_fn(|| {
                let path = above?;
                above = super::model::tree::parent(path);
                Some(path)
            })
            .any(|path| self.links.contains_key(path))
    }

    /// What this rank has done to the file since it was opened.
    pub fn counters(&self) -> Counters {
        self.core.counters()
    }

    /// A group or dataset, by its path.
    pub fn object(&self, path: &str) -> Result<&Hdf5Object> {
        let known = super::model::tree::absolute(path).and_then(|path| self.tree.get(&path));
        known.ok_or_else(|| {
            let detail = format!("there is no {path:?} among {} groups and datasets", self.tree.len());
            self.core.error(Kind::NoSuchName, "node", self.missing(path, detail))
        })
    }

    /// The dataset of this path.
    pub fn dataset(&self, path: &str) -> Result<DatasetId> {
        let wanted = super::model::tree::absolute(path);
        let found = wanted.and_then(|path| self.dataset_numbers.get(&path).copied());
        found.map(DatasetId).ok_or_else(|| {
            let detail = format!("there is no dataset {path:?} among {}", self.datasets.len());
            self.core.error(Kind::NoSuchName, "dataset", self.missing(path, detail))
        })
    }

    /// All datasets, with their paths.
    pub fn datasets(&self) -> impl Iterator<Item = (DatasetId, &str)> {
        self.datasets.iter().enumerate().map(|(at, (path, _))| (DatasetId(at), path.as_str()))
    }

    /// The metadata of a dataset. Where chunks with filters are that were written since the file was opened, only rank 0 knows.
    pub fn describe(&self, id: DatasetId) -> Result<&Dataset> {
        self.dataset_by_id("describe", id).map(|(_, dataset, _)| dataset)
    }

    /// How many rows of a dataset are complete: written by all and committed. None where the file does not say: others made it.
    pub fn complete(&self, id: DatasetId) -> Result<Option<u64>> {
        let (_, _, progress) = self.dataset_by_id("complete", id)?;
        Ok(progress.marked.then(|| progress.complete.load(Ordering::Relaxed)))
    }

    /// Whether all of the file was complete when it was closed. None where it does not say: others made it.
    pub fn is_complete(&self) -> Option<bool> {
        self.tree.get("/").and_then(Hdf5Object::complete).map(|mark| mark == 1)
    }

    /// Makes the data that was written so far durable, without marks. Collective.
    pub fn sync(&self) -> Result<()> {
        self.core.sync()
    }

    /// Makes what was written a part of the file: first the data, durably, then the marks that say how many rows of each dataset are
    /// complete. A crash before that leaves the marks as they were. Requests under way are to be waited for first. Collective.
    #[doc(alias = "H5Fflush")]
    pub fn commit(&mut self) -> Result<()> {
        if !self.core.writable {
            return Ok(());
        }
        let rows = self.due_marks("commit")?;
        let marks = self.commit_chunks("commit", rows)?;
        // All ranks know whether there are any.
        if marks.is_empty() { Ok(()) } else { self.write_marks("commit", &[&marks]) }
    }

    /// Syncs the data; the datasets whose marks are to be changed then, and their rows. Collective.
    fn due_marks(&self, operation: &'static str) -> Result<Vec<(usize, u64)>> {
        let mine: Vec<u64> =
            self.datasets.iter().map(|(_, progress)| progress.rows_written.load(Ordering::Relaxed)).collect();
        let reached = self.core.comm.allreduce(Op::Max, &mine);
        let reached = reached.map_err(|error| Error::from_comm(operation, &self.core.name, &error))?;
        self.core.sync()?;
        let mut marks = Vec::new();
        for (number, ((_, progress), rows)) in self.datasets.iter().zip(reached).enumerate() {
            progress.rows_written.store(rows, Ordering::Relaxed);
            if progress.marked && progress.complete.swap(rows, Ordering::Relaxed) != rows {
                marks.push((number, rows));
            }
        }
        Ok(marks)
    }

    /// Lets the metadata refer to chunks that were written, with the marks of their datasets; the marks that are left. Collective.
    fn commit_chunks(&mut self, operation: &'static str, rows: Vec<(usize, u64)>) -> Result<Vec<(u64, u64)>> {
        let NewChunks { chunks, datasets, end } = std::mem::take(&mut *self.new_chunks());
        if !datasets.is_empty() {
            let mut changed = Vec::new();
            for (number, chunks) in &chunks {
                let path = &self.datasets[*number].0;
                let dataset = self.tree.get_mut(path).and_then(|node| node.dataset.as_mut());
                if let Some(Storage::ChunkTable(table)) = dataset.map(|dataset| &mut dataset.storage) {
                    chunks.iter().for_each(|(number, chunk)| table.set(*number, *chunk));
                }
                changed.extend(chunks.iter().map(|(number, chunk)| (path.clone(), *number, *chunk)));
            }
            let addresses = NewAddresses { placed: &[], chunks: &changed, data_end: end };
            self.commit_metadata(operation, &[], addresses)?;
            self.moved_chunks().note_commit();
        }
        let is_left = |(number, _): &(usize, u64)| !datasets.contains(number);
        let mark = |(number, rows): (usize, u64)| (self.datasets[number].1.address, rows);
        Ok(rows.into_iter().filter(is_left).map(mark).collect())
    }

    /// Chunks that were written since the last commit.
    pub(super) fn new_chunks(&self) -> MutexGuard<'_, NewChunks> {
        self.new_chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the file ends; known to rank 0.
    pub(super) fn file_end(&self) -> u64 {
        let end = self.metadata.as_ref().map_or(0, MetadataStore::end);
        end.max(self.new_chunks().end)
    }

    /// Datasets of whose chunks only rank 0 knows all places.
    pub(super) fn moved_chunks(&self) -> MutexGuard<'_, MovedChunks> {
        self.moved_chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a dataset of the tree its number.
    pub(super) fn add_dataset(&mut self, path: String, completion: CompletionState) {
        let dataset = self.tree.get(&path).and_then(|node| node.dataset.as_ref());
        let filtered = dataset.is_some_and(|dataset| matches!(dataset.storage, Storage::ChunkTable(_)));
        self.filtered_datasets += usize::from(filtered);
        self.dataset_numbers.insert(path.clone(), self.datasets.len());
        self.datasets.push((path, completion));
    }

    /// Whether chunks of a dataset have filters, or places of their own.
    pub(super) fn is_filtered(&self, id: DatasetId) -> bool {
        let dataset = self.dataset_by_id("write", id);
        dataset.is_ok_and(|(_, dataset, _)| matches!(dataset.storage, Storage::ChunkTable(_)))
    }

    /// A chunk of a dataset without its filters; none if it was never written. `known` has what rank 0 has answered.
    pub(super) fn read_chunk(
        &self,
        number: usize,
        chunk: u64,
        known: &ChunksByDataset,
    ) -> Result<Option<Vec<u8>>> {
        let known = known.get(&number).and_then(|chunks| chunks.get(&chunk).copied());
        let (path, dataset, _) = self.dataset_by_id("write", DatasetId(number))?;
        let Storage::ChunkTable(table) = &dataset.storage else { return Ok(None) };
        let known = known.or_else(|| self.new_chunk(number, chunk));
        let Some(stored) = known.or_else(|| table.find(chunk)) else { return Ok(None) };
        let damaged = |what| {
            self.core.error(Kind::Damaged, "write", format!("chunk {chunk} of dataset {path:?}: {what}"))
        };
        let bytes =
            table.chunk.iter().try_fold(dataset.datatype.size(), |all, length| all.checked_mul(*length));
        let bytes = bytes.filter(|bytes| *bytes <= LARGEST_CHUNK);
        let bytes = bytes.ok_or_else(|| damaged("it is larger than chunks can be".to_owned()))?;
        // The metadata may claim any size; memory is taken for what the file has.
        let length = self.core.file.size()?.saturating_sub(stored.address);
        if stored.size > length {
            return Err(self.core.truncated_error(stored.size, length, ""));
        }
        let mut packed = vec![0; stored.size as usize];
        let count = self.core.file.at(stored.address).read(&mut packed)?.bytes();
        if count < stored.size {
            return Err(self.core.truncated_error(stored.size, count, ""));
        }
        let mut decoded =
            decode_chunk(&table.filters, stored.mask, &packed, bytes as usize).map_err(damaged)?.into_owned();
        decoded.truncate(bytes as usize);
        Ok(Some(decoded))
    }

    /// Commits, marks the whole file as complete, and closes it. Collective.
    pub fn close(mut self) -> Result<()> {
        if self.core.writable {
            let rows = self.due_marks("close")?;
            let marks = self.commit_chunks("close", rows)?;
            let whole = self.root_mark_address.filter(|_| self.is_complete().is_some());
            let root: Vec<_> = whole.map(|address| (address, 1)).into_iter().collect();
            self.write_marks("close", &[&marks, &root])?;
        }
        self.core.close()
    }

    /// A dataset by number.
    pub(super) fn dataset_by_id(
        &self,
        operation: &'static str,
        id: DatasetId,
    ) -> Result<(&str, &Dataset, &CompletionState)> {
        let entry = self.datasets.get(id.0);
        let known = entry.and_then(|(path, progress)| {
            Some((path.as_str(), self.tree.get(path)?.dataset.as_ref()?, progress))
        });
        known.ok_or_else(|| {
            let detail = format!("there is no dataset number {}; it belongs to another file", id.0);
            self.core.error(Kind::NoSuchName, operation, detail)
        })
    }

    /// What rank 0 has found, on all ranks; what the others pass is not used. Collective.
    pub(super) fn broadcast_from_root<T: Object>(
        &self,
        operation: &'static str,
        mine: Result<T>,
    ) -> Result<T> {
        let comm = &self.core.comm;
        // Rank 0 keeps its value: it is encoded for others only.
        let encoded = match &mine {
            Ok(found) if self.is_root() && comm.size() > 1 => Ok(encode(found)),
            Ok(_) => Ok(Vec::new()),
            Err(error) => Err(error.clone()),
        };
        let bytes = from_root(comm, operation, &self.core.name, encoded)?;
        if self.is_root() {
            return mine;
        }
        decode(&bytes).map_err(|error| self.core.error(Kind::Communication, operation, error.to_string()))
    }

    pub(super) fn may_write(&self, operation: &'static str) -> Result<()> {
        if self.broken {
            let detail = "an earlier change of the file failed half-way; close it and open it again, which puts it in order";
            return Err(self.core.error(Kind::Closed, operation, detail));
        }
        self.core.may_write(operation)
    }
}

/// How far a dataset that was just defined is.
pub(super) fn initial_completion(rows: Option<u64>, dimension: usize) -> CompletionState {
    let complete = rows.unwrap_or(0);
    CompletionState {
        marked: rows.is_some(),
        address: super::model::tree::UNDEFINED_ADDRESS,
        dimension,
        complete: AtomicU64::new(complete),
        rows_written: AtomicU64::new(complete),
    }
}
