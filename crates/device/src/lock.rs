//! Byte-range locks between the threads of this process, with waits that sleep.
//!
//! Requests queue in the order they come: one is granted when no earlier request that conflicts with it is left, held or
//! waiting. So neither readers starve writers nor the other way round, and requests that do not overlap never wait for each other.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::syscalls::count_lock_wait;
use crate::{LockGuard, LockKind};

/// A table of byte-range locks.
///
/// A thread that asks for a range it already holds in a conflicting way waits for itself: don't.
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
    ticket: u64,
    range: Range<u64>,
    kind: LockKind,
}

/// A range held in a [`RangeLocks`]; dropping it releases the range.
#[derive(Debug)]
pub struct RangeGuard<'a> {
    locks: &'a RangeLocks,
    ticket: u64,
}

impl RangeLocks {
    /// Waits until no conflicting request is before this one, and holds the range until the guard is dropped.
    ///
    /// An empty range conflicts with nothing.
    pub fn lock(&self, range: Range<u64>, kind: LockKind) -> RangeGuard<'_> {
        let mut queue = self.queue();
        let ticket = queue.enter(range, kind);
        if !queue.is_granted(ticket) {
            count_lock_wait();
        }
        while !queue.is_granted(ticket) {
            queue = self.released.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        RangeGuard { locks: self, ticket }
    }

    /// Holds the range if that needs no wait.
    pub fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Option<RangeGuard<'_>> {
        let mut queue = self.queue();
        let ticket = queue.enter(range, kind);
        if queue.is_granted(ticket) {
            return Some(RangeGuard { locks: self, ticket });
        }
        queue.leave(ticket);
        None
    }

    fn queue(&self) -> MutexGuard<'_, LockQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LockQueue {
    fn enter(&mut self, range: Range<u64>, kind: LockKind) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.requests.push(LockRequest { ticket, range, kind });
        ticket
    }

    fn leave(&mut self, ticket: u64) {
        self.requests.retain(|request| request.ticket != ticket);
    }

    fn is_granted(&self, ticket: u64) -> bool {
        let Some(at) = self.requests.iter().position(|request| request.ticket == ticket) else { return true };
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
        self.locks.queue().leave(self.ticket);
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
    fn writers_are_alone() {
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
