//! The files of a server: which are open, who they are, and their locks.
//!
//! The table is locked for look-ups only. A file is opened and deleted under a lock of its own, so that a slow disk under one file
//! holds up no other.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aqueduct_device::{Device, DeviceOpenOptions, Error, Handle, Kind, Operation, Result};

use super::lock_table::LockTable;
use crate::key::random;
use crate::wire::answer::{ListedFile, ListingPage};
use crate::wire::greeting::SessionId;
use crate::wire::request::{FileId, MOST_EVICTED, OpenFlags, OpenRole};

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
    pub(super) locks: LockTable,
    /// Another one after each change of the length by truncation.
    generation: AtomicU64,
    /// Sessions that have lost a lock of this file, in the order in which they did.
    evicted: Mutex<Vec<SessionId>>,
    /// Locked while the file is opened, closed or deleted.
    state: Mutex<EntryState>,
}

#[derive(Default)]
struct EntryState {
    /// None if the file does not exist.
    identity: Option<FileIdentity>,
    opens: usize,
    /// The entry is no longer in the table.
    removed: bool,
}

#[derive(Clone, Copy)]
struct FileIdentity {
    id: FileId,
    stripe: u64,
    /// The starts of all servers of the set when the file was created.
    epochs: [u8; 16],
}

/// A file opened by a client.
pub(super) struct OpenedFile {
    pub(super) entry: Arc<FileEntry>,
    pub(super) id: FileId,
    pub(super) stripe: u64,
    /// The session of the client on the first server of the file.
    pub(super) owner: Option<SessionId>,
    device: Arc<dyn Device>,
    /// None for a client that only reads, as long as nothing was written to this part.
    handle: OnceLock<Arc<dyn Handle>>,
}

/// How a client opens a file.
pub(super) struct OpenFileRequest<'a> {
    pub(super) name: &'a [u8],
    pub(super) flags: OpenFlags,
    pub(super) permissions: u32,
    pub(super) stripe: u64,
    pub(super) role: OpenRole,
}

impl FileEntry {
    fn new(name: &[u8]) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_vec(),
            locks: LockTable::default(),
            generation: AtomicU64::new(1),
            evicted: Mutex::default(),
            state: Mutex::default(),
        })
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// After the file was truncated: what clients remember of its length is no longer right.
    pub(super) fn note_truncation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// A session has lost a lock.
    pub(super) fn note_eviction(&self, session: SessionId) {
        locked(&self.evicted).push(session);
    }

    /// Some sessions that have lost locks, after the first `known` ones.
    pub(super) fn evicted(&self, known: u64) -> Vec<SessionId> {
        let evicted = locked(&self.evicted);
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(evicted.len());
        evicted[known..].iter().take(MOST_EVICTED).copied().collect()
    }
}

impl OpenedFile {
    /// The file; none if nothing was written to this part and the client only reads.
    pub(super) fn handle(&self) -> Result<Option<&Arc<dyn Handle>>> {
        if let Some(handle) = self.handle.get() {
            return Ok(Some(handle));
        }
        match self.device.open(OsStr::from_bytes(&self.entry.name), &DeviceOpenOptions::read_only()) {
            Ok(handle) => Ok(Some(self.handle.get_or_init(|| handle))),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The file, for an operation that changes it.
    pub(super) fn writable(&self, operation: Operation) -> Result<&Arc<dyn Handle>> {
        let denied = || Error::new(Kind::PermissionDenied, operation, OsStr::from_bytes(&self.entry.name));
        self.handle.get().ok_or_else(denied)
    }

    /// The end of this part.
    pub(super) fn end(&self) -> Result<u64> {
        self.handle()?.map_or(Ok(0), |handle| handle.len())
    }

    /// What the client of a part has to know of this file, for [`FileTable::close`].
    fn into_handle(self) -> (Arc<FileEntry>, Option<Arc<dyn Handle>>) {
        (self.entry, self.handle.into_inner())
    }
}

impl FileTable {
    pub(super) fn new(device: Arc<dyn Device>, stored: bool) -> Self {
        Self { device, stored, entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<FileEntry>>> {
        locked(&self.entries)
    }

    /// How many files there are, as far as is known without looking into a folder.
    pub(super) fn count(&self) -> usize {
        self.entries().len()
    }

    /// Executes `work` with the entry of a name, a new one if there is none; removes the entry if the file neither exists nor is open.
    fn with_entry<T>(&self, name: &[u8], work: impl FnOnce(&Arc<FileEntry>, &mut EntryState) -> T) -> T {
        loop {
            let entry =
                Arc::clone(self.entries().entry(name.to_vec()).or_insert_with(|| FileEntry::new(name)));
            let mut state = locked(&entry.state);
            if state.removed {
                // Another thread has removed it meanwhile.
                continue;
            }
            let outcome = work(&entry, &mut state);
            self.remove_unused(&entry, &mut state);
            return outcome;
        }
    }

    fn remove_unused(&self, entry: &Arc<FileEntry>, state: &mut EntryState) {
        if state.opens == 0 && (self.stored || state.identity.is_none()) {
            state.removed = true;
            self.entries().remove(&entry.name);
        }
    }

    pub(super) fn open(&self, request: &OpenFileRequest<'_>) -> Result<OpenedFile> {
        self.with_entry(request.name, |entry, state| {
            let opened = match request.role {
                OpenRole::First { epochs } => self.open_first(request, epochs, state),
                OpenRole::Part { id, .. } => self.open_part(request, id, entry, state),
            };
            let handle = opened.inspect_err(|_| {
                if state.opens == 0 && self.is_missing(request.name) {
                    state.identity = None;
                }
            })?;
            if request.flags.truncate {
                entry.note_truncation();
            }
            state.opens += 1;
            let owner = match request.role {
                OpenRole::Part { owner, .. } => Some(owner),
                OpenRole::First { .. } => None,
            };
            let FileIdentity { id, stripe, .. } = *state.identity.get_or_insert(FileIdentity {
                id: if self.stored { stored_id(request.name) } else { random() },
                stripe: request.stripe,
                epochs: [0; 16],
            });
            let device = Arc::clone(&self.device);
            let handle = handle.map_or_else(OnceLock::new, OnceLock::from);
            Ok(OpenedFile { entry: Arc::clone(entry), id, stripe, owner, device, handle })
        })
    }

    /// Opens a file on its first server, which decides whether it exists.
    fn open_first(
        &self,
        request: &OpenFileRequest<'_>,
        epochs: [u8; 16],
        state: &mut EntryState,
    ) -> Result<Option<Arc<dyn Handle>>> {
        let (name, flags) = (OsStr::from_bytes(request.name), request.flags);
        let is_lost = |identity: FileIdentity| !self.stored && identity.epochs != epochs;
        let is_lost = state.identity.is_some_and(is_lost) && !flags.exclusive;
        if is_lost {
            if !flags.truncate || state.opens > 0 {
                let error = Error::new(Kind::Disconnected, Operation::Open, name);
                return Err(error.advise(
                    "a server of the set was started again after the file was created, and the stripes that it had are lost; delete the file",
                ));
            }
            // Nothing of it is wanted: another file, whose parts are new.
            self.device.delete(name)?;
            state.identity = None;
        }
        let options =
            access(flags).create(flags.create || is_lost).truncate(flags.truncate).exclusive(flags.exclusive);
        let handle = self.device.open(name, &options.permissions(request.permissions))?;
        state.identity.get_or_insert(FileIdentity {
            id: if self.stored { stored_id(request.name) } else { random() },
            stripe: request.stripe,
            epochs,
        });
        Ok(Some(handle))
    }

    /// Opens the part of a file on another server than its first one.
    fn open_part(
        &self,
        request: &OpenFileRequest<'_>,
        id: FileId,
        entry: &FileEntry,
        state: &mut EntryState,
    ) -> Result<Option<Arc<dyn Handle>>> {
        let (name, flags) = (OsStr::from_bytes(request.name), request.flags);
        if state.identity.is_some_and(|identity| identity.id != id) {
            // What is left of an earlier file of this name.
            if state.opens > 0 {
                let error = Error::new(Kind::Busy, Operation::Open, name);
                return Err(error.advise("an earlier file of this name is still open"));
            }
            self.delete_if_there(name)?;
            state.identity = None;
            entry.note_truncation();
        }
        state.identity.get_or_insert(FileIdentity { id, stripe: request.stripe, epochs: [0; 16] });
        let options = access(flags).truncate(flags.truncate).permissions(request.permissions);
        if flags.write {
            return self.device.open(name, &options.create(true)).map(Some);
        }
        match self.device.open(name, &options) {
            Err(error) if error.kind() == Kind::NotFound && !self.stored => Ok(None),
            Err(error) if error.kind() == Kind::NotFound => {
                // The first server has it: this asks a file server that has not heard of it yet.
                let create = DeviceOpenOptions::read_write().create(true).permissions(request.permissions);
                drop(self.device.open(name, &create)?);
                self.device.open(name, &options).map(Some)
            }
            outcome => outcome.map(Some),
        }
    }

    fn delete_if_there(&self, name: &OsStr) -> Result<()> {
        match self.device.delete(name) {
            Err(error) if error.kind() == Kind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// Ends an opening, after accesses that are under way; an error is that of closing the file.
    pub(super) fn close(&self, mut file: Arc<OpenedFile>) -> Result<()> {
        let file = loop {
            match Arc::try_unwrap(file) {
                Ok(file) => break file,
                Err(used) => file = used,
            }
            std::thread::sleep(std::time::Duration::from_micros(50));
        };
        let (entry, handle) = file.into_handle();
        let mut state = locked(&entry.state);
        let outcome = handle.map_or(Ok(()), Handle::close);
        state.opens -= 1;
        if state.opens == 0 && self.is_missing(&entry.name) {
            state.identity = None;
        }
        self.remove_unused(&entry, &mut state);
        outcome
    }

    /// True if a file of the memory does not exist: its entry is of no use. Files of a folder have entries only as long as they are open.
    fn is_missing(&self, name: &[u8]) -> bool {
        if self.stored {
            return false;
        }
        let opened = self.device.open(OsStr::from_bytes(name), &DeviceOpenOptions::read_only());
        opened.is_err_and(|error| error.kind() == Kind::NotFound)
    }

    /// Deletes a file, or the part with this identity if it is there.
    pub(super) fn delete(&self, name: &[u8], part: Option<FileId>) -> Result<FileId> {
        let path = OsStr::from_bytes(name);
        self.with_entry(name, |_, state| {
            let known = state.identity.map(|identity| identity.id);
            if let Some(id) = part
                && known != Some(id)
            {
                return Ok(id);
            }
            if state.opens > 0 {
                let error = Error::new(Kind::Busy, Operation::Delete, path);
                return Err(error.advise(
                    "close all handles of the file first; those of a program that died end with its session",
                ));
            }
            if part.is_some() {
                self.delete_if_there(path)?;
            } else {
                self.device.delete(path)?;
            }
            state.identity = None;
            Ok(known.unwrap_or_else(|| stored_id(name)))
        })
    }

    /// Some files whose names begin with `prefix` and come after `after`, and whether there are more.
    pub(super) fn list(&self, prefix: &[u8], after: &[u8]) -> (Vec<ListedFile>, bool) {
        let is_wanted = |name: &&Vec<u8>| name.starts_with(prefix) && name.as_slice() > after;
        let mut names: Vec<Vec<u8>> = self.entries().keys().filter(is_wanted).cloned().collect();
        names.sort_unstable();
        let mut page = ListingPage::default();
        for name in names {
            if page.is_full() {
                return (page.files, true);
            }
            if let Some(end) = self.end_of(&name) {
                page.add(ListedFile { name, end });
            }
        }
        (page.files, false)
    }

    /// The end of a file; none if it was deleted meanwhile, or has no part here.
    fn end_of(&self, name: &[u8]) -> Option<u64> {
        let entry = self.entries().get(name).cloned()?;
        // Nobody deletes it meanwhile, and finds it open.
        let _state = locked(&entry.state);
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

fn access(flags: OpenFlags) -> DeviceOpenOptions {
    match (flags.read, flags.write) {
        (true, true) => DeviceOpenOptions::read_write(),
        (false, true) => DeviceOpenOptions::write_only(),
        _ => DeviceOpenOptions::read_only(),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The identity of a file of a folder, the same for all servers and after a restart.
fn stored_id(name: &[u8]) -> FileId {
    let mut id = [0; 16];
    id.copy_from_slice(&blake3::hash(name).as_bytes()[..16]);
    id
}
