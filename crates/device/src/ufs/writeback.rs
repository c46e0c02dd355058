//! Writeback of pages of a file before a sync (`sync_file_range`).
//!
//! `unsafe` here: a system call that rustix lacks.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// Starts writeback of a range. Errors are reported by the following sync: without the flags that wait, this call consumes none.
pub(super) fn start(file: BorrowedFd<'_>, range: &Range<u64>) {
    let (Ok(offset), Ok(end)) = (i64::try_from(range.start), i64::try_from(range.end)) else { return };
    if offset < end {
        // SAFETY: the descriptor is open while it is borrowed, and no memory is given.
        unsafe { libc::sync_file_range(file.as_raw_fd(), offset, end - offset, libc::SYNC_FILE_RANGE_WRITE) };
    }
}

/// Fails if bytes of a file could not be written to the medium since it was opened, or since the last report. Nothing is written, and
/// nothing is waited for: the range is past the maximum file size, and the kernel records errors for the whole file.
pub(super) fn check(file: BorrowedFd<'_>) -> Result<(), Errno> {
    const BEHIND: libc::off_t = libc::off_t::MAX - 4096;
    // SAFETY: the descriptor is open while it is borrowed, and no memory is given.
    let outcome =
        unsafe { libc::sync_file_range(file.as_raw_fd(), BEHIND, 1, libc::SYNC_FILE_RANGE_WAIT_BEFORE) };
    if outcome == 0 {
        return Ok(());
    }
    // The kernel reports an error once.
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
    fn errors_of_the_medium_are_reported_and_unsupported_calls_are_not() {
        for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::STALE, Errno::NOLINK] {
            assert!(!is_refusal(errno), "{errno}");
        }
        let (reading, _writing) = std::io::pipe().unwrap();
        assert_eq!(check(reading.as_fd()), Ok(()), "a pipe has no pages");
    }

    /// The image of the file system is on a smaller file system, so that its pages cannot be written.
    #[test]
    fn pages_that_could_not_be_written_out_are_reported_once() {
        let Some(filesystem) = TestFilesystem::mount_overcommitted() else { return };
        let path = filesystem.path().join("lost");
        let open =
            || std::fs::File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let (file, other) = (open().unwrap(), open().unwrap());
        file.write_all_at(&vec![7; 32 << 20], 0).unwrap();
        other.sync_all().expect_err("there is no space for the pages");
        let reported = check(file.as_fd()).expect_err("the error is reported once per open file description");
        assert!([Errno::IO, Errno::NOSPC].contains(&reported), "{reported}");
        assert_eq!(check(file.as_fd()), Ok(()), "the kernel reports it once");
    }
}
