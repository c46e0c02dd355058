//! The files of a server: which are open, who they are, and their locks.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_device::{Device, DeviceOpenOptions, Error, Handle, HandleExt, Kind, Operation, Result};

use super::lock_table::LockTable;
use crate::key::random;
use crate::wire::answer::{ListedFile, MOST_LISTED};
use crate::wire::request::{FileId, OpenFlags};

/// All files of a server.
pub(super) struct FileTable {
    device: Arc<dyn Device>,
    /// Files are in a folder that all servers of the set share, and outlive the server.
    stored: bool,
    entries: Mutex<HashMap<Vec<u8>, Arc<FileEntry>>>,
}

/// A file. In memory it has an entry as long as it exists, in a folder as long as it is open.
pub(super) struct FileEntry {
    name: Vec<u8>,
    pub(super) id: FileId,
    pub(super) stripe: u64,
    pub(super) locks: LockTable,
    opens: AtomicUsize,
}

/// A file opened by a client.
pub(super) struct OpenedFile {
    pub(super) entry: Arc<FileEntry>,
    pub(super) handle: Arc<dyn Handle>,
}

/// How a client opens a file.
pub(super) struct OpenFileRequest<'a> {
    pub(super) name: &'a [u8],
    pub(super) flags: OpenFlags,
    pub(super) permissions: u32,
    pub(super) stripe: u64,
    pub(super) part: Option<FileId>,
}

impl FileTable {
    pub(super) fn new(device: Arc<dyn Device>, stored: bool) -> Self {
        Self { device, stored, entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<FileEntry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many files there are, as far as is known without looking into a folder.
    pub(super) fn count(&self) -> usize {
        self.entries().len()
    }

    pub(super) fn open(&self, request: &OpenFileRequest<'_>) -> Result<OpenedFile> {
        let name = OsStr::from_bytes(request.name);
        let flags = request.flags;
        let mut entries = self.entries();
        let mut known = entries.get(request.name).cloned();
        let mut create = flags.create;
        if let Some(id) = request.part {
            create = true;
            if let Some(entry) = known.take_if(|entry| entry.id != id) {
                // What is left of an earlier file of this name.
                if entry.opens.load(Ordering::Acquire) > 0 {
                    let error = Error::new(Kind::Busy, Operation::Open, name);
                    return Err(error.advise("an earlier file of this name is still open"));
                }
                self.device.delete(name)?;
                entries.remove(request.name);
            }
        }
        let options = match (flags.read, flags.write) {
            (true, true) => DeviceOpenOptions::read_write(),
            (false, true) => DeviceOpenOptions::write_only(),
            _ => DeviceOpenOptions::read_only(),
        };
        // A part is created also for a client that only reads: another one writes it.
        if request.part.is_some() && !flags.write && known.is_none() {
            drop(self.device.open(
                name,
                &DeviceOpenOptions::read_write().create(true).permissions(request.permissions),
            )?);
        }
        let options = options.truncate(flags.truncate).permissions(request.permissions);
        let options = if flags.write || request.part.is_none() { options.create(create) } else { options };
        let options = options.exclusive(flags.exclusive && request.part.is_none());
        let handle = self.device.open(name, &options)?;
        let entry = known.unwrap_or_else(|| {
            let id =
                request.part.unwrap_or_else(|| if self.stored { stored_id(request.name) } else { random() });
            let entry = FileEntry {
                name: request.name.to_vec(),
                id,
                stripe: request.stripe,
                locks: LockTable::default(),
                opens: AtomicUsize::new(0),
            };
            Arc::new(entry)
        });
        entries.entry(request.name.to_vec()).or_insert_with(|| Arc::clone(&entry));
        entry.opens.fetch_add(1, Ordering::AcqRel);
        Ok(OpenedFile { entry, handle })
    }

    /// Ends an opening; an error is that of closing the file.
    pub(super) fn close(&self, file: OpenedFile) -> Result<()> {
        let OpenedFile { entry, handle } = file;
        let mut entries = self.entries();
        let outcome = handle.close();
        if entry.opens.fetch_sub(1, Ordering::AcqRel) == 1 && self.stored {
            entries.remove(&entry.name);
        }
        outcome
    }

    /// Deletes a file, or the part with this identity if it is there.
    pub(super) fn delete(&self, name: &[u8], part: Option<FileId>) -> Result<FileId> {
        let path = OsStr::from_bytes(name);
        let mut entries = self.entries();
        let known = entries.get(name);
        if let Some(id) = part
            && known.is_none_or(|entry| entry.id != id)
        {
            return Ok(id);
        }
        if known.is_some_and(|entry| entry.opens.load(Ordering::Acquire) > 0) {
            let error = Error::new(Kind::Busy, Operation::Delete, path);
            return Err(error.advise(
                "close all handles of the file first; those of a program that died end with its session",
            ));
        }
        let id = known.map_or_else(|| stored_id(name), |entry| entry.id);
        self.device.delete(path)?;
        entries.remove(name);
        Ok(id)
    }

    /// Some files whose names begin with `prefix` and come after `after`, and whether there are more.
    pub(super) fn list(&self, prefix: &[u8], after: &[u8]) -> (Vec<ListedFile>, bool) {
        let mut names: Vec<Vec<u8>> = self.entries().keys().cloned().collect();
        names.retain(|name| name.starts_with(prefix) && name.as_slice() > after);
        names.sort();
        let more = names.len() > MOST_LISTED;
        names.truncate(MOST_LISTED);
        (
            names
                .into_iter()
                .filter_map(|name| self.end_of(&name).map(|end| ListedFile { name: name.clone(), end }))
                .collect(),
            more,
        )
    }

    /// The end of a file; none if it was deleted meanwhile.
    fn end_of(&self, name: &[u8]) -> Option<u64> {
        let handle = self.device.open(OsStr::from_bytes(name), &DeviceOpenOptions::read_only()).ok()?;
        handle.len().ok()
    }

    /// All files with their bytes, for a server that ends.
    pub(super) fn contents(&self) -> Vec<(String, u64)> {
        let names: Vec<Vec<u8>> = self.entries().keys().cloned().collect();
        let shown = |name: Vec<u8>| {
            let end = self.end_of(&name)?;
            Some((String::from_utf8_lossy(&name).into_owned(), end))
        };
        let mut files: Vec<_> = names.into_iter().filter_map(shown).collect();
        files.sort();
        files
    }
}

/// The identity of a file of a folder, the same for all servers and after a restart.
fn stored_id(name: &[u8]) -> FileId {
    let mut id = [0; 16];
    id.copy_from_slice(&blake3::hash(name).as_bytes()[..16]);
    id
}

/// Reads all of a list; bytes after the end of the file are zeros. Returns how many bytes, from the first of the list on, may be other than zeros.
pub(super) fn read_with_zeros(
    handle: &dyn Handle,
    end: u64,
    runs: &mut dyn Iterator<Item = (u64, u64)>,
    bytes: &mut [u8],
) -> Result<u64> {
    let mut rest = bytes;
    let (mut at, mut present, mut batch) = (0, 0, Vec::new());
    for (offset, len) in runs {
        let (run, later) = std::mem::take(&mut rest).split_at_mut(len as usize);
        let there = end.saturating_sub(offset).min(len);
        let (inside, outside) = run.split_at_mut(there as usize);
        outside.fill(0);
        if there > 0 {
            present = at + there;
            batch.push(aqueduct_device::SegmentMut::new(offset, inside));
        }
        at += len;
        rest = later;
        if batch.len() == 1024 {
            read_batch(handle, &mut batch)?;
            batch.clear();
        }
    }
    read_batch(handle, &mut batch)?;
    Ok(present)
}

/// Reads segments that were inside the file; where it was truncated meanwhile, zeros.
fn read_batch(handle: &dyn Handle, batch: &mut [aqueduct_device::SegmentMut<'_>]) -> Result<()> {
    let wanted: u64 = aqueduct_device::total_mut(batch);
    if wanted == 0 || handle.read_full(batch)? == wanted {
        return Ok(());
    }
    for segment in batch {
        let count =
            handle.read_full(&mut [aqueduct_device::SegmentMut::new(segment.offset, segment.bytes)])?;
        segment.bytes[count as usize..].fill(0);
    }
    Ok(())
}
