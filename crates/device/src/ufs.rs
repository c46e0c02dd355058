//! `ufs`: files of the operating system, by positioned and vectored calls.
//!
//! Adjacent segments of a list are transferred by one `preadv` or `pwritev` of up to 1024 segments; a single segment by `pread`
//! or `pwrite`. Interrupted and short calls are continued.

mod background_delete;
mod close;
mod direct;
mod file;
mod handle;
mod locks;
mod ofd_lock;
pub(crate) mod vectored;
mod write_behind;
mod writeback;
mod writer_lock;

use std::ffi::OsStr;
use std::sync::Arc;

pub(crate) use handle::UfsHandle;
pub use writer_lock::{WriterLock, acquire_writer_lock, check_unclaimed};

use crate::{Device, DeviceOpenOptions, Handle, Result, uring};

/// Files of the operating system.
///
/// # Unbuffered access
/// With [`DeviceOpenOptions::direct`] the file is opened a second time with `O_DIRECT`. Whole blocks of 4096 bytes bypass the page cache, through a
/// bounce buffer if the caller's memory is not aligned; the edges of an access, smaller than a block, use the buffered
/// descriptor. The kernel keeps the two coherent. A file system that refuses `O_DIRECT` is used buffered;
/// see [`Capabilities::alignment`](crate::Capabilities::alignment). Scattered lists have many operations in flight, as with
/// [`Uring`](crate::Uring), if the kernel allows it.
///
/// # Locks
/// A range is locked between the threads of this process first and then, with an open-file-description lock, between processes. Exclusive
/// locks need a writable handle. A write-only handle gets an exclusive lock instead of a shared one.
///
/// # After a failed sync
/// The kernel may have dropped data that it could not write and reports that only once. The handle then rejects
/// writes and syncs: unsynced data must be written again through a new one.
///
/// ```
/// use aqueduct_device::{Device, HandleExt, DeviceOpenOptions, SyncScope, Ufs};
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("out.bin");
/// let file = Ufs.open(path.as_os_str(), &DeviceOpenOptions::read_write().create(true))?;
/// file.write_at(1 << 20, b"after a hole!")?;
/// file.sync(SyncScope::Entry)?;
/// assert_eq!(file.len()?, (1 << 20) + 13);
/// # Ok::<_, aqueduct_device::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ufs;

impl Device for Ufs {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        let file = UfsHandle::open(name, options)?;
        Ok(if file.direct_file().is_some() { uring::open_direct(file) } else { Arc::new(file) })
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        background_delete::delete(name)
    }

    fn delete_in_background(&self, name: &OsStr) -> Result<()> {
        background_delete::delete_in_background(name)
    }
}
