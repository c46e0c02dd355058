//! Changes of the description on their way into the real file.

use aqueduct_object::Object;

use super::file::Hdf5File;
use super::metadata::metadata_file::MetadataWrite;
use super::metadata::metadata_writer::NewFileMetadata;
use super::metadata::ordered_writes::OrderedWrites;
use crate::error::Result;

/// What all ranks have to know of changes that rank 0 writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Object)]
pub(super) struct CommitOutline {
    /// Where the file ends now, and afterwards.
    before: u64,
    end: u64,
    phases: u64,
    journaled: bool,
}

/// Pieces in the order in which they are written.
pub(super) type WritePhases = Vec<Vec<MetadataWrite>>;

/// How a patch is written to a file of `before` bytes, which then ends at `length` according to its description.
pub(super) fn plan_commit(patch: OrderedWrites, before: u64, length: u64) -> (CommitOutline, WritePhases) {
    let end = length.max(before);
    let mut patch = patch;
    let reaches_end = |(offset, bytes): &MetadataWrite| offset + bytes.len() as u64 == end;
    if end > before && !patch.unreferenced.iter().chain(&patch.in_place).any(reaches_end) {
        // The file has its length before the superblock records it.
        patch.unreferenced.push((end - 1, vec![0]));
    }
    let (phases, journaled) = patch.phases(end);
    (CommitOutline { before, end, phases: phases.len() as u64, journaled }, phases)
}

impl Hdf5File {
    /// Makes a draft the description of the file, which has `before` bytes. Collective; all have the same draft.
    pub(super) fn write_new_metadata(
        &mut self,
        operation: &'static str,
        draft: NewFileMetadata,
        before: u64,
    ) -> Result<()> {
        let (outline, mut phases) = plan_commit(draft.patch, before, draft.length);
        if self.is_root() {
            self.note_marks(draft.marks);
        } else {
            phases.clear();
        }
        self.commit_metadata(operation, outline, &phases)
    }

    /// Rank 0 writes changes of the description, so that a program that ends at any moment leaves the old one, the new one, or a journal that
    /// leads to the new one. Collective; all know the outline.
    pub(super) fn commit_metadata(
        &self,
        operation: &'static str,
        outline: CommitOutline,
        phases: &WritePhases,
    ) -> Result<()> {
        let CommitOutline { before, end, phases: count, journaled } = outline;
        if end > before && self.reserve {
            self.core.file.preallocate(end)?;
        }
        if self.core.durable {
            let phase = |number: u64| phases.get(number as usize).into_iter().flatten();
            (0..count).try_for_each(|number| self.write_metadata(operation, phase(number)))?;
        } else {
            // What one process writes is there in that order, whenever it ends.
            self.write_metadata(operation, phases.iter().flatten())?;
        }
        if journaled { Ok(self.core.file.set_size(end)?) } else { Ok(()) }
    }

    /// Rank 0 writes pieces; they are durable afterwards. Collective.
    pub(super) fn write_metadata<'p>(
        &self,
        operation: &'static str,
        pieces: impl Iterator<Item = &'p MetadataWrite>,
    ) -> Result<()> {
        let mut written = Ok(());
        // Others have none.
        for (offset, bytes) in pieces {
            written = written.and_then(|()| self.core.file.at(*offset).write(bytes).map(drop));
        }
        self.core.agree(operation, written)?;
        self.core.sync()
    }
}
