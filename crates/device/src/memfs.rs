//! `memfs`: named files in the memory of this process, or of this node where ranks are processes.
//!
//! Files are sparse and may have any length; only written data takes memory. Readers and writers of different ranges do
//! not wait for one another. A file exists until it is deleted, whether open or not; deleting frees its memory at once.

mod by_name;
mod capacity;
mod folder_quota;
mod node_handle;
mod node_memory;
mod sparse_bytes;
mod sparse_strips;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use by_name::NamedMemFs;
use capacity::MemoryCapacity;
pub use node_memory::{NodeMemFile, NodeMemFs};
use sparse_bytes::SparseBytes;

use crate::{
    Capabilities, Device, DeviceOpenOptions, Error, Handle, Kind, LockGuard, LockKind, LockScope, Operation,
    RangeLocks, Result, Segment, SegmentMut, Strip, SyncScope, name, segment, strip,
};

/// Files in the memory of this process.
///
/// # Rules
/// Opening a missing file without [`create`](DeviceOpenOptions::create) is `NotFound`; deleting a missing file is
/// `NotFound`, deleting one that is still open is `Busy`.
///
/// ```
/// use aqueduct_device::{Device, HandleExt, Kind, MemFs, DeviceOpenOptions};
///
/// let memory = MemFs::with_capacity(1000);
/// let file = memory.open("a".as_ref(), &DeviceOpenOptions::read_write().create(true))?;
/// let error = file.write_at(0, &[7; 1001]).unwrap_err();
/// assert_eq!((error.kind(), error.transferred()), (Kind::NoSpace, 1000));
/// assert_eq!(memory.delete("a".as_ref()).unwrap_err().kind(), Kind::Busy);
/// drop(file);
/// memory.delete("a".as_ref())?;
/// assert_eq!(memory.used(), 0);
/// # Ok::<_, aqueduct_device::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct MemFs {
    /// A file is open while there are references besides this table's.
    files: Mutex<HashMap<OsString, Arc<MemFile>>>,
    capacity: Arc<MemoryCapacity>,
}

#[derive(Debug)]
struct MemFile {
    bytes: SparseBytes,
    locks: RangeLocks,
}

#[derive(Debug)]
struct MemHandle {
    name: OsString,
    file: Arc<MemFile>,
    read: bool,
    write: bool,
    capacity: Arc<MemoryCapacity>,
    /// What the handle takes of it.
    overhead: u64,
}

impl Drop for MemHandle {
    fn drop(&mut self) {
        self.capacity.give(self.overhead);
    }
}

impl MemFs {
    /// Without a capacity limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a capacity of `bytes` of data for all files; a write that exceeds it is `NoSpace`.
    ///
    /// Data is what was written, plus the zeros between the start of a 64 KiB chunk and what was written into it.
    pub fn with_capacity(bytes: u64) -> Self {
        Self { files: Mutex::default(), capacity: Arc::new(MemoryCapacity::new(bytes)) }
    }

    /// With a limit of all memory that files take, that of their chunks, tables, names and handles included: for servers, whose clients
    /// must not exceed it with small pieces or empty files.
    pub fn with_memory_limit(bytes: u64) -> Self {
        Self { files: Mutex::default(), capacity: Arc::new(MemoryCapacity::of_all_memory(bytes)) }
    }

    /// What all files take of the capacity or of the memory limit.
    pub fn used(&self) -> u64 {
        self.capacity.used()
    }

    /// True if there is a file of this name.
    pub(crate) fn contains(&self, name: &OsStr) -> bool {
        self.files().contains_key(name)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<OsString, Arc<MemFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find_or_create(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<MemFile>> {
        let mut files = self.files();
        match files.get(name) {
            Some(_) if options.is_exclusive() => Err(Error::new(Kind::AlreadyExists, Operation::Open, name)),
            Some(file) => Ok(Arc::clone(file)),
            None if options.is_create() => {
                let overhead = self.capacity.file_overhead(name.len());
                self.take(overhead, name)?;
                let store = SparseBytes::new(Arc::clone(&self.capacity), overhead);
                let file = Arc::new(MemFile { bytes: store, locks: RangeLocks::default() });
                files.insert(name.into(), Arc::clone(&file));
                Ok(file)
            }
            None => Err(Error::new(Kind::NotFound, Operation::Open, name)),
        }
    }

    /// Takes memory for a file or a handle.
    fn take(&self, bytes: u64, name: &OsStr) -> Result<()> {
        if self.capacity.take_all(bytes) {
            return Ok(());
        }
        let error = Error::new(Kind::NoSpace, Operation::Open, name);
        Err(error.advise("delete or close files of this memfs, or give it more memory"))
    }
}

impl Device for MemFs {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        name::check(name, Operation::Open)?;
        options.check(name)?;
        let overhead = self.capacity.file_overhead(name.len());
        self.take(overhead, name)?;
        let file = self.find_or_create(name, options).inspect_err(|_| self.capacity.give(overhead))?;
        if options.is_truncate() {
            file.bytes.set_len(0);
        }
        Ok(Arc::new(MemHandle {
            name: name.into(),
            file,
            read: options.is_read(),
            write: options.is_write(),
            capacity: Arc::clone(&self.capacity),
            overhead,
        }))
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        name::check(name, Operation::Delete)?;
        let mut files = self.files();
        match files.get(name) {
            None => Err(Error::new(Kind::NotFound, Operation::Delete, name).advise("check the name")),
            Some(file) if Arc::strong_count(file) > 1 => {
                Err(Error::new(Kind::Busy, Operation::Delete, name)
                    .advise("drop all handles of the file first"))
            }
            Some(_) => {
                files.remove(name);
                Ok(())
            }
        }
    }
}

impl MemHandle {
    /// The outcome of a write of `wanted` bytes that has done so many; `place` gives the offset of a byte.
    fn written(&self, done: u64, wanted: u64, place: impl Fn(u64) -> u64) -> Result<u64> {
        if done == wanted {
            return Ok(done);
        }
        let error = Error::new(Kind::NoSpace, Operation::Write, &self.name).at(place(done));
        Err(error.after(done).advise("delete files of this memfs, or give it more capacity"))
    }

    fn allow(&self, allowed: bool, operation: Operation) -> Result<()> {
        if allowed { Ok(()) } else { Err(Error::new(Kind::PermissionDenied, operation, &self.name)) }
    }
}

impl Handle for MemHandle {
    fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
        self.allow(self.read, Operation::Read)?;
        segment::check(segments, Operation::Read, &self.name)?;
        Ok(self.file.bytes.read(segments))
    }

    fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
        self.allow(self.write, Operation::Write)?;
        segment::check(segments, Operation::Write, &self.name)?;
        let done = self.file.bytes.write(segments);
        self.written(done, segment::total(segments), |done| segment::offset_of(segments, done))
    }

    fn read_strips(&self, strips: &[Strip], bytes: &mut [u8]) -> Result<u64> {
        self.allow(self.read, Operation::Read)?;
        strip::check(strips, bytes.len(), Operation::Read, &self.name)?;
        Ok(self.file.bytes.read_strips(strips, bytes))
    }

    fn write_strips(&self, strips: &[Strip], bytes: &[u8]) -> Result<u64> {
        self.allow(self.write, Operation::Write)?;
        strip::check(strips, bytes.len(), Operation::Write, &self.name)?;
        let done = self.file.bytes.write_strips(strips, bytes);
        self.written(done, bytes.len() as u64, |done| strip::offset_of(strips, done))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.bytes.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.allow(self.write, Operation::SetLen)?;
        if len > i64::MAX as u64 {
            return Err(Error::new(Kind::InvalidArgument, Operation::SetLen, &self.name).at(len));
        }
        self.file.bytes.set_len(len);
        Ok(())
    }

    fn sync(&self, _scope: SyncScope) -> Result<()> {
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        let cores = crate::capabilities::cores();
        Capabilities {
            coherent: true,
            native_lists: true,
            native_strips: true,
            locks: LockScope::Process,
            block: sparse_bytes::CHUNK as u32,
            concurrency: cores,
            ..Capabilities::default()
        }
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>> {
        Ok(Box::new(self.file.locks.lock(range, kind)))
    }

    fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Result<Option<Box<dyn LockGuard + '_>>> {
        let guard = self.file.locks.try_lock(range, kind);
        Ok(guard.map(|guard| -> Box<dyn LockGuard + '_> { Box::new(guard) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HandleExt;

    fn create(memory: &MemFs, name: &str) -> Arc<dyn Handle> {
        memory.open(name.as_ref(), &DeviceOpenOptions::read_write().create(true)).unwrap()
    }

    fn kind<T>(result: Result<T>) -> Option<Kind> {
        result.err().map(|error| error.kind())
    }

    #[test]
    fn rules_of_open_and_delete() {
        let memory = MemFs::new();
        let a: &OsStr = "a".as_ref();
        assert_eq!(kind(memory.open(a, &DeviceOpenOptions::read_only())), Some(Kind::NotFound));
        assert_eq!(kind(memory.delete(a)), Some(Kind::NotFound));
        let first = create(&memory, "a");
        let second = memory.open(a, &DeviceOpenOptions::read_only()).unwrap();
        first.write_at(0, b"x").unwrap();
        assert_eq!(second.len().unwrap(), 1);
        let exclusive = DeviceOpenOptions::read_write().create(true).exclusive(true);
        assert_eq!(kind(memory.open(a, &exclusive)), Some(Kind::AlreadyExists));
        drop(first);
        assert_eq!(kind(memory.delete(a)), Some(Kind::Busy));
        drop(second);
        memory.delete(a).unwrap();
        assert_eq!(
            (memory.used(), kind(memory.open(a, &DeviceOpenOptions::read_only()))),
            (0, Some(Kind::NotFound))
        );
    }

    #[test]
    fn the_open_mode_is_enforced() {
        let memory = MemFs::new();
        let a: &OsStr = "a".as_ref();
        let writer = memory.open(a, &DeviceOpenOptions::write_only().create(true)).unwrap();
        assert_eq!(kind(writer.read_at(0, &mut [0])), Some(Kind::PermissionDenied));
        let reader = memory.open(a, &DeviceOpenOptions::read_only()).unwrap();
        assert_eq!(kind(reader.write_at(0, &[0])), Some(Kind::PermissionDenied));
        assert_eq!(kind(reader.set_len(0)), Some(Kind::PermissionDenied));
    }

    #[test]
    fn a_no_space_error_has_offset_and_count() {
        let memory = MemFs::with_capacity(100);
        let (file, other) = (create(&memory, "a"), create(&memory, "b"));
        other.write_at(0, &[1; 30]).unwrap();
        let segments =
            [Segment::new(0, &[2; 40]), Segment::new(1 << 40, &[3; 20]), Segment::new(40, &[4; 60])];
        let error = file.write(&segments).unwrap_err();
        assert_eq!((error.kind(), error.transferred(), error.offset()), (Kind::NoSpace, 70, Some(50)));
        assert_eq!((memory.used(), file.len().unwrap()), (100, (1 << 40) + 20));
        file.set_len(45).unwrap();
        assert_eq!(memory.used(), 75);
    }

    #[test]
    fn lengths_above_the_maximum_file_size_are_errors() {
        let file = create(&MemFs::new(), "a");
        assert_eq!(kind(file.set_len(u64::MAX)), Some(Kind::InvalidArgument));
        file.set_len(i64::MAX as u64).unwrap();
        let mut bytes = [9; 4];
        assert_eq!(file.read_at(i64::MAX as u64 - 4, &mut bytes).unwrap(), 4);
        assert_eq!(bytes, [0; 4]);
    }

    #[test]
    fn a_memory_limit_counts_tables_names_and_handles() {
        let memory = MemFs::with_memory_limit(1 << 20);
        let file = create(&memory, "a");
        let empty = memory.used();
        assert!(empty > 0);
        let pieces: Vec<Segment<'_>> = (0..1000).map(|at| Segment::new(at << 20, b"x")).collect();
        let error = file.write(&pieces).unwrap_err();
        assert_eq!(error.kind(), Kind::NoSpace);
        assert!((200..256).contains(&error.transferred()), "each takes 4 KiB and its place: {error}");
        assert!(memory.used() <= 1 << 20);
        file.set_len(0).unwrap();
        assert_eq!(memory.used(), empty);
        file.write_at(1, b"abc").unwrap();
        file.set_len(2).unwrap();
        file.write_at(4000, &[1; 5000]).unwrap();
        let outcome = (0..2000).try_for_each(|number| {
            let options = DeviceOpenOptions::read_write().create(true);
            memory.open(format!("{number}").as_ref(), &options).map(drop)
        });
        assert_eq!(kind(outcome), Some(Kind::NoSpace));
        drop(file);
        memory.delete("a".as_ref()).unwrap();
        (0..2000).for_each(|number| drop(memory.delete(format!("{number}").as_ref())));
        assert_eq!(memory.used(), 0);
    }
}
