//! Range locks of a file: between the threads of this process first, then between processes.
//!
//! The lock of the operating system belongs to the open file description, so to all threads that use one handle: it neither
//! excludes them nor counts how many of them share a range. The process-wide table does the first; the list of ranges that
//! the handle holds does the second: only ranges that no other guard of the handle covers are unlocked.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::io::Errno;

use super::ofd_lock;
use crate::lock::RangeGuard;
use crate::{LockGuard, LockKind, RangeLocks};

/// The identity of a file: device and inode number.
type Identity = (u64, u64);

/// The tables of all files that this process has open.
static TABLES: Mutex<BTreeMap<Identity, Weak<RangeLocks>>> = Mutex::new(BTreeMap::new());

/// The locks of one handle.
#[derive(Debug)]
pub(super) struct FileLocks {
    identity: Identity,
    table: Arc<RangeLocks>,
    /// What the guards of this handle hold or are about to hold of the operating system.
    held: Mutex<Vec<Range<u64>>>,
}

/// A range held among threads and processes.
struct FileGuard<'a> {
    locks: &'a FileLocks,
    file: BorrowedFd<'a>,
    range: Range<u64>,
    /// Released after the lock of the system, so that no thread of this process gets the range while it is being unlocked.
    _threads: RangeGuard<'a>,
}

impl FileLocks {
    /// The locks of a new handle on the file with this device and inode number.
    pub(super) fn new(device: u64, inode: u64) -> Self {
        let identity = (device, inode);
        let mut tables = locked(&TABLES);
        let table = tables.get(&identity).and_then(Weak::upgrade).unwrap_or_default();
        tables.insert(identity, Arc::downgrade(&table));
        Self { identity, table, held: Mutex::default() }
    }

    /// Waits for the range and holds it until the guard is dropped.
    pub(super) fn lock<'a>(
        &'a self,
        file: BorrowedFd<'a>,
        range: Range<u64>,
        kind: LockKind,
    ) -> Result<Box<dyn LockGuard + 'a>, Errno> {
        let threads = self.table.lock(range.clone(), kind);
        locked(&self.held).push(range.clone());
        // The guard exists before the system call: if that fails, dropping it cleans up.
        let guard = FileGuard { locks: self, file, range, _threads: threads };
        ofd_lock::lock(file, &guard.range, kind)?;
        Ok(Box::new(guard))
    }
}

impl FileLocks {
    /// As [`lock`](Self::lock), without waiting: none if it is locked.
    pub(super) fn try_lock<'a>(
        &'a self,
        file: BorrowedFd<'a>,
        range: Range<u64>,
        kind: LockKind,
    ) -> Result<Option<Box<dyn LockGuard + 'a>>, Errno> {
        let Some(threads) = self.table.try_lock(range.clone(), kind) else { return Ok(None) };
        locked(&self.held).push(range.clone());
        let guard = FileGuard { locks: self, file, range, _threads: threads };
        match ofd_lock::try_lock(file, &guard.range, kind) {
            Ok(()) => Ok(Some(Box::new(guard))),
            Err(Errno::AGAIN | Errno::ACCESS) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for FileLocks {
    fn drop(&mut self) {
        let mut tables = locked(&TABLES);
        if Arc::strong_count(&self.table) == 1 {
            tables.remove(&self.identity);
        }
    }
}

impl LockGuard for FileGuard<'_> {}

impl Drop for FileGuard<'_> {
    fn drop(&mut self) {
        let mut held = locked(&self.locks.held);
        if let Some(at) = held.iter().position(|range| *range == self.range) {
            held.swap_remove(at);
        }
        for free in uncovered(self.range.clone(), &held) {
            // Unlocking fails only if locking did.
            let _ = ofd_lock::unlock(self.file, &free);
        }
    }
}

/// The parts of `range` that none of `others` covers.
fn uncovered(range: Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut parts = vec![range];
    for other in others.iter().filter(|other| !other.is_empty()) {
        let cut =
            |part: Range<u64>| [part.start..part.end.min(other.start), part.start.max(other.end)..part.end];
        parts = parts.into_iter().flat_map(cut).filter(|part| !part.is_empty()).collect();
    }
    parts
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn ranges_covered_by_other_guards_are_left_out() {
        let left = |range: Range<u64>, others: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let others: Vec<_> = others.iter().map(|&(start, end)| start..end).collect();
            uncovered(range, &others).into_iter().map(|part| (part.start, part.end)).collect()
        };
        assert_eq!(left(0..10, &[]), [(0, 10)]);
        assert_eq!(left(0..10, &[(20, 30), (10, 12)]), [(0, 10)]);
        assert_eq!(left(0..10, &[(3, 5), (8, 20)]), [(0, 3), (5, 8)]);
        assert_eq!(left(5..10, &[(0, 6), (7, 7)]), [(6, 10)]);
        assert_eq!(left(5..10, &[(0, 7), (7, 10)]), []);
    }

    #[test]
    fn a_shared_range_stays_locked_until_its_last_guard_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let open = || {
            std::fs::File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap()
        };
        // The second description stands for another process: it does not use the table.
        let (mine, foreign) = (open(), open());
        let locks = FileLocks::new(0, u64::MAX);
        let first = locks.lock(mine.as_fd(), 0..10, LockKind::Shared).unwrap();
        let second = locks.lock(mine.as_fd(), 5..15, LockKind::Shared).unwrap();
        drop(first);
        assert!(is_free(&foreign, 0..5));
        assert!(!is_free(&foreign, 5..6));
        assert!(!is_free(&foreign, 14..15));
        drop(second);
        assert!(is_free(&foreign, 0..15));
    }

    #[test]
    fn handles_of_one_file_share_a_table_until_the_last_is_closed() {
        let identity = (1, u64::MAX - 1);
        let (a, b) = (FileLocks::new(identity.0, identity.1), FileLocks::new(identity.0, identity.1));
        assert!(Arc::ptr_eq(&a.table, &b.table));
        drop(a);
        assert!(locked(&TABLES).contains_key(&identity));
        drop(b);
        assert!(!locked(&TABLES).contains_key(&identity));
    }

    /// Whether this description could lock the range for writing at once.
    fn is_free(file: &std::fs::File, range: Range<u64>) -> bool {
        ofd_lock::try_lock(file.as_fd(), &range, LockKind::Exclusive)
            .is_ok_and(|()| ofd_lock::unlock(file.as_fd(), &range).is_ok())
    }
}
