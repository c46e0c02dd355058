//! An open HDF5 file.

use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_comm::Op;
use aqueduct_comm::agreement::from_root;
use aqueduct_file::Counters;
use aqueduct_object::{Object, decode, encode};

use super::completion_attribute::CompletionState;
use super::metadata::metadata_cow::RetiredBlocks;
use super::metadata::metadata_file::MetadataFile;
use super::model::tree::{Dataset, Hdf5Object, ObjectTree};
use crate::error::{Error, Kind, Result};
use crate::format_file::FormatFile;

/// A dataset of an open file, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DatasetId(pub(super) usize);

/// An HDF5 file that all ranks of a communicator have open.
///
/// Made by [`Hdf5CreateOptions`](super::Hdf5CreateOptions) and [`Hdf5OpenOptions`](super::Hdf5OpenOptions). Its methods say whether they are
/// *collective*: called by all ranks, in the same order. Written data is marked as complete by [`commit`](Hdf5File::commit) and [`close`](Hdf5File::close).
pub struct Hdf5File {
    pub(super) core: FormatFile,
    /// Whether space is reserved when a dataset is defined.
    pub(super) reserve: bool,
    pub(super) tree: ObjectTree,
    /// The paths of datasets, by number, and how far each of them is.
    pub(super) datasets: Vec<(String, CompletionState)>,
    /// The offset of the completion attribute of the file; on rank 0, if it has one.
    pub(super) root_mark_address: Option<u64>,
    /// Where a file ends that was created here and has nothing in it yet.
    pub(super) empty_file_end: Option<u64>,
    /// On rank 0, of a file that the library was asked to change.
    pub(super) metadata_file: Option<MetadataFile>,
    /// Places in it that later descriptions can have.
    pub(super) retired_blocks: RetiredBlocks,
    /// Whether a change of the description failed half-way: what the library knows is not what the file has.
    pub(super) broken: bool,
    /// How often definitions were made.
    pub(super) session: u64,
}

impl std::fmt::Debug for Hdf5File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Container")
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

    /// All groups and datasets, by their paths. What attributes say about completeness is what it was when the file was opened;
    /// [`complete`](Hdf5File::complete) knows better.
    pub fn tree(&self) -> &ObjectTree {
        &self.tree
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
            self.core.error(Kind::NoSuchName, "node", detail)
        })
    }

    /// The dataset of this path.
    pub fn dataset(&self, path: &str) -> Result<DatasetId> {
        let wanted = super::model::tree::absolute(path);
        let found = self.datasets.iter().position(|(known, _)| Some(known) == wanted.as_ref());
        found.map(DatasetId).ok_or_else(|| {
            let detail = format!("there is no dataset {path:?} among {}", self.datasets.len());
            self.core.error(Kind::NoSuchName, "dataset", detail)
        })
    }

    /// All datasets, with their paths.
    pub fn datasets(&self) -> impl Iterator<Item = (DatasetId, &str)> {
        self.datasets.iter().enumerate().map(|(at, (path, _))| (DatasetId(at), path.as_str()))
    }

    /// The metadata of a dataset.
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

    /// Makes what was written a part of the file: first the data, durably, then the marks that say how many rows of each dataset are
    /// complete. A crash before that leaves the marks as they were. Requests under way are to be waited for first. Collective.
    #[doc(alias = "H5Fflush")]
    pub fn commit(&mut self) -> Result<()> {
        if !self.core.writable {
            return Ok(());
        }
        let marks = self.due_marks("commit")?;
        // All ranks know whether there are any.
        if marks.is_empty() { Ok(()) } else { self.write_marks("commit", &[&marks]) }
    }

    /// Syncs the data; the marks that are to be changed then. Collective.
    fn due_marks(&self, operation: &'static str) -> Result<Vec<(u64, u64)>> {
        let mine: Vec<u64> =
            self.datasets.iter().map(|(_, progress)| progress.rows_written.load(Ordering::Relaxed)).collect();
        let reached = self.core.comm.allreduce(Op::Max, &mine);
        let reached = reached.map_err(|error| Error::from_comm(operation, &self.core.name, &error))?;
        self.core.sync()?;
        let mut marks = Vec::new();
        for ((_, progress), rows) in self.datasets.iter().zip(reached) {
            progress.rows_written.store(rows, Ordering::Relaxed);
            if progress.marked && progress.complete.swap(rows, Ordering::Relaxed) != rows {
                marks.push((progress.address, rows));
            }
        }
        Ok(marks)
    }

    /// Commits, marks the whole file as complete, and closes it. Collective.
    pub fn close(self) -> Result<()> {
        if self.core.writable {
            let marks = self.due_marks("close")?;
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

    /// The object of rank 0, on all ranks; if it failed, its error on all ranks. Collective.
    pub(super) fn broadcast_from_root<T: Object>(
        &self,
        operation: &'static str,
        mine: Result<&T>,
    ) -> Result<T> {
        let bytes = from_root(&self.core.comm, operation, &self.core.name, mine.map(encode))?;
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
pub(super) fn initial_completion(rows: Option<u64>) -> CompletionState {
    let complete = rows.unwrap_or(0);
    CompletionState {
        marked: rows.is_some(),
        address: super::model::tree::UNDEFINED_ADDRESS,
        complete: AtomicU64::new(complete),
        rows_written: AtomicU64::new(complete),
    }
}
