//! An open HDF5 file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_comm::{Comm, Op};
use aqueduct_file::{Counters, File};

use super::mark::Progress;
use super::shadow::Shadow;
use super::tree::{Dataset, Node, Tree};
use crate::error::{Error, Kind, Result, agree, agree_most};

/// A dataset of an open file, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DatasetId(pub(super) usize);

/// An HDF5 file that all ranks of a communicator have open.
///
/// Made by [`Create`](super::Create) and [`Open`](super::Open). Its methods say whether they are *collective*: called by all ranks, in the
/// same order. What is written is marked as complete by [`commit`](Container::commit) and [`close`](Container::close).
#[expect(clippy::struct_excessive_bools, reason = "four facts that do not depend on one another")]
pub struct Container {
    pub(super) name: Arc<str>,
    /// For the talk of this file alone.
    pub(super) comm: Comm,
    pub(super) file: File,
    pub(super) writable: bool,
    /// Whether what is committed survives a crash of the machine.
    pub(super) durable: bool,
    /// Whether space is reserved when a dataset is defined.
    pub(super) reserve: bool,
    pub(super) tree: Tree,
    /// The paths of datasets, by number, and how far each of them is.
    pub(super) datasets: Vec<(String, Progress)>,
    /// Where the mark of the whole file lies; on rank 0, if it has one.
    pub(super) root: Option<u64>,
    /// On rank 0, of a file that is written.
    pub(super) shadow: Option<Shadow>,
    /// Whether a change of the description failed half-way: what the library knows is not what the file has.
    pub(super) broken: bool,
    /// How often definitions were made.
    pub(super) session: u64,
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Container")
            .field("name", &self.name)
            .field("tree", &self.tree)
            .finish_non_exhaustive()
    }
}

impl Container {
    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this is the rank that writes what one rank writes for all.
    pub(crate) fn is_first(&self) -> bool {
        self.comm.rank() == 0
    }

    /// All groups and datasets, by their paths. What attributes say about completeness is what it was when the file was opened;
    /// [`complete`](Container::complete) knows better.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What this rank has done to the file since it was opened.
    pub fn counters(&self) -> Counters {
        self.file.counters()
    }

    /// A group or dataset, by its path.
    pub fn node(&self, path: &str) -> Result<&Node> {
        let known = super::tree::absolute(path).and_then(|path| self.tree.get(&path));
        known.ok_or_else(|| {
            let detail = format!("there is no {path:?} among {} groups and datasets", self.tree.len());
            self.error(Kind::NoSuchName, "node", detail)
        })
    }

    /// The dataset of this path.
    pub fn dataset(&self, path: &str) -> Result<DatasetId> {
        let wanted = super::tree::absolute(path);
        let found = self.datasets.iter().position(|(known, _)| Some(known) == wanted.as_ref());
        found.map(DatasetId).ok_or_else(|| {
            let detail = format!("there is no dataset {path:?} among {}", self.datasets.len());
            self.error(Kind::NoSuchName, "dataset", detail)
        })
    }

    /// All datasets, with their paths.
    pub fn datasets(&self) -> impl Iterator<Item = (DatasetId, &str)> {
        self.datasets.iter().enumerate().map(|(at, (path, _))| (DatasetId(at), path.as_str()))
    }

    /// What is said about a dataset.
    pub fn describe(&self, id: DatasetId) -> Result<&Dataset> {
        self.known("describe", id).map(|(_, dataset, _)| dataset)
    }

    /// How many rows of a dataset are complete: written by all and committed. None where the file does not say: others made it.
    pub fn complete(&self, id: DatasetId) -> Result<Option<u64>> {
        let (_, _, progress) = self.known("complete", id)?;
        Ok(progress.marked.then(|| progress.complete.load(Ordering::Relaxed)))
    }

    /// Whether all of the file was complete when it was closed. None where it does not say: others made it.
    pub fn is_complete(&self) -> Option<bool> {
        self.tree.get("/").and_then(Node::complete).map(|mark| mark == 1)
    }

    /// Makes what was written a part of the file: first the data, durably, then the marks that say how many rows of each dataset are
    /// complete. A crash before that leaves the marks as they were. Requests under way are to be waited for first. Collective.
    #[doc(alias = "H5Fflush")]
    pub fn commit(&mut self) -> Result<()> {
        if !self.writable {
            return Ok(());
        }
        let mine: Vec<u64> =
            self.datasets.iter().map(|(_, progress)| progress.reached.load(Ordering::Relaxed)).collect();
        let talk = |error| Error::talk("commit", &self.name, &error);
        let reached = self.comm.allreduce(Op::Max, &mine).map_err(talk)?;
        self.sync()?;
        let mut marks = Vec::new();
        for ((_, progress), rows) in self.datasets.iter().zip(reached) {
            progress.reached.store(rows, Ordering::Relaxed);
            if progress.marked && progress.complete.swap(rows, Ordering::Relaxed) != rows {
                marks.push((progress.address, rows));
            }
        }
        self.write_marks("commit", &marks)
    }

    /// Commits, marks the whole file as complete, and closes it. Collective.
    pub fn close(mut self) -> Result<()> {
        self.commit()?;
        if self.writable && self.is_complete().is_some() {
            let root: Vec<_> = self.root.map(|address| (address, 1)).into_iter().collect();
            self.write_root("close", &root)?;
        }
        Ok(self.file.close()?)
    }

    /// A dataset by number.
    pub(super) fn known(
        &self,
        operation: &'static str,
        id: DatasetId,
    ) -> Result<(&str, &Dataset, &Progress)> {
        let entry = self.datasets.get(id.0);
        let known = entry.and_then(|(path, progress)| {
            Some((path.as_str(), self.tree.get(path)?.dataset.as_ref()?, progress))
        });
        known.ok_or_else(|| {
            let detail = format!("there is no dataset number {}; it belongs to another file", id.0);
            self.error(Kind::NoSuchName, operation, detail)
        })
    }

    /// Makes what was written durable, if that is wanted. Collective.
    pub(super) fn sync(&self) -> Result<()> {
        if self.durable { Ok(self.file.sync()?) } else { Ok(()) }
    }

    pub(super) fn error(&self, kind: Kind, operation: &'static str, detail: impl Into<String>) -> Error {
        Error::new(kind, operation, &self.name, detail)
    }

    pub(super) fn agree<T>(&self, operation: &'static str, mine: Result<T>) -> Result<T> {
        agree(&self.comm, operation, &self.name, mine)
    }

    /// An outcome agreed, with the greatest of each of the ranks' numbers.
    pub(super) fn meet<T, const N: usize>(
        &self,
        operation: &'static str,
        mine: Result<T>,
        numbers: [u64; N],
    ) -> Result<(T, [u64; N])> {
        agree_most(&self.comm, operation, &self.name, mine, numbers)
    }

    pub(super) fn may_write(&self, operation: &'static str) -> Result<()> {
        if self.broken {
            let detail = "an earlier change of the file failed half-way; close it and open it again, which puts it in order";
            return Err(self.error(Kind::File, operation, detail));
        }
        if self.writable {
            return Ok(());
        }
        let detail = "the file was opened for reading only; open it with `Open::writable`";
        Err(self.error(Kind::ReadOnly, operation, detail))
    }
}

/// How far a dataset that was just defined is.
pub(super) fn begun(rows: Option<u64>) -> Progress {
    let complete = rows.unwrap_or(0);
    Progress {
        marked: rows.is_some(),
        address: super::tree::NOWHERE,
        complete: AtomicU64::new(complete),
        reached: AtomicU64::new(complete),
    }
}
