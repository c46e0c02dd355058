//! Byte-range locks between the threads of this process.
//!
//! Requests are queued in the order of arrival: one is granted when no earlier conflicting request is held or
//! waiting. Neither readers nor writers starve, and requests that do not overlap never wait for each other.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::syscalls::count_lock_wait;
use crate::{LockGuard, LockKind};

/// A table of byte-range locks.
///
/// A thread that requests a range that conflicts with one it holds deadlocks.
///
/// ```
/// use aqueduct_device::{LockKind, RangeLocks};
///
/// let locks = RangeLocks::default();
/// let reader = locks.lock(0..10, LockKind::Shared);
/// assert!(locks.try_lock(5..15, LockKind::Shared).is_some());
/// assert!(locks.try_lock(5..15, LockKind::Exclusive).is_none());
/// drop(reader);
/// assert!(locks.try_lock(5..15, LockKind::Exclusive).is_some());
/// ```
#[derive(Debug, Default)]
pub struct RangeLocks {
    queue: Mutex<LockQueue>,
    released: Condvar,
}

/// Requests held and waiting, oldest first.
#[derive(Debug, Default)]
struct LockQueue {
    next: u64,
    requests: Vec<LockRequest>,
}

#[derive(Debug)]
struct LockRequest {
    id: u64,
    range: Range<u64>,
    kind: LockKind,
}

/// A range held in a [`RangeLocks`]; dropping it releases the range.
#[derive(Debug)]
pub struct RangeGuard<'a> {
    locks: &'a RangeLocks,
    id: u64,
}

impl RangeLocks {
    /// Waits until no conflicting request is before this one, and holds the range until the guard is dropped.
    ///
    /// An empty range conflicts with nothing.
    pub fn lock(&self, range: Range<u64>, kind: LockKind) -> RangeGuard<'_> {
        let mut queue = self.queue();
        let id = queue.enter(range, kind);
        if !queue.is_granted(id) {
            count_lock_wait();
        }
        while !queue.is_granted(id) {
            queue = self.released.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        RangeGuard { locks: self, id }
    }

    /// Holds the range if that needs no wait.
    pub fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Option<RangeGuard<'_>> {
        let mut queue = self.queue();
        let id = queue.enter(range, kind);
        if queue.is_granted(id) {
            return Some(RangeGuard { locks: self, id });
        }
        queue.leave(id);
        None
    }

    fn queue(&self) -> MutexGuard<'_, LockQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LockQueue {
    fn enter(&mut self, range: Range<u64>, kind: LockKind) -> u64 {
        let id = self.next;
        self.next += 1;
        self.requests.push(LockRequest { id, range, kind });
        id
    }

    fn leave(&mut self, id: u64) {
        self.requests.retain(|request| request.id != id);
    }

    fn is_granted(&self, id: u64) -> bool {
        let Some(at) = self.requests.iter().position(|request| request.id == id) else { return true };
        let mine = &self.requests[at];
        !self.requests[..at].iter().any(|earlier| earlier.conflicts(mine))
    }
}

impl LockRequest {
    fn conflicts(&self, other: &Self) -> bool {
        let overlap = self.range.start.max(other.range.start) < self.range.end.min(other.range.end);
        overlap && (self.kind == LockKind::Exclusive || other.kind == LockKind::Exclusive)
    }
}

impl LockGuard for RangeGuard<'_> {}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        self.locks.queue().leave(self.id);
        self.locks.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn ranges_conflict_where_they_overlap_and_one_writes() {
        let locks = RangeLocks::default();
        let _held = locks.lock(10..20, LockKind::Exclusive);
        assert!(locks.try_lock(0..10, LockKind::Exclusive).is_some());
        assert!(locks.try_lock(20..30, LockKind::Exclusive).is_some());
        assert!(locks.try_lock(19..30, LockKind::Shared).is_none());
        assert!(
            locks.try_lock(15..15, LockKind::Exclusive).is_some(),
            "an empty range conflicts with nothing"
        );
        assert!(locks.try_lock(0..u64::MAX, LockKind::Shared).is_none());
    }

    #[test]
    fn a_waiting_writer_goes_before_later_readers() {
        let locks = RangeLocks::default();
        let reader = locks.lock(0..10, LockKind::Shared);
        thread::scope(|scope| {
            let writer = scope.spawn(|| drop(locks.lock(0..10, LockKind::Exclusive)));
            while locks.queue().requests.len() < 2 {
                thread::yield_now();
            }
            assert!(locks.try_lock(0..10, LockKind::Shared).is_none());
            drop(reader);
            writer.join().unwrap();
        });
        assert!(locks.try_lock(0..10, LockKind::Shared).is_some());
    }

    #[test]
    fn exclusive_locks_exclude_each_other() {
        let (locks, inside) = (RangeLocks::default(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for start in 0..4 {
                let (locks, inside) = (&locks, &inside);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let _guard = locks.lock(start..start + 10, LockKind::Exclusive);
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
    }
}
