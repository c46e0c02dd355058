//! An open object file, independent of its type: its files, and the changes since the last commit.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_comm::{PooledComm, Traffic};
use aqueduct_file::{File, Mode, WriterLock};

use super::meta_file::{CommitState, MetaSlot, PROVENANCE, UNIT, decode_provenance};
use super::scope::ObjectScope;
use super::view::ObjectView;
use crate::FileProvenance;
use crate::error::{Error, Kind, Result, agree};
use crate::schema::{ByteOrder, Schema};

/// The part of an open object file that does not depend on its type.
pub(crate) struct OpenObjectFile {
    pub(crate) name: Arc<str>,
    /// A communicator for this file only.
    pub(crate) comm: PooledComm,
    /// Its traffic when the file was opened: a pooled communicator may have served another file before.
    pub(crate) traffic_at_open: Traffic,
    /// The data, opened on all ranks.
    pub(crate) data: File,
    /// The data, opened by this rank, without a view.
    pub(crate) raw_data: File,
    /// `<name>.meta`, opened by this rank; none for raw files.
    pub(crate) meta: Option<File>,
    /// The file whose shared pointer counts objects; none if that of `data` does, because objects have constant size.
    pub(crate) count_pointer: Option<File>,
    pub(crate) mode: Mode,
    pub(crate) schema: Arc<Schema>,
    pub(crate) order: ByteOrder,
    /// The file has checksums.
    pub(crate) checksums: bool,
    /// Reads compare them.
    pub(crate) compares: bool,
    /// The lock against other writers; on rank 0.
    pub(super) writer_lock: Option<WriterLock>,
    pub(super) changes: Mutex<UncommittedChanges>,
}

/// The committed state, and the changes of this rank since.
pub(crate) struct UncommittedChanges {
    pub(crate) slot: MetaSlot,
    /// The changed bytes of the data.
    pub(crate) dirty: Vec<Range<u64>>,
    /// The number after the highest object written.
    pub(crate) high: u64,
    /// Objects of variable size that are not in the index yet.
    pub(crate) written: Vec<WrittenObjects>,
    /// The blocks whose checksums have been compared.
    pub(crate) verified: Vec<bool>,
    /// True if all ranks know that all blocks have been compared: reads then need no collective call.
    pub(crate) all_verified: bool,
}

/// Objects that one access has written; those of variable size follow each other in the data.
#[derive(Clone, Debug)]
pub(crate) struct WrittenObjects {
    /// The view that they were written through, and the first of them in it.
    pub(crate) view: Arc<ObjectView>,
    pub(crate) start: u64,
    /// The offset of the first in the data.
    pub(crate) offset: u64,
    /// The end of each, counted from the offset; empty if objects have constant size.
    pub(crate) ends: Vec<u64>,
    /// The number after the highest of them.
    pub(crate) high: u64,
}

impl OpenObjectFile {
    pub(crate) fn changes(&self) -> MutexGuard<'_, UncommittedChanges> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn error(&self, kind: Kind, operation: &'static str, detail: impl Into<String>) -> Error {
        Error::new(kind, operation, &self.name, detail)
    }

    pub(crate) fn agree<R>(&self, operation: &'static str, outcome: Result<R>) -> Result<R> {
        agree(&self.comm, operation, &self.name, outcome)
    }

    /// The outcome of an access: that of this rank, or if it is collective an error on all ranks if any of them failed.
    pub(crate) fn outcome<S: ObjectScope, R>(&self, operation: &'static str, mine: Result<R>) -> Result<R> {
        if S::IS_COLLECTIVE { self.agree(operation, mine) } else { mine }
    }

    pub(crate) fn map_comm_error<R>(
        &self,
        operation: &'static str,
        outcome: aqueduct_comm::Result<R>,
    ) -> Result<R> {
        outcome.map_err(|error| Error::from_comm(operation, &self.name, &error))
    }

    /// Closes all files, after this outcome of the last commit. Collective.
    pub(crate) fn close(self, committed: Result<()>) -> Result<()> {
        // Devices do not delete open files: everything else is closed first. The lock too, before the collective close: after that any rank may open
        // the file again.
        drop((self.writer_lock, self.raw_data, self.meta));
        self.data.close()?;
        if let Some(numbers) = self.count_pointer {
            numbers.close()?;
        }
        if committed.is_ok() {
            self.comm.release();
        }
        committed
    }

    /// Bytes of an object, if objects have constant size.
    pub(crate) fn size(&self) -> Option<u64> {
        self.schema.size()
    }

    /// The file whose shared pointer counts objects.
    pub(crate) fn count_pointer(&self) -> &File {
        self.count_pointer.as_ref().unwrap_or(&self.data)
    }

    /// The number of objects that can be read: the committed ones, and in a file that is being written those that this rank knows of.
    pub(crate) fn count(&self) -> Result<u64> {
        let (committed, high) = {
            let changes = self.changes();
            (changes.slot.count, changes.high)
        };
        match self.size() {
            Some(size) if self.mode.is_write() || self.meta.is_none() => Ok(self.raw_data.size()? / size),
            _ => Ok(committed.max(high)),
        }
    }

    /// True if reads compare checksums: not in a file that is being written.
    pub(crate) fn verifies(&self) -> bool {
        self.checksums && self.compares && self.meta.is_some() && !self.mode.is_write()
    }

    /// Who created the file; none if it does not say.
    pub(crate) fn written_by(&self) -> Option<FileProvenance> {
        let mut unit = [0; UNIT];
        self.meta.as_ref()?.at(PROVENANCE).read(&mut unit).ok()?;
        decode_provenance(&unit)
    }

    /// Records objects that were written.
    pub(crate) fn record_write(&self, written: WrittenObjects) {
        let mut changes = self.changes();
        changes.high = changes.high.max(written.high);
        if !written.ends.is_empty() {
            changes.written.push(written);
        }
    }

    /// Records bytes of the data that will change. Before committed data is overwritten, the file is durably marked as changing.
    pub(crate) fn mark_dirty(&self, bytes: Range<u64>, overwrites: bool) -> Result<()> {
        if self.meta.is_none() || bytes.is_empty() {
            return Ok(());
        }
        let mut changes = self.changes();
        if (overwrites || bytes.start < changes.slot.length) && changes.slot.state == CommitState::Complete {
            let marked = MetaSlot {
                state: CommitState::Changing,
                generation: changes.slot.generation + 1,
                commit_id: 0,
                ..changes.slot.clone()
            };
            self.write_slot(&marked)?;
            changes.slot = marked;
        }
        match changes.dirty.last_mut() {
            Some(last) if last.start <= bytes.end && bytes.start <= last.end => {
                *last = last.start.min(bytes.start)..last.end.max(bytes.end);
            }
            _ => changes.dirty.push(bytes),
        }
        if changes.dirty.len() > 4096 {
            changes.dirty = merged(std::mem::take(&mut changes.dirty));
        }
        Ok(())
    }

    /// Writes a slot and syncs it. Ranks that do so concurrently write the same bytes.
    pub(super) fn write_slot(&self, slot: &MetaSlot) -> Result<()> {
        let Some(meta) = &self.meta else { return Ok(()) };
        meta.at(slot.place()).write(&slot.encode())?;
        meta.sync()
    }

    /// Bytes of the `.meta`.
    pub(super) fn read_meta(&self, start: u64, length: u64) -> Result<Vec<u8>> {
        let Some(meta) = &self.meta else { return Ok(Vec::new()) };
        let end = start.checked_add(length).filter(|end| meta.size().is_ok_and(|size| *end <= size));
        if end.is_none() {
            let detail = format!(
                "the .meta is truncated: expected {length} bytes from byte {start} on; repair the file"
            );
            return Err(self.error(Kind::Damaged, "read", detail));
        }
        let mut bytes = vec![0; length as usize];
        meta.at(start).read(&mut bytes)?;
        Ok(bytes)
    }
}

/// Sorted ranges; adjacent and overlapping ones are merged.
pub(crate) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
