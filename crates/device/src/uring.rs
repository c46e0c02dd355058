//! `uring`: files of the operating system with many operations in flight, through `io_uring`.
//!
//! Everything except lists of scattered segments is done by `ufs`: the same names, modes, locks, syncs and errors. The runs of
//! a list are submitted together and complete in any order; the returned count is the longest prefix.

mod batch;
mod bounce;
mod ring;
mod ring_pool;

use std::ffi::OsStr;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use batch::UringBatch;
use bounce::DirectStrategy;
use ring::RingFiles;
use ring_pool::RingPool;

use crate::ufs::UfsHandle;
use crate::ufs::vectored::TransferProgress;
use crate::{
    Capabilities, Device, DeviceOpenOptions, Handle, LockGuard, LockKind, MappedAccess, Mapping, Operation,
    Result, Segment, SegmentMut, SegmentRange, SyncScope, Ufs, coalesce, total, total_mut,
};

/// Files of the operating system through `io_uring`.
///
/// A list of scattered segments is submitted as a whole, up to 256 runs in flight; a list of one run is one call as in [`Ufs`].
/// With [`DeviceOpenOptions::direct`] lists of whole blocks bypass the page cache in the same way, through a bounce buffer if memory is not aligned; others
/// as in [`Ufs`].
///
/// # If the kernel refuses
/// Many sites forbid `io_uring`. The device then reports that once on the standard error stream and works as [`Ufs`]. `AQUEDUCT_URING=off` in the
/// environment disables it. [`Capabilities::native_lists`] of an open file is true if it is in use.
///
/// ```
/// use aqueduct_device::{Device, HandleExt, DeviceOpenOptions, Segment, Uring};
///
/// let folder = tempfile::tempdir().unwrap();
/// let file = Uring::new().open(folder.path().join("a").as_os_str(), &DeviceOpenOptions::read_write().create(true))?;
/// let segments: Vec<_> = (0..100).map(|index| Segment::new(index * 8192, &[7; 4096])).collect();
/// file.write_all(&segments)?;
/// assert_eq!(file.len()?, 99 * 8192 + 4096);
/// # Ok::<_, aqueduct_device::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Uring {
    pool: Arc<RingPool>,
}

#[derive(Debug)]
struct UringHandle {
    file: UfsHandle,
    pool: Arc<RingPool>,
}

impl Uring {
    /// The device; the kernel is checked when the first file is opened.
    pub fn new() -> Self {
        Self::default()
    }

    /// The device without `io_uring`, for tests.
    pub fn refused() -> Self {
        Self { pool: Arc::new(RingPool::refused()) }
    }
}

impl Device for Uring {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        let file = UfsHandle::open(name, options)?;
        if self.pool.is_usable() {
            Ok(Arc::new(UringHandle { file, pool: Arc::clone(&self.pool) }))
        } else {
            Ok(Arc::new(file))
        }
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        Ufs.delete(name)
    }

    fn delete_in_background(&self, name: &OsStr) -> Result<()> {
        Ufs.delete_in_background(name)
    }
}

/// An open unbuffered file: its scattered lists are submitted through a ring, if available, to keep the medium busy.
pub(crate) fn open_direct(file: UfsHandle) -> Arc<dyn Handle> {
    static POOL: OnceLock<Arc<RingPool>> = OnceLock::new();
    let pool = POOL.get_or_init(Arc::default);
    if pool.has_rings().is_ok() {
        Arc::new(UringHandle { file, pool: Arc::clone(pool) })
    } else {
        Arc::new(file)
    }
}

impl UringHandle {
    /// Submits a batch to a ring. `None` if it transferred nothing without an error: no ring is available, or the end of the file.
    fn submit(&self, mut batch: UringBatch<'_>) -> Option<TransferProgress> {
        let files = RingFiles { buffered: self.file.file(), direct: self.file.direct_file() };
        self.pool.with_ring(|ring| ring.run(files, &mut batch));
        Some(batch.progress()).filter(|progress| progress.done > 0 || progress.stop.is_some())
    }

    fn is_direct(&self) -> bool {
        self.file.direct_file().is_some()
    }

    /// The path of a list.
    fn direct_strategy<E: SegmentRange>(
        &self,
        segments: &[E],
        bytes: impl Fn(&E) -> &[u8],
    ) -> DirectStrategy {
        if self.is_direct() { DirectStrategy::choose(segments, bytes) } else { DirectStrategy::Aligned }
    }

    /// Reads a list through a bounce buffer; as [`submit`](Self::submit) otherwise.
    fn read_bounced(&self, segments: &mut [SegmentMut<'_>]) -> Option<TransferProgress> {
        self.bounced(segments.len(), |from, buffer| {
            let group = bounce::group(segments, from, buffer.len() as u64);
            let segments = &mut segments[group.clone()];
            let next = self.submit(UringBatch::read(&mut bounce::places(segments, buffer), true))?;
            bounce::scatter(&buffer[..next.done as usize], segments);
            Some((group, total_mut(segments), next))
        })
    }

    /// Writes a list through a bounce buffer; as [`submit`](Self::submit) otherwise.
    fn write_bounced(&self, segments: &[Segment<'_>]) -> Option<TransferProgress> {
        self.bounced(segments.len(), |from, buffer| {
            let group = bounce::group(segments, from, buffer.len() as u64);
            let list = bounce::gather(&segments[group.clone()], buffer);
            let next = self.submit(UringBatch::write(&list, true))?;
            let size = total(&segments[group.clone()]);
            Some((group, size, next))
        })
    }

    /// Processes a list of `count` segments group by group; `each` returns the segments of the group, their size, and the progress.
    fn bounced(
        &self,
        count: usize,
        mut each: impl FnMut(usize, &mut [u8]) -> Option<(Range<usize>, u64, TransferProgress)>,
    ) -> Option<TransferProgress> {
        let mut progress = TransferProgress::default();
        self.file.with_bounce(|buffer| {
            let mut from = 0;
            while from < count
                && let Some((group, size, next)) = each(from, buffer)
                && progress.add(next, size)
                && !group.is_empty()
            {
                from = group.end;
            }
        })?;
        Some(progress).filter(|progress| progress.done > 0 || progress.stop.is_some())
    }
}

impl Handle for UringHandle {
    fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
        self.file.check_read(segments)?;
        if coalesce::is_scattered(segments) {
            let progress = match self.direct_strategy(segments, |segment| segment.bytes) {
                DirectStrategy::Aligned => self.submit(UringBatch::read(segments, self.is_direct())),
                DirectStrategy::Bounce => self.read_bounced(segments),
                DirectStrategy::Sequential => None,
            };
            if let Some(progress) = progress {
                return self.file.outcome(Operation::Read, segments, progress);
            }
        }
        self.file.read(segments)
    }

    fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
        self.file.check_write(segments)?;
        if coalesce::is_scattered(segments) {
            let progress = match self.direct_strategy(segments, |segment| segment.bytes) {
                DirectStrategy::Aligned => self.submit(UringBatch::write(segments, self.is_direct())),
                DirectStrategy::Bounce => self.write_bounced(segments),
                DirectStrategy::Sequential => None,
            };
            if let Some(progress) = progress {
                self.file.note_written(segments);
                return self.file.outcome(Operation::Write, segments, progress);
            }
        }
        self.file.write(segments)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self, scope: SyncScope) -> Result<()> {
        self.file.sync(scope)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { native_lists: true, concurrency: ring::DEPTH as u32, ..self.file.capabilities() }
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        self.file.preallocate(len)
    }

    fn start_writeback(&self, range: Range<u64>) {
        self.file.start_writeback(range);
    }

    fn extend_allocated(&self, range: Range<u64>) -> bool {
        self.file.extend_allocated(range)
    }

    fn advise_will_write(&self, range: Range<u64>) {
        self.file.advise_will_write(range);
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>> {
        self.file.lock(range, kind)
    }

    fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Result<Option<Box<dyn LockGuard + '_>>> {
        self.file.try_lock(range, kind)
    }

    fn revalidate(&self, range: Range<u64>) -> Result<()> {
        self.file.revalidate(range)
    }

    fn is_hole(&self, place: u64) -> bool {
        self.file.is_hole(place)
    }

    fn map(&self, range: Range<u64>) -> Option<Mapping> {
        self.file.map(range)
    }

    fn access_mapped(&self, access: &MappedAccess, copy: &mut dyn FnMut() -> bool) -> Result<bool> {
        self.file.access_mapped(access, copy)
    }

    fn close(self: Arc<Self>) -> Result<()> {
        Arc::into_inner(self).map_or(Ok(()), |handle| handle.file.finish())
    }
}
