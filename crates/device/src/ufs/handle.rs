//! An open file of the operating system.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::close;
use super::direct::DirectFile;
use super::file::{self, retry};
use super::locks::FileLocks;
use super::vectored::{self, TransferProgress};
use super::write_behind::WriteBehind;
use super::writeback;
use crate::mapping::MappingRights;
use crate::syscalls::count_syscall;
use crate::{
    Capabilities, DIRECT_ALIGNMENT, DeviceOpenOptions, Error, Handle, Kind, LockGuard, LockKind, LockScope,
    MappedAccess, Mapping, Operation, Result, Segment, SegmentMut, SegmentRange, SyncScope, segment,
};

/// An open file of the operating system. `uring` uses it for everything except scattered lists.
#[derive(Debug)]
pub(crate) struct UfsHandle {
    name: OsString,
    /// The name with the folder it was relative to when the file was opened.
    path: PathBuf,
    file: OwnedFd,
    direct: Option<DirectFile>,
    /// Present if writeback of written data starts at once.
    write_behind: Option<WriteBehind>,
    kind: FileType,
    capabilities: Capabilities,
    /// The file system of a regular file that goes through the page cache.
    system: Option<u64>,
    read: bool,
    write: bool,
    locks: FileLocks,
    /// A sync has failed: the state of the medium is unknown.
    broken: AtomicBool,
    /// Something was written by calls.
    written: AtomicBool,
    /// Pages can have been stored to.
    mapped: AtomicBool,
}

impl UfsHandle {
    pub(crate) fn open(name: &OsStr, options: &DeviceOpenOptions) -> Result<Self> {
        let (file, stat) = file::open(name, options)?;
        let path = std::path::absolute(name).map_err(|error| Error::from_io(error, Operation::Open, name))?;
        let direct = if options.is_direct() { DirectFile::open(file.as_fd(), options) } else { None };
        let kind = FileType::from_raw_mode(stat.st_mode);
        // The file system of a device node has no relation to the device.
        let system = file::system(&file).filter(|_| kind == FileType::RegularFile);
        let persistent = kind != FileType::CharacterDevice && system.is_none_or(file::is_persistent);
        let coherent = kind != FileType::RegularFile || system.is_some_and(file::is_coherent);
        let system = system.filter(|_| direct.is_none());
        Ok(Self {
            name: name.into(),
            path,
            capabilities: Capabilities {
                persistent,
                shared: true,
                coherent,
                // The page cache of this machine is authoritative, so that its pages may be changed in place.
                maps: options.is_read() && system.is_some_and(file::is_local),
                preallocate: kind == FileType::RegularFile,
                locks: LockScope::System,
                alignment: if direct.is_some() { DIRECT_ALIGNMENT as u32 } else { 1 },
                block: u32::try_from(stat.st_blksize).unwrap_or(4096),
                concurrency: crate::capabilities::cores(),
                ..Capabilities::default()
            },
            system,
            write_behind: (options.is_write_behind() && direct.is_none()).then(WriteBehind::default),
            direct,
            kind,
            read: options.is_read(),
            write: options.is_write(),
            locks: FileLocks::new(stat.st_dev, stat.st_ino),
            file,
            broken: AtomicBool::new(false),
            written: AtomicBool::new(false),
            mapped: AtomicBool::new(false),
        })
    }

    /// Closes all descriptors; the first error of what was written through them, or of closing them.
    pub(crate) fn finish(self) -> Result<()> {
        let regular = self.kind == FileType::RegularFile;
        let mapped = regular && self.mapped.load(Ordering::Relaxed);
        let written = regular && self.written.load(Ordering::Relaxed) || mapped;
        let written = if written { writeback::check(self.file()) } else { Ok(()) };
        let alive = if mapped { close::check_alive(self.file()) } else { Ok(()) };
        let past = self.direct.map_or(Ok(()), |direct| close::close(direct.into_file()));
        let outcome = written.and(alive).and(past);
        let outcome = outcome.and(close::close(self.file));
        outcome.map_err(|errno| {
            let error = Error::from_io(errno.into(), Operation::Close, &self.name);
            error.advise("what was written since the last sync may be lost; write it again to another file")
        })
    }

    /// The buffered descriptor.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The descriptor past the page cache, if the file was opened for that.
    pub(crate) fn direct_file(&self) -> Option<BorrowedFd<'_>> {
        self.direct.as_ref().map(DirectFile::file)
    }

    /// Lends an aligned buffer that no other thread uses; none if the file was not opened past the page cache.
    pub(crate) fn with_bounce<T>(&self, work: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        self.direct.as_ref().map(|direct| direct.with_bounce(work))
    }

    /// Refuses what the open mode or the contract does not allow.
    pub(crate) fn check_read<E: SegmentRange>(&self, segments: &[E]) -> Result<()> {
        if !self.read {
            return Err(self.error(Kind::PermissionDenied, Operation::Read));
        }
        segment::check(segments, Operation::Read, &self.name)
    }

    /// Refuses what the open mode, the contract or a failed sync does not allow.
    pub(crate) fn check_write<E: SegmentRange>(&self, segments: &[E]) -> Result<()> {
        self.check_change(Operation::Write)?;
        segment::check(segments, Operation::Write, &self.name)
    }

    /// The outcome of a transfer of this list.
    pub(crate) fn outcome<E: SegmentRange>(
        &self,
        operation: Operation,
        segments: &[E],
        progress: TransferProgress,
    ) -> Result<u64> {
        match progress.stop {
            None => Ok(progress.done),
            Some(errno) => {
                let error = self.failed(operation, errno).after(progress.done);
                Err(error.at(segment::offset_of(segments, progress.done)))
            }
        }
    }

    /// Records that a list was written into the page cache.
    pub(crate) fn note_written(&self, segments: &[Segment<'_>]) {
        // A store would invalidate the cache line of other writing threads.
        if !self.written.load(Ordering::Relaxed) {
            self.written.store(true, Ordering::Relaxed);
        }
        if let Some(behind) = &self.write_behind {
            behind.note_written(self.file(), segments);
        }
    }

    fn check_change(&self, operation: Operation) -> Result<()> {
        if !self.write {
            return Err(self.error(Kind::PermissionDenied, operation));
        }
        self.check_not_broken(operation)
    }

    fn check_not_broken(&self, operation: Operation) -> Result<()> {
        if self.broken.load(Ordering::Acquire) {
            let advice =
                "an earlier sync of this handle failed; open the file again and rewrite unsynced data";
            return Err(self.error(Kind::Io, operation).advise(advice));
        }
        Ok(())
    }

    fn error(&self, kind: Kind, operation: Operation) -> Error {
        Error::new(kind, operation, &self.name)
    }

    fn failed(&self, operation: Operation, errno: Errno) -> Error {
        Error::from_io(errno.into(), operation, &self.name)
    }

    fn check_len(&self, len: u64, operation: Operation) -> Result<()> {
        if len > i64::MAX as u64 { Err(self.error(Kind::InvalidArgument, operation).at(len)) } else { Ok(()) }
    }

    /// Makes the entry in the folder durable. A folder that may not be read is reached by a sync of its whole file system.
    fn sync_entry(&self) -> Result<()> {
        let path = self.path.canonicalize().map_err(|error| {
            let error = Error::from_io(error, Operation::Sync, &self.name);
            error.advise("the file was renamed or deleted since it was opened")
        })?;
        let folder = path.parent().unwrap_or(&path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let outcome = match rustix::fs::open(folder, flags, Mode::empty()) {
            Ok(folder) => retry(|| rustix::fs::fsync(&folder)),
            Err(_) => rustix::fs::syncfs(&self.file),
        };
        outcome.map_err(|errno| self.failed(Operation::Sync, errno))
    }
}

impl Handle for UfsHandle {
    fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
        self.check_read(segments)?;
        let progress = match &self.direct {
            Some(direct) => direct.read(self.file(), segments),
            None => vectored::read(self.file(), segments),
        };
        self.outcome(Operation::Read, segments, progress)
    }

    fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
        self.check_write(segments)?;
        let progress = match &self.direct {
            Some(direct) => direct.write(self.file(), segments),
            None => vectored::write(self.file(), segments),
        };
        self.note_written(segments);
        self.outcome(Operation::Write, segments, progress)
    }

    fn len(&self) -> Result<u64> {
        let len = match self.kind {
            // This moves the unused file pointer of the descriptor. It takes half of the time of fstat.
            FileType::RegularFile | FileType::BlockDevice => rustix::fs::seek(&self.file, SeekFrom::End(0)),
            _ => rustix::fs::fstat(&self.file).map(|stat| stat.st_size as u64),
        };
        len.map_err(|errno| self.failed(Operation::Len, errno))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_change(Operation::SetLen)?;
        self.check_len(len, Operation::SetLen)?;
        retry(|| rustix::fs::ftruncate(&self.file, len))
            .map_err(|errno| self.failed(Operation::SetLen, errno).at(len))?;
        if len == 0 {
            file::close_once(self.file());
        }
        Ok(())
    }

    fn sync(&self, scope: SyncScope) -> Result<()> {
        if self.kind == FileType::CharacterDevice {
            return Ok(());
        }
        self.check_not_broken(Operation::Sync)?;
        retry(|| rustix::fs::fdatasync(&self.file)).map_err(|errno| {
            self.broken.store(true, Ordering::Release);
            self.failed(Operation::Sync, errno)
        })?;
        match scope {
            SyncScope::Data => Ok(()),
            SyncScope::Entry => self.sync_entry(),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        self.check_change(Operation::Preallocate)?;
        self.check_len(len, Operation::Preallocate)?;
        if len == 0 {
            return Ok(());
        }
        match retry(|| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len)) {
            // A file system without fallocate: the file is only extended. With an outdated length it would be truncated.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                if !self.capabilities.coherent {
                    self.revalidate(0..0)?;
                }
                if self.len()? < len { self.set_len(len) } else { Ok(()) }
            }
            Ok(()) => Ok(()),
            Err(errno) => Err(self.failed(Operation::Preallocate, errno).at(len)),
        }
    }

    fn advise_will_write(&self, range: Range<u64>) {
        // Here writing is cheaper if space was reserved before.
        let reserves = self.system == Some(file::EXT);
        if reserves && self.write && range.start < range.end && i64::try_from(range.end).is_ok() {
            // The length does not change; a full disk is reported by the write.
            let bytes = range.end - range.start;
            let _ =
                retry(|| rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, range.start, bytes));
        }
    }

    fn extend_allocated(&self, range: Range<u64>) -> bool {
        // Elsewhere it is not known to be cheaper than writing the last byte; tmpfs would clear every page twice.
        let may = self.system == Some(file::EXT) && self.check_change(Operation::Write).is_ok();
        if !may || range.is_empty() || i64::try_from(range.end).is_err() {
            return false;
        }
        let allocate = |flags| {
            count_syscall();
            retry(|| rustix::fs::fallocate(&self.file, flags, range.start, range.end - range.start)).is_ok()
        };
        // The space first: with too little of it, a call that also extends the file would leave a part of the new length.
        allocate(FallocateFlags::KEEP_SIZE) && allocate(FallocateFlags::empty())
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>> {
        // Shared locks need a readable descriptor.
        let kind = if self.read { kind } else { LockKind::Exclusive };
        let start = range.start;
        let lock = self.locks.lock(self.file(), range, kind);
        lock.map_err(|errno| self.failed(Operation::Lock, errno).at(start))
    }

    fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Result<Option<Box<dyn LockGuard + '_>>> {
        let kind = if self.read { kind } else { LockKind::Exclusive };
        let start = range.start;
        self.locks
            .try_lock(self.file(), range, kind)
            .map_err(|errno| self.failed(Operation::Lock, errno).at(start))
    }

    fn revalidate(&self, range: Range<u64>) -> Result<()> {
        if self.kind != FileType::RegularFile {
            return Ok(());
        }
        file::refresh_length(self.file()).map_err(|errno| self.failed(Operation::Len, errno))?;
        file::drop_cached_pages(self.file(), &range);
        Ok(())
    }

    fn start_writeback(&self, range: Range<u64>) {
        writeback::start(self.file.as_fd(), &range);
    }

    fn is_hole(&self, place: u64) -> bool {
        match rustix::fs::seek(&self.file, SeekFrom::Data(place)) {
            Ok(data) => data > place,
            Err(errno) => errno == Errno::NXIO,
        }
    }

    fn map(&self, range: Range<u64>) -> Option<Mapping> {
        if !self.capabilities.maps {
            return None;
        }
        let write = self.write && self.check_not_broken(Operation::Write).is_ok();
        let rights = MappingRights { write, in_place: self.system.is_some_and(file::is_in_place) };
        let mapping = Mapping::new(self.file(), range, rights)?;
        self.mapped.fetch_or(write, Ordering::Relaxed);
        Some(mapping)
    }

    fn access_mapped(&self, access: &MappedAccess, copy: &mut dyn FnMut() -> bool) -> Result<bool> {
        if access.write {
            self.check_change(Operation::Write)?;
        }
        Ok(copy())
    }

    fn close(self: Arc<Self>) -> Result<()> {
        Arc::into_inner(self).map_or(Ok(()), Self::finish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HandleExt;

    #[test]
    fn unwritten_ranges_are_holes() {
        const MIB: u64 = 1 << 20;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let file = UfsHandle::open(path.as_os_str(), &DeviceOpenOptions::read_write().create(true)).unwrap();
        file.set_len(4 * MIB).unwrap();
        assert!(file.is_hole(0) && file.is_hole(3 * MIB));
        file.write_at(2 * MIB, &[1; 8192]).unwrap();
        assert!(file.is_hole(0) && !file.is_hole(2 * MIB + 4096) && file.is_hole(3 * MIB));
        file.sync(SyncScope::Data).unwrap();
        assert!(file.is_hole(0) && !file.is_hole(2 * MIB + 4096) && file.is_hole(3 * MIB));
    }

    #[test]
    fn only_mapped_handles_are_checked_for_lost_stores() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let file = UfsHandle::open(path.as_os_str(), &DeviceOpenOptions::read_write().create(true)).unwrap();
        file.write_at(0, &[7; 8192]).unwrap();
        assert!(file.map(u64::MAX - 1..u64::MAX).is_none() && !file.mapped.load(Ordering::Relaxed));
        let mapping = file.map(0..8192);
        assert_eq!(file.mapped.load(Ordering::Relaxed), mapping.is_some());
    }

    #[test]
    fn advise_will_write_changes_neither_length_nor_contents() {
        const MIB: u64 = 1 << 20;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let file = UfsHandle::open(path.as_os_str(), &DeviceOpenOptions::read_write().create(true)).unwrap();
        file.advise_will_write(MIB..3 * MIB);
        assert_eq!(file.len().unwrap(), 0);
        let blocks = rustix::fs::fstat(&file.file).unwrap().st_blocks as u64;
        assert!(
            file.system != Some(super::file::EXT) || blocks * 512 >= 2 * MIB,
            "{blocks} blocks are reserved"
        );
        file.write_at(2 * MIB, b"abc").unwrap();
        // Errors are ignored here and reported by the write.
        for range in [0..u64::MAX, 0..0, i64::MAX as u64 - 1..i64::MAX as u64] {
            file.advise_will_write(range);
        }
        assert_eq!(file.len().unwrap(), 2 * MIB + 3);
        let mut back = [9; 4];
        assert_eq!(file.read_at(2 * MIB - 1, &mut back).unwrap(), 4);
        assert_eq!(&back, b"\0abc");
    }

    #[test]
    fn a_range_is_allocated_and_the_file_is_extended_but_never_truncated() {
        const MIB: u64 = 1 << 20;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let options = DeviceOpenOptions::read_write().create(true);
        let file = UfsHandle::open(path.as_os_str(), &options).unwrap();
        file.write_at(0, b"abc").unwrap();
        let extends = file.extend_allocated(MIB..4 * MIB);
        assert_eq!(extends, file.system == Some(super::file::EXT));
        assert!(!file.extend_allocated(0..u64::MAX) && !file.extend_allocated(5..5));
        assert_eq!(file.len().unwrap(), if extends { 4 * MIB } else { 3 });
        assert_eq!(file.extend_allocated(0..MIB), extends);
        assert_eq!(file.len().unwrap(), if extends { 4 * MIB } else { 3 });
        let mut back = [9; 4];
        assert_eq!(file.read_at(0, &mut back).unwrap(), if extends { 4 } else { 3 });
        assert_eq!(&back[..3], b"abc");
        let reader = UfsHandle::open(path.as_os_str(), &DeviceOpenOptions::read_only()).unwrap();
        assert!(!reader.extend_allocated(0..5 * MIB));
    }

    #[test]
    fn after_a_failed_sync_a_handle_is_for_reading_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let options = DeviceOpenOptions::read_write().create(true);
        let file = UfsHandle::open(path.as_os_str(), &options).unwrap();
        file.write_at(0, b"abc").unwrap();
        file.broken.store(true, Ordering::Release);
        for outcome in
            [file.write_at(0, b"x"), file.set_len(1), file.preallocate(9), file.sync(SyncScope::Data)]
        {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), Kind::Io);
            assert!(error.to_string().contains("open the file again"), "{error}");
        }
        let mut back = [0; 3];
        assert_eq!(file.read_at(0, &mut back).unwrap(), 3);
        UfsHandle::open(path.as_os_str(), &options).unwrap().write_at(0, &back).unwrap();
    }
}
