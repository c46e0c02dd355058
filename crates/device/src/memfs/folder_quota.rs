//! The memory limit of files in a folder that several processes write.
//!
//! The kernel counts what each file takes; the sum is the truth, but it is too expensive to ask for it at every write. A process
//! therefore takes a part of what is left as an allowance and asks again when it has used that up. Every process that writes at the
//! same time may exceed the limit by its allowance, a sixteenth of what was left, and at most 16 MiB.

use std::fs;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::SeekFrom;

use crate::units::ByteSize;
use crate::{SegmentRange, available_memory};

/// The unit in which tmpfs allocates.
const PAGE: u64 = 4096;

/// The largest allowance.
const LARGEST_ALLOWANCE: u64 = 16 << 20;

/// A limit on the memory of all files of a folder.
#[derive(Debug)]
pub(super) struct FolderQuota {
    folder: PathBuf,
    given: Option<u64>,
    limit: OnceLock<u64>,
    /// What this process may write before it counts again.
    allowance: Mutex<u64>,
}

impl FolderQuota {
    pub(super) fn new(folder: PathBuf, limit: Option<u64>) -> Self {
        Self { folder, given: limit, limit: OnceLock::new(), allowance: Mutex::new(0) }
    }

    /// The memory that all files take.
    fn used(&self) -> u64 {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|stat| stat.blocks() * 512).sum()
    }

    /// The limit in bytes.
    pub(super) fn limit(&self) -> u64 {
        *self.limit.get_or_init(|| {
            let from_environment = || {
                let text = std::env::var("AQUEDUCT_MEMFS").ok()?;
                Some(text.parse::<ByteSize>().ok()?.0)
            };
            self.given
                .or_else(from_environment)
                .unwrap_or_else(|| u64::midpoint(available_memory(), self.used()))
        })
    }

    /// What is left of the limit.
    fn left(&self) -> u64 {
        self.limit().saturating_sub(self.used())
    }

    /// True if `bytes` more can be allocated as far as is known without looking at what is already allocated.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let mut allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        if *allowance < bytes {
            let left = self.left();
            if left < bytes {
                *allowance = 0;
                return false;
            }
            *allowance = bytes.max((left / 16).min(LARGEST_ALLOWANCE));
        }
        *allowance -= bytes;
        true
    }

    /// How many bytes of a list can be written: those that are allocated already need no more memory.
    pub(super) fn fitting<E: SegmentRange>(&self, file: BorrowedFd<'_>, segments: &[E]) -> u64 {
        let mut left = self.left() / PAGE * PAGE;
        let (mut fitting, mut counted) = (0, 0..0);
        for segment in segments.iter().filter(|segment| segment.size() > 0) {
            for hole in holes(file, segment.start()..segment.end()) {
                // The page at which the segment before ended was counted with it.
                let start =
                    if counted.contains(&hole.start) { counted.end.min(hole.end) } else { hole.start };
                if hole.end - start > left {
                    return fitting + (start + left).saturating_sub(segment.start()).min(segment.size());
                }
                left -= hole.end - start;
                counted = hole;
            }
            fitting += segment.size();
        }
        fitting
    }
}

/// The bytes of a range, in whole pages, that have no memory yet.
pub(super) fn unallocated(file: BorrowedFd<'_>, range: Range<u64>) -> u64 {
    holes(file, range).map(|hole| hole.end - hole.start).sum()
}

/// The holes of a range, in whole pages.
fn holes(file: BorrowedFd<'_>, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end.next_multiple_of(PAGE);
    let mut at = range.start / PAGE * PAGE;
    std::iter::from_fn(move || {
        while at < end {
            // After the end of the file there is neither data nor a hole, but no memory either.
            let hole = rustix::fs::seek(file, SeekFrom::Hole(at)).map_or(at, |hole| hole.max(at));
            let data = rustix::fs::seek(file, SeekFrom::Data(at.max(hole))).unwrap_or(end);
            let found = hole / PAGE * PAGE..data.min(end);
            at = data.max(at + PAGE);
            if found.start < found.end {
                return Some(found);
            }
        }
        None
    })
}
