//! `uring`: files of the operating system with many operations in flight, through `io_uring`.
//!
//! Everything but lists of scattered pieces is that of `ufs`: the same names, modes, locks, syncs and errors. The runs of
//! a list are handed to the kernel together and complete in any order; the count reported is still the longest prefix.

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
/// A list of scattered pieces goes to the kernel as a whole, up to 256 runs in flight at once; a list that is one run is a plain call as in [`Ufs`].
/// With [`DeviceOpenOptions::direct`] lists of whole blocks go past the page cache like that, through a bounce buffer where memory is not aligned; others
/// as in [`Ufs`].
///
/// # Where the kernel refuses
/// Many sites forbid `io_uring`. The device then says so once on the standard error stream and works as [`Ufs`]. `AQUEDUCT_URING=off` in the
/// environment has it refused without asking. [`Capabilities::native_lists`] of an open file tells which it is.
///
/// ```
/// use aqueduct_device::{Device, HandleExt, DeviceOpenOptions, Segment, Uring};
///
/// let folder = tempfile::tempdir().unwrap();
/// let file = Uring::new().open(folder.path().join("a").as_os_str(), &DeviceOpenOptions::read_write().create(true))?;
/// let pieces: Vec<_> = (0..100).map(|index| Segment::new(index * 8192, &[7; 4096])).collect();
/// file.write_all(&pieces)?;
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
    /// The device; the kernel is asked when the first file is opened.
    pub fn new() -> Self {
        Self::default()
    }

    /// The device as it is where the kernel refuses: for tests of that.
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

/// An open file past the page cache: its scattered lists go through a ring, if there are any, so that the medium has something to do.
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
    /// Hands a batch to a ring. `None` if nothing came of it, neither bytes nor an error: no ring to be had, or the end of the file.
    fn submit(&self, mut batch: UringBatch<'_>) -> Option<TransferProgress> {
        let files = RingFiles { buffered: self.file.file(), direct: self.file.direct_file() };
        self.pool.with_ring(|ring| ring.run(files, &mut batch));
        Some(batch.progress()).filter(|progress| progress.done > 0 || progress.stop.is_some())
    }

    fn is_direct(&self) -> bool {
        self.file.direct_file().is_some()
    }

    /// How a list goes.
    fn direct_strategy<E: SegmentRange>(&self, pieces: &[E], bytes: impl Fn(&E) -> &[u8]) -> DirectStrategy {
        if self.is_direct() { DirectStrategy::choose(pieces, bytes) } else { DirectStrategy::Aligned }
    }

    /// Reads a list through a bounce buffer; as [`submit`](Self::submit) otherwise.
    fn read_bounced(&self, pieces: &mut [SegmentMut<'_>]) -> Option<TransferProgress> {
        self.bounced(pieces.len(), |from, buffer| {
            let group = bounce::group(pieces, from, buffer.len() as u64);
            let pieces = &mut pieces[group.clone()];
            let next = self.submit(UringBatch::read(&mut bounce::places(pieces, buffer), true))?;
            bounce::scatter(&buffer[..next.done as usize], pieces);
            Some((group, total_mut(pieces), next))
        })
    }

    /// Writes a list through a bounce buffer; as [`submit`](Self::submit) otherwise.
    fn write_bounced(&self, pieces: &[Segment<'_>]) -> Option<TransferProgress> {
        self.bounced(pieces.len(), |from, buffer| {
            let group = bounce::group(pieces, from, buffer.len() as u64);
            let list = bounce::gather(&pieces[group.clone()], buffer);
            let next = self.submit(UringBatch::write(&list, true))?;
            let size = total(&pieces[group.clone()]);
            Some((group, size, next))
        })
    }

    /// Goes through a list of `count` pieces group by group; `each` says which, of which size, and how far it came.
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
    fn read(&self, pieces: &mut [SegmentMut<'_>]) -> Result<u64> {
        self.file.check_read(pieces)?;
        if coalesce::is_scattered(pieces) {
            let progress = match self.direct_strategy(pieces, |piece| piece.bytes) {
                DirectStrategy::Aligned => self.submit(UringBatch::read(pieces, self.is_direct())),
                DirectStrategy::Bounce => self.read_bounced(pieces),
                DirectStrategy::Sequential => None,
            };
            if let Some(progress) = progress {
                return self.file.outcome(Operation::Read, pieces, progress);
            }
        }
        self.file.read(pieces)
    }

    fn write(&self, pieces: &[Segment<'_>]) -> Result<u64> {
        self.file.check_write(pieces)?;
        if coalesce::is_scattered(pieces) {
            let progress = match self.direct_strategy(pieces, |piece| piece.bytes) {
                DirectStrategy::Aligned => self.submit(UringBatch::write(pieces, self.is_direct())),
                DirectStrategy::Bounce => self.write_bounced(pieces),
                DirectStrategy::Sequential => None,
            };
            if let Some(progress) = progress {
                self.file.note_written(pieces);
                return self.file.outcome(Operation::Write, pieces, progress);
            }
        }
        self.file.write(pieces)
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
