//! Pages of a file on their way to the disk before a sync asks for them.
//!
//! `unsafe` here: a system call that rustix lacks.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// Begins to write a range out. Errors are left to the sync that follows, which learns of them by itself: without the flags that wait, none is taken from it.
pub(super) fn start(file: BorrowedFd<'_>, range: &Range<u64>) {
    let (Ok(offset), Ok(end)) = (i64::try_from(range.start), i64::try_from(range.end)) else { return };
    if offset < end {
        // SAFETY: the descriptor is open while it is borrowed, and no memory is given.
        unsafe { libc::sync_file_range(file.as_raw_fd(), offset, end - offset, libc::SYNC_FILE_RANGE_WRITE) };
    }
}

/// Whether bytes of a file could not be written to the medium since it was opened, or since that was reported last. Nothing is written out.
pub(super) fn check(file: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the descriptor is open while it is borrowed, and no memory is given.
    let outcome = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 1, libc::SYNC_FILE_RANGE_WAIT_BEFORE) };
    if outcome == 0 {
        return Ok(());
    }
    match Errno::from_io_error(&std::io::Error::last_os_error()) {
        Some(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT)) => Err(errno),
        // The file system does not tell.
        _ => Ok(()),
    }
}
