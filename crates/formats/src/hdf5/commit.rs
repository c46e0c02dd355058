//! Changes of the metadata on their way into the file.

use std::sync::atomic::Ordering;

use super::file::Hdf5File;
use super::metadata::block_allocator::MetadataWrite;
use super::metadata::metadata_store::{MetadataChange, MetadataUpdate, NewAddresses};
use super::model::definition::Hdf5Definition;
use crate::error::{Kind, Result};

impl Hdf5File {
    /// Rank 0 changes the metadata, so that a program that ends at any moment leaves the old metadata or the new one. Collective.
    pub(super) fn commit_metadata(
        &mut self,
        operation: &'static str,
        changes: &[Hdf5Definition],
        addresses: NewAddresses<'_>,
    ) -> Result<()> {
        if self.reserve {
            self.core.file.preallocate(addresses.data_end)?;
        }
        let change = self.change_metadata(operation, changes, addresses);
        // An error is agreed on with the outcome of the first write.
        let (mut failed, MetadataChange { blocks, superblock, marks }) = match change {
            Ok(change) => (Ok(()), change),
            Err(error) => (Err(error), MetadataChange::default()),
        };
        let superblock: Vec<MetadataWrite> =
            Some((0, superblock)).filter(|(_, bytes)| !bytes.is_empty()).into_iter().collect();
        let mut write = |pieces: &mut dyn Iterator<Item = &MetadataWrite>| {
            self.write_metadata(operation, std::mem::replace(&mut failed, Ok(())), pieces)
        };
        let written = if self.core.durable {
            write(&mut blocks.iter()).and_then(|()| write(&mut superblock.iter()))
        } else {
            // What one process writes is there in that order, whenever it ends.
            write(&mut blocks.iter().chain(&superblock))
        };
        written.inspect_err(|_| self.broken = true)?;
        self.note_marks(marks);
        Ok(())
    }

    /// The change on rank 0; nothing on others.
    fn change_metadata(
        &mut self,
        operation: &'static str,
        changes: &[Hdf5Definition],
        addresses: NewAddresses<'_>,
    ) -> Result<MetadataChange> {
        let Some(store) = &mut self.metadata else { return Ok(MetadataChange::default()) };
        let before = if self.created { store.end() } else { 0 };
        self.created = true;
        let complete = |path: &str| {
            let number = self.dataset_numbers.get(path);
            number.map_or(0, |number| self.datasets[*number].1.complete.load(Ordering::Relaxed))
        };
        let update = MetadataUpdate { changes, tree: &self.tree, addresses, before };
        let changed = store.apply(update, complete);
        let mut changed = changed
            .map_err(|why| self.core.error(Kind::BadArgument, operation, format!("the metadata: {why}")))?;
        // The file has its length before the superblock records it.
        let end = store.end();
        let reaches_end = |(offset, bytes): &MetadataWrite| offset + bytes.len() as u64 >= end;
        if end > before && !changed.blocks.iter().any(reaches_end) {
            changed.blocks.push((end - 1, vec![0]));
        }
        Ok(changed)
    }

    /// Rank 0 writes pieces, unless there was an error before; they are durable afterwards. Collective.
    fn write_metadata(
        &self,
        operation: &'static str,
        before: Result<()>,
        pieces: &mut dyn Iterator<Item = &MetadataWrite>,
    ) -> Result<()> {
        // Others have none.
        let mut written = before;
        for (offset, bytes) in pieces {
            written = written.and_then(|()| self.core.file.at(*offset).write(bytes).map(drop));
        }
        self.core.agree(operation, written)?;
        self.core.sync()
    }
}
