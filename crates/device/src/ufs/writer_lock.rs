//! Advisory single-writer lock. Readers do not take it and are not excluded.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::file::retry;
use super::ofd_lock;
use crate::{Error, Kind, LockKind, Operation, Result};

/// The locked byte, at the maximum file size, so that no access locks it.
const LOCK_BYTE: Range<u64> = i64::MAX as u64 - 1..i64::MAX as u64;

/// The most retries for a file that is replaced concurrently. Some file systems report different inode numbers for a path and an open file: the
/// number of retries must be limited.
const ATTEMPTS: u32 = 100;

/// The writer lock of a file, held until it is dropped or the program ends.
#[derive(Debug)]
pub struct WriterLock {
    _file: OwnedFd,
}

/// Locks the file at a path for one writer, on all machines to which its file system propagates locks. [`Kind::Busy`] if it is locked; none if
/// the file system has no locks.
///
/// ```
/// use aqueduct_device::{Kind, acquire_writer_lock};
///
/// let path = std::env::temp_dir().join(format!("claimed-{}", std::process::id()));
/// std::fs::write(&path, b"mine")?;
/// let mine = acquire_writer_lock(&path)?;
/// assert_eq!(acquire_writer_lock(&path).unwrap_err().kind(), Kind::Busy);
/// assert_eq!(std::fs::read(&path)?, b"mine");
/// drop(mine);
/// assert!(acquire_writer_lock(&path)?.is_some());
/// std::fs::remove_file(&path)?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn acquire_writer_lock(path: &Path) -> Result<Option<WriterLock>> {
    claim_opened(path, || open(path, OFlags::RDWR))
}

/// Locks the file that `open` opens, and retries if the path refers to another file afterwards: the lock of a replaced file has no effect.
fn claim_opened(
    path: &Path,
    mut open: impl FnMut() -> std::result::Result<OwnedFd, Errno>,
) -> Result<Option<WriterLock>> {
    let fail = |errno: Errno| Error::from_io(errno.into(), Operation::Lock, path);
    for attempt in 1.. {
        let file = open().map_err(fail)?;
        let locked = ofd_lock::try_lock(file.as_fd(), &LOCK_BYTE, LockKind::Exclusive);
        let decides = matches!(locked, Ok(()) | Err(Errno::AGAIN | Errno::ACCESS));
        if decides && attempt < ATTEMPTS && !is_at(file.as_fd(), path).map_err(fail)? {
            continue;
        }
        match locked {
            Ok(()) => return Ok(Some(WriterLock { _file: file })),
            Err(Errno::AGAIN | Errno::ACCESS) => return Err(busy(path)),
            Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => return Ok(None),
            Err(errno) => return Err(fail(errno)),
        }
    }
    Ok(None)
}

/// Fails with [`Kind::Busy`] if the file at a path is [locked](acquire_writer_lock). It takes no lock.
pub fn check_unclaimed(path: &Path) -> Result<()> {
    let fail = |errno: Errno| Error::from_io(errno.into(), Operation::Lock, path);
    let file = open(path, OFlags::RDONLY).map_err(fail)?;
    match ofd_lock::is_locked(file.as_fd(), &LOCK_BYTE) {
        Ok(true) => Err(busy(path)),
        Ok(false) | Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => Ok(()),
        Err(errno) => Err(fail(errno)),
    }
}

fn open(path: &Path, access: OFlags) -> std::result::Result<OwnedFd, Errno> {
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
    retry(|| rustix::fs::open(path, flags, Mode::empty()))
}

/// True if the path still refers to this file.
fn is_at(file: BorrowedFd<'_>, path: &Path) -> std::result::Result<bool, Errno> {
    let own = rustix::fs::fstat(file)?;
    match retry(|| rustix::fs::stat(path)) {
        Ok(there) => Ok((own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)),
        // Opening it again reports that.
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn busy(path: &Path) -> Error {
    let error = Error::new(Kind::Busy, Operation::Lock, path);
    error.advise(
        "another program, or this one, has it open for writing: close it there first, or write another file",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is replaced between its opening and its lock.
    #[test]
    fn the_lock_is_on_the_file_that_the_path_refers_to() {
        let folder = tempfile::tempdir().unwrap();
        let (path, new) = (folder.path().join("file"), folder.path().join("new"));
        std::fs::write(&path, "old").unwrap();
        let old_claim = acquire_writer_lock(&path).unwrap();
        for holder in [old_claim, None] {
            std::fs::write(&new, "new").unwrap();
            let mut times = 0;
            let opened = || {
                let file = open(&path, OFlags::RDWR);
                times += 1;
                if times == 1 {
                    std::fs::rename(&new, &path).unwrap();
                }
                file
            };
            let claimed = claim_opened(&path, opened).unwrap();
            assert!(claimed.is_some() && times == 2);
            assert_eq!(acquire_writer_lock(&path).unwrap_err().kind(), Kind::Busy, "the new file is locked");
            drop((claimed, holder));
        }
        // One that is deleted instead is missing.
        let opened = || {
            let file = open(&path, OFlags::RDWR);
            let _ = std::fs::remove_file(&path);
            file
        };
        assert_eq!(claim_opened(&path, opened).unwrap_err().kind(), Kind::NotFound);
    }

    #[test]
    fn check_unclaimed_takes_no_lock() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path();
        check_unclaimed(path).unwrap();
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| (0..5000).for_each(|_| _ = check_unclaimed(path)));
            while !looking.is_finished() {
                drop(acquire_writer_lock(path).unwrap());
            }
        });
        let claimed = acquire_writer_lock(path).unwrap();
        assert_eq!(check_unclaimed(path).unwrap_err().kind(), Kind::Busy);
        drop(claimed);
        check_unclaimed(path).unwrap();
    }
}
