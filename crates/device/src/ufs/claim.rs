//! A file that one program changes alone, as long as all who want to change it ask here first. Readers do not ask, and are not kept out.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::file::retry;
use super::ofd;
use crate::{Error, Kind, LockKind, Operation, Result};

/// The byte that stands for the whole file: behind the last that a file can have, so that no access locks it.
const PLACE: Range<u64> = i64::MAX as u64 - 1..i64::MAX as u64;

/// The right to change a file, until it is dropped or the program ends.
#[derive(Debug)]
pub struct Claim {
    _file: OwnedFd,
}

/// Claims the file at a path, for one opening on all machines that its file system tells of locks. [`Kind::Busy`] if another one has it; none where
/// the file system has no locks.
///
/// ```
/// use aqueduct_device::{Kind, claim};
///
/// let path = std::env::temp_dir().join(format!("claimed-{}", std::process::id()));
/// std::fs::write(&path, b"mine")?;
/// let mine = claim(&path)?;
/// assert_eq!(claim(&path).unwrap_err().kind(), Kind::Busy);
/// assert_eq!(std::fs::read(&path)?, b"mine");
/// drop(mine);
/// assert!(claim(&path)?.is_some());
/// std::fs::remove_file(&path)?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn claim(path: &Path) -> Result<Option<Claim>> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fail = |errno: Errno| Error::from_io(errno.into(), Operation::Lock, path);
    let file = retry(|| rustix::fs::open(path, flags, Mode::empty())).map_err(fail)?;
    match ofd::try_lock(file.as_fd(), &PLACE, LockKind::Exclusive) {
        Ok(()) => Ok(Some(Claim { _file: file })),
        Err(Errno::AGAIN | Errno::ACCESS) => {
            let error = Error::new(Kind::Busy, Operation::Lock, path);
            Err(error.advise("another program, or this one, has it open for writing: close it there first, or write another file"))
        }
        Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => Ok(None),
        Err(errno) => Err(fail(errno)),
    }
}
