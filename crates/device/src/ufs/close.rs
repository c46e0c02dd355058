//! Closing a descriptor with its result: network file systems report a full disk, a quota or an error of the medium only on close.
//!
//! `unsafe` here: a close that returns its result, which the standard library's does not.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;

/// Closes a descriptor. It is closed even if the call is interrupted (close(2)).
pub(super) fn close(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor is this function's alone, and is not used again.
    if unsafe { libc::close(file.into_raw_fd()) } == 0 {
        return Ok(());
    }
    match Errno::from_io_error(&std::io::Error::last_os_error()) {
        Some(Errno::INTR) => Ok(()),
        errno => Err(errno.unwrap_or(Errno::IO)),
    }
}

/// Checks that the file system of a file is writable: one that was shut down after an error (ext4, xfs), or has become read-only (btrfs),
/// refuses to open the file again. Stores to mapped pages do not fail then.
pub(super) fn check_alive(file: BorrowedFd<'_>) -> Result<(), Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let open = |access| rustix::fs::open(&path, access | OFlags::CLOEXEC, Mode::empty()).map(drop);
    let outcome = match open(OFlags::RDWR) {
        // The mode of the file was changed since. Only writers get the error of a read-only file system.
        Err(Errno::ACCESS) if is_read_only(file) => Err(Errno::ROFS),
        Err(Errno::ACCESS) => open(OFlags::RDONLY),
        outcome => outcome,
    };
    // Any other refusal is about permissions or limits of the process.
    outcome.or_else(|errno| if [Errno::IO, Errno::ROFS].contains(&errno) { Err(errno) } else { Ok(()) })
}

fn is_read_only(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatvfs(file).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY))
}
