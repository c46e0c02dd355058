//! An open object file without its type: the files it consists of, and what has been changed since the last commit.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_comm::{PooledComm, Traffic};
use aqueduct_file::{File, Mode, WriterLock};

use super::meta_file::{CommitState, MetaSlot};
use super::view::ObjectView;
use crate::error::{Error, Kind, Result, agree};
use crate::schema::{ByteOrder, Schema};

/// What a type does not matter for.
pub(crate) struct OpenObjectFile {
    pub(crate) name: Arc<str>,
    /// For the talk of this file alone.
    pub(crate) comm: PooledComm,
    /// What had been sent through it when the file was opened: the talk may have been another file's before.
    pub(crate) traffic_at_open: Traffic,
    /// Accessed by all ranks, together and alone.
    pub(crate) data: File,
    /// The same, opened by this rank for itself: bytes, whatever the view is.
    pub(crate) raw_data: File,
    /// `<name>.meta`, opened by this rank for itself; none for raw files.
    pub(crate) meta: Option<File>,
    /// Holds the shared pointer, which counts objects; none where that of `data` does, because all objects have one size.
    pub(crate) count_pointer: Option<File>,
    pub(crate) mode: Mode,
    pub(crate) schema: Arc<Schema>,
    pub(crate) order: ByteOrder,
    pub(crate) checksums: bool,
    /// That no other program writes the file; on rank 0.
    pub(super) writer_lock: Option<WriterLock>,
    pub(super) changes: Mutex<UncommittedChanges>,
}

/// The committed state, and what this rank has changed since.
pub(crate) struct UncommittedChanges {
    pub(crate) slot: MetaSlot,
    /// Bytes of the data.
    pub(crate) dirty: Vec<Range<u64>>,
    /// Behind the highest object written.
    pub(crate) high: u64,
    /// Objects of variable size, written and not yet in the index.
    pub(crate) written: Vec<WrittenObjects>,
    /// Blocks whose sums have been compared.
    pub(crate) verified: Vec<bool>,
    /// Whether all ranks know that all blocks have been: then they need not ask one another.
    pub(crate) all_verified: bool,
}

/// Objects that were written, those of variable size one after the other in the data.
#[derive(Clone, Debug)]
pub(crate) struct WrittenObjects {
    /// Which objects they are: places of a view, from one on.
    pub(crate) view: Arc<ObjectView>,
    pub(crate) start: u64,
    /// Where the first lies.
    pub(crate) offset: u64,
    /// Where each ends, counted from the first; none where objects have constant size.
    pub(crate) ends: Vec<u64>,
    /// Behind the highest of them.
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

    /// The outcome of an access: agreed by all ranks if they make it together.
    pub(crate) fn outcome<R>(&self, together: bool, operation: &'static str, mine: Result<R>) -> Result<R> {
        if together { self.agree(operation, mine) } else { mine }
    }

    pub(crate) fn map_comm_error<R>(
        &self,
        operation: &'static str,
        outcome: aqueduct_comm::Result<R>,
    ) -> Result<R> {
        outcome.map_err(|error| Error::from_comm(operation, &self.name, &error))
    }

    /// Lets go of all files, after this outcome of the last commit. Collective.
    pub(crate) fn close(self, committed: Result<()>) -> Result<()> {
        // Devices refuse to delete what is open: everything else is let go first. The lock, too, before the ranks meet: after that any of them may
        // open the file again.
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

    /// Bytes of an object, where all have the same.
    pub(crate) fn size(&self) -> Option<u64> {
        self.schema.size()
    }

    /// The file whose shared pointer counts objects.
    pub(crate) fn count_pointer(&self) -> &File {
        self.count_pointer.as_ref().unwrap_or(&self.data)
    }

    /// How many objects can be read: those committed, and in a file that is being written what this rank knows of.
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

    /// Whether sums are compared while reading: what is being written has none yet.
    pub(crate) fn verifies(&self) -> bool {
        self.checksums && self.meta.is_some() && !self.mode.is_write()
    }

    /// Notes what has been written.
    pub(crate) fn record_write(&self, written: WrittenObjects) {
        let mut changes = self.changes();
        changes.high = changes.high.max(written.high);
        if !written.ends.is_empty() {
            changes.written.push(written);
        }
    }

    /// Notes that bytes of the data are about to change. What is committed is marked, durably, before it is overwritten.
    pub(crate) fn mark_dirty(&self, bytes: Range<u64>, overwrites: bool) -> Result<()> {
        if self.meta.is_none() || bytes.is_empty() {
            return Ok(());
        }
        let mut changes = self.changes();
        if (overwrites || bytes.start < changes.slot.length) && changes.slot.state == CommitState::Complete {
            let marked = MetaSlot {
                state: CommitState::Changing,
                generation: changes.slot.generation + 1,
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

    /// Writes a slot, durably. Ranks that do it at once write the same bytes.
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
            let detail =
                format!("the .meta is cut off: it should have {length} bytes from {start} on; repair it");
            return Err(self.error(Kind::Damaged, "read", detail));
        }
        let mut bytes = vec![0; length as usize];
        meta.at(start).read(&mut bytes)?;
        Ok(bytes)
    }
}

/// Ranges in order, those that touch joined.
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
