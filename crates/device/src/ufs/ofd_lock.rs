//! Open-file-description locks: held by one opening of a file, seen by all other openings on the machine.
//!
//! `unsafe` here: rustix has only the older locks, which any close of the file by the process drops.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::LockKind;
use crate::syscalls::count_lock_wait;

/// Waits until the range can be locked, and locks it.
pub(super) fn lock(file: BorrowedFd<'_>, range: &Range<u64>, kind: LockKind) -> Result<(), Errno> {
    match try_lock(file, range, kind) {
        Err(Errno::AGAIN | Errno::ACCESS) => count_lock_wait(),
        outcome => return outcome,
    }
    loop {
        match control(file, libc::F_OFD_SETLKW, code(kind), range) {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

/// Locks the range if that needs no wait.
pub(super) fn try_lock(file: BorrowedFd<'_>, range: &Range<u64>, kind: LockKind) -> Result<(), Errno> {
    control(file, libc::F_OFD_SETLK, code(kind), range)
}

/// Whether another opening keeps an exclusive lock of the range from being taken; takes none.
pub(super) fn is_locked(file: BorrowedFd<'_>, range: &Range<u64>) -> Result<bool, Errno> {
    let mut lock = flock(libc::F_WRLCK, range)?;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel uses the structure only during the call.
    let outcome = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    if outcome == -1 { Err(last_error()) } else { Ok(i32::from(lock.l_type) != libc::F_UNLCK) }
}

/// Unlocks the range.
pub(super) fn unlock(file: BorrowedFd<'_>, range: &Range<u64>) -> Result<(), Errno> {
    control(file, libc::F_OFD_SETLK, libc::F_UNLCK, range)
}

fn code(kind: LockKind) -> i32 {
    match kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    }
}

/// A range that reaches the largest offset is passed to the kernel as unbounded.
fn control(file: BorrowedFd<'_>, command: i32, kind: i32, range: &Range<u64>) -> Result<(), Errno> {
    if range.is_empty() {
        return Ok(());
    }
    let lock = flock(kind, range)?;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel reads the structure only during the call.
    let outcome = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) };
    if outcome == -1 { Err(last_error()) } else { Ok(()) }
}

fn flock(kind: i32, range: &Range<u64>) -> Result<libc::flock, Errno> {
    let start = libc::off_t::try_from(range.start).map_err(|_| Errno::INVAL)?;
    let end = libc::off_t::try_from(range.end).unwrap_or(libc::off_t::MAX);
    Ok(libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: if end == libc::off_t::MAX { 0 } else { end - start },
        l_pid: 0,
    })
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
