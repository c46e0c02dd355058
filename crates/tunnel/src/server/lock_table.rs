//! Byte-range locks of a file, held by sessions: granted in the order of requests, released with the session.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::wire::greeting::SessionId;

/// Who holds a lock: the session, its handle and its ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RangeLockOwner {
    pub(super) session: SessionId,
    pub(super) handle: u64,
    pub(super) ticket: u64,
}

/// The most requests that a file has queued.
const MOST_QUEUED: usize = 1 << 16;

#[derive(Debug)]
struct QueuedLock {
    owner: RangeLockOwner,
    range: Range<u64>,
    exclusive: bool,
}

/// Requests held and waiting, oldest first: one is granted when no earlier conflicting one is left.
#[derive(Debug, Default)]
pub(super) struct LockTable {
    queue: Mutex<Vec<QueuedLock>>,
    changed: Condvar,
}

impl LockTable {
    /// Asks for a range; a request that is queued already keeps its place. Waits so long at most, and stays queued then; without a
    /// time nothing is queued. True if the range is locked; none if too many requests are queued.
    pub(super) fn request(
        &self,
        owner: RangeLockOwner,
        range: Range<u64>,
        exclusive: bool,
        wait: Option<Duration>,
    ) -> Option<bool> {
        let deadline = wait.map(|time| Instant::now() + time);
        let mut queue = self.lock();
        if !queue.iter().any(|queued| queued.owner == owner) {
            if queue.len() >= MOST_QUEUED {
                return None;
            }
            queue.push(QueuedLock { owner, range, exclusive });
        }
        loop {
            match is_granted(&queue, owner) {
                Some(true) => return Some(true),
                // Removed while it waited: the session has ended.
                None => return Some(false),
                Some(false) => {}
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match left {
                None => {
                    queue.retain(|queued| queued.owner != owner);
                    return Some(false);
                }
                Some(Duration::ZERO) => return Some(false),
                Some(left) => {
                    queue = self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// True if a session holds a lock.
    pub(super) fn holds(&self, session: &SessionId) -> bool {
        let queue = self.lock();
        let mut owned = queue.iter().filter(|queued| queued.owner.session == *session);
        owned.any(|queued| is_granted(&queue, queued.owner) == Some(true))
    }

    /// Releases all locks and requests that match.
    pub(super) fn release(&self, matches: impl Fn(&RangeLockOwner) -> bool) {
        self.lock().retain(|queued| !matches(&queued.owner));
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<QueuedLock>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a request is granted; none if it is not queued.
fn is_granted(queue: &[QueuedLock], owner: RangeLockOwner) -> Option<bool> {
    let at = queue.iter().position(|queued| queued.owner == owner)?;
    let mine = &queue[at];
    let conflicts = |other: &QueuedLock| {
        let overlap = other.range.start.max(mine.range.start) < other.range.end.min(mine.range.end);
        overlap && (other.exclusive || mine.exclusive)
    };
    Some(!queue[..at].iter().any(conflicts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_granted_in_order_and_released_with_the_session() {
        let table = LockTable::default();
        let owner = |session: u8, ticket| RangeLockOwner { session: [session; 16], handle: 1, ticket };
        let short = Some(Duration::from_millis(1));
        assert_eq!(table.request(owner(1, 1), 0..10, true, None), Some(true));
        assert_eq!(table.request(owner(1, 1), 0..10, true, None), Some(true), "asking again changes nothing");
        assert_eq!(table.request(owner(2, 1), 5..15, false, None), Some(false));
        assert_eq!(table.request(owner(2, 2), 5..15, true, short), Some(false));
        assert_eq!(table.request(owner(3, 1), 5..15, false, None), Some(false), "one waits before it");
        assert_eq!(table.request(owner(3, 2), 20..30, true, None), Some(true));
        assert!(table.holds(&[1; 16]) && !table.holds(&[2; 16]));
        table.release(|owner| owner.session == [1; 16]);
        assert_eq!(table.request(owner(2, 2), 5..15, true, short), Some(true));
        table.release(|held| *held == owner(2, 2));
        assert_eq!(table.request(owner(3, 1), 5..15, false, None), Some(true));
        assert_eq!(table.request(owner(4, 1), 5..15, false, None), Some(true), "readers share");
    }
}
