//! Following a program that writes the file.
//!
//! The writer puts blocks of metadata into unused space, syncs them, and then changes the superblock, so that each superblock leads to one
//! consistent state. Rank 0 opens the file, reads the metadata, and compares it with what is known; then all ranks open the file again, so that
//! they see the data of complete rows, which was synced before their attributes were changed.

use std::collections::BTreeMap;
use std::time::Instant;

use super::completion_attribute::CompletionState;
use super::file::{Hdf5File, initial_completion};
use super::metadata::block_allocator::GRACE;
use super::model::link::Hdf5Link;
use super::model::tree::{Dataset, Hdf5Object, ObjectTree, Storage, UNDEFINED_ADDRESS};
use super::reader::metadata_source::MetadataSource;
use super::reader::object_tree;
use crate::error::{Kind, Result};

/// The objects of a file, and its links.
type FoundObjects = (ObjectTree, BTreeMap<String, Hdf5Link>);

impl Hdf5File {
    /// Looks for what another program has committed since the file was opened: complete rows, longer datasets, new datasets and attributes; how
    /// many datasets are new or changed. Numbers of known datasets stay. [`is_complete`](Self::is_complete) is `Some(true)` when the
    /// program has closed the file. Collective; nothing in a file that is being written here.
    ///
    /// There are no locks. The file is opened again, so that a file system with close-to-open consistency shows what was written. Metadata that
    /// cannot be read, because not all of it has arrived, is ignored: a later call finds it. A file with other datasets is an error.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_formats::Selection;
    /// # use aqueduct_formats::hdf5::{Hdf5CreateOptions, Hdf5OpenOptions};
    /// # Launch::threads(1).run(|world| {
    /// # let mut writer = Hdf5CreateOptions::new().replace().create(world, "memfs:followed.h5")?;
    /// # let level = writer.define(|file| file.extendible::<f64>("level", &[0], &[8]))?;
    /// let mut reader = Hdf5OpenOptions::new().open(world, "memfs:followed.h5")?;
    /// let dataset = reader.dataset("level")?;
    /// // The writer:
    /// writer.define(|file| file.extend(level, 1))?;
    /// writer.at(level, Selection::record(0)).all().write(&[0.5])?;
    /// writer.commit()?;
    /// // The reader:
    /// assert_eq!((reader.refresh()?, reader.complete(dataset)?), (1, Some(1)));
    /// assert_eq!(reader.at(dataset, Selection::record(0)).read_vec::<f64>()?, [0.5]);
    /// # writer.close()?;
    /// # assert_eq!((reader.refresh()?, reader.is_complete()), (0, Some(true)));
    /// # reader.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    #[doc(alias = "H5Drefresh")]
    pub fn refresh(&mut self) -> Result<u64> {
        if self.core.writable {
            return Ok(0);
        }
        let found = if self.is_root() { self.find_changes() } else { Ok(None) };
        let found = self.broadcast_from_root("refresh", found)?;
        let Some((tree, links)) = found else { return Ok(0) };
        self.check_is_same_file(&tree)?;
        self.core.reopen()?;
        self.reset_chunk_prefetcher();
        Ok(self.replace_metadata(tree, links))
    }

    /// The objects of the file if they differ from those that are known.
    fn find_changes(&self) -> Result<Option<FoundObjects>> {
        let file = self.core.open_alone()?;
        let start = Instant::now();
        let mut source = MetadataSource::new(&file, file.size()?);
        let Ok(found) = object_tree::read(&mut source) else {
            return source.take_failure().map_or(Ok(None), Err);
        };
        if start.elapsed() >= GRACE {
            let detail = format!(
                "reading the metadata took longer than {GRACE:?}, after which the writer reuses blocks"
            );
            return Err(self.core.error(Kind::Incomplete, "refresh", detail));
        }
        let is_new = found.tree != self.tree || found.links != self.links;
        Ok(is_new.then_some((found.tree, found.links)))
    }

    /// An error if a dataset that is known is gone, or is another one.
    fn check_is_same_file(&self, tree: &ObjectTree) -> Result<()> {
        let is_same = |path: &String| {
            let (Some(old), Some(new)) = (dataset_of(&self.tree, path), dataset_of(tree, path)) else {
                return false;
            };
            let is_moved = match (&old.storage, &new.storage) {
                (Storage::Contiguous(old), Storage::Contiguous(new)) => {
                    old != new && *old != UNDEFINED_ADDRESS
                }
                _ => false,
            };
            old.datatype == new.datatype && old.shape.len() == new.shape.len() && !is_moved
        };
        match self.datasets.iter().find(|(path, _)| !is_same(path)) {
            None => Ok(()),
            Some((path, _)) => {
                let detail = format!(
                    "dataset {path:?} is gone or is another one: another file has replaced this one since it was opened; open it again"
                );
                Err(self.core.error(Kind::Damaged, "refresh", detail))
            }
        }
    }

    /// Replaces the metadata; how many datasets are new or changed.
    fn replace_metadata(&mut self, tree: ObjectTree, links: BTreeMap<String, Hdf5Link>) -> u64 {
        let old = std::mem::replace(&mut self.tree, tree);
        self.links = links;
        let mut changed = 0;
        for (path, completion) in &mut self.datasets {
            let (Some(before), Some(now)) = (old.get(path), self.tree.get(path)) else { continue };
            if before.dataset != now.dataset || before.complete() != now.complete() {
                *completion = completion_of(now);
                changed += 1;
            }
        }
        let is_new = |path: &String, node: &Hdf5Object| {
            node.dataset.is_some() && !self.dataset_numbers.contains_key(path)
        };
        let new = self.tree.iter().filter(|(path, node)| is_new(path, node));
        let new: Vec<_> = new.map(|(path, node)| (path.clone(), completion_of(node))).collect();
        changed += new.len() as u64;
        new.into_iter().for_each(|(path, completion)| self.add_dataset(path, completion));
        let is_filtered = |(path, _): &&(String, _)| {
            matches!(
                dataset_of(&self.tree, path).map(|dataset| &dataset.storage),
                Some(Storage::ChunkTable(_))
            )
        };
        self.filtered_datasets = self.datasets.iter().filter(is_filtered).count();
        changed
    }
}

fn dataset_of<'t>(tree: &'t ObjectTree, path: &str) -> Option<&'t Dataset> {
    tree.get(path).and_then(|node| node.dataset.as_ref())
}

fn completion_of(node: &Hdf5Object) -> CompletionState {
    initial_completion(node.complete(), node.rows_dimension())
}
