//! An open file in the memory of a node: a file on tmpfs with a memory limit.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::sync::Arc;

use super::folder_quota::{FolderQuota, unallocated};
use crate::ufs::UfsHandle;
use crate::{
    Capabilities, Error, Handle, Kind, LockGuard, LockKind, MappedAccess, Mapping, Operation, Result,
    Segment, SegmentMut, SyncScope, segment,
};

#[derive(Debug)]
pub(super) struct NodeHandle {
    name: OsString,
    file: UfsHandle,
    quota: Arc<FolderQuota>,
}

impl NodeHandle {
    pub(super) fn new(name: &OsStr, file: UfsHandle, quota: Arc<FolderQuota>) -> Self {
        Self { name: name.into(), file, quota }
    }

    fn no_space(&self, operation: Operation) -> Error {
        let limit = self.quota.limit();
        let error = Error::new(Kind::NoSpace, operation, &self.name);
        error.advise(format!(
            "all files of memfs may take {limit} bytes; see `aqueduct memfs ls`, or give more: memfs=8GiB:NAME or AQUEDUCT_MEMFS=8GiB"
        ))
    }
}

impl Handle for NodeHandle {
    fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
        self.file.read(segments)
    }

    fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
        self.file.check_write(segments)?;
        let wanted = segment::total(segments);
        if self.quota.take(wanted) {
            return self.file.write(segments);
        }
        let fitting = self.quota.fitting(self.file.file(), segments);
        if fitting >= wanted {
            return self.file.write(segments);
        }
        let mut done = 0;
        while done < fitting {
            let left = segment::front(segments, fitting);
            let count = self.file.write(&segment::rest(&left, done)).map_err(|error| {
                let before = done + error.transferred();
                error.after(before)
            })?;
            if count == 0 {
                break;
            }
            done += count;
        }
        Err(self.no_space(Operation::Write).at(segment::offset_of(segments, done)).after(done))
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self, scope: SyncScope) -> Result<()> {
        let _ = scope;
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { persistent: false, ..self.file.capabilities() }
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        if let Ok(end) = i64::try_from(len) {
            let more = unallocated(self.file.file(), 0..end as u64);
            if more > 0 && !self.quota.take(more) {
                // The errors of the mode and of an invalid length come first.
                return match self.file.preallocate(0) {
                    Ok(()) => Err(self.no_space(Operation::Preallocate).at(len)),
                    refused => refused,
                };
            }
        }
        self.file.preallocate(len)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>> {
        self.file.lock(range, kind)
    }

    fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Result<Option<Box<dyn LockGuard + '_>>> {
        self.file.try_lock(range, kind)
    }

    fn is_hole(&self, place: u64) -> bool {
        self.file.is_hole(place)
    }

    fn map(&self, range: Range<u64>) -> Option<Mapping> {
        self.file.map(range)
    }

    fn access_mapped(&self, access: &MappedAccess, copy: &mut dyn FnMut() -> bool) -> Result<bool> {
        // Without room the access is done by a write, which counts exactly and reports what is missing.
        if access.write && !self.quota.take(access.bytes) {
            return Ok(false);
        }
        self.file.access_mapped(access, copy)
    }

    fn close(self: Arc<Self>) -> Result<()> {
        Arc::into_inner(self).map_or(Ok(()), |handle| handle.file.finish())
    }
}
