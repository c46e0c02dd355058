//! Pages of a file on their way to the disk before a sync asks for them.
//!
//! `unsafe` here: a system call that rustix lacks.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Begins to write a range out. Errors are left to the sync that follows, which learns of them by itself: without the flags that wait, none is taken from it.
pub(super) fn start(file: BorrowedFd<'_>, range: &Range<u64>) {
    let (Ok(offset), Ok(end)) = (i64::try_from(range.start), i64::try_from(range.end)) else { return };
    if offset < end {
        // SAFETY: the descriptor is open while it is borrowed, and no memory is given.
        unsafe { libc::sync_file_range(file.as_raw_fd(), offset, end - offset, libc::SYNC_FILE_RANGE_WRITE) };
    }
}
