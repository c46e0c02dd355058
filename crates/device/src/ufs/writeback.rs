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

/// Whether bytes of a file could not be written to the medium since it was opened, or since that was reported last. Nothing is written out, and
/// nothing is waited for: the range lies behind every file, and the error that the kernel keeps is that of the whole file.
pub(super) fn check(file: BorrowedFd<'_>) -> Result<(), Errno> {
    const BEHIND: libc::off_t = libc::off_t::MAX - 4096;
    // SAFETY: the descriptor is open while it is borrowed, and no memory is given.
    let outcome =
        unsafe { libc::sync_file_range(file.as_raw_fd(), BEHIND, 1, libc::SYNC_FILE_RANGE_WAIT_BEFORE) };
    if outcome == 0 {
        return Ok(());
    }
    // The kernel tells of an error once.
    let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
    if is_refusal(errno) { Ok(()) } else { Err(errno) }
}

/// Whether an error says that the call is not possible here, and nothing about the medium.
fn is_refusal(errno: Errno) -> bool {
    let refusals = [Errno::INVAL, Errno::SPIPE, Errno::NOSYS, Errno::PERM, Errno::BADF, Errno::NOMEM];
    refusals.contains(&errno)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use aqueduct_testkit::filesystem::TestFilesystem;

    use super::*;

    #[test]
    fn every_error_but_refusals_of_the_call_is_reported() {
        for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::STALE, Errno::NOLINK] {
            assert!(!is_refusal(errno), "{errno}");
        }
        let (reading, _writing) = std::io::pipe().unwrap();
        assert_eq!(check(reading.as_fd()), Ok(()), "a pipe has no pages");
    }

    /// The image of the file system lies on a smaller one, so that its pages cannot be written out.
    #[test]
    fn pages_that_could_not_be_written_out_are_reported_once() {
        let Some(filesystem) = TestFilesystem::mount_overcommitted() else { return };
        let path = filesystem.path().join("lost");
        let open =
            || std::fs::File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let (file, other) = (open().unwrap(), open().unwrap());
        file.write_all_at(&vec![7; 32 << 20], 0).unwrap();
        other.sync_all().expect_err("there is no room for the pages");
        let reported = check(file.as_fd()).expect_err("each opening of the file is told");
        assert!([Errno::IO, Errno::NOSPC].contains(&reported), "{reported}");
        assert_eq!(check(file.as_fd()), Ok(()), "the kernel tells of it once");
    }
}
