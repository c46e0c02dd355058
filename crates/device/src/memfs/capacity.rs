//! The memory limit of a `memfs`.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count of bytes with a limit.
#[derive(Debug)]
pub(super) struct MemoryCapacity {
    used: AtomicU64,
    limit: u64,
}

impl Default for MemoryCapacity {
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

impl MemoryCapacity {
    pub(super) fn new(limit: u64) -> Self {
        Self { used: AtomicU64::new(0), limit }
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Reserves `wanted` bytes or as many as are left, and returns how many.
    pub(super) fn take(&self, wanted: u64) -> u64 {
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let granted = wanted.min(self.limit.saturating_sub(used));
            match self.used.compare_exchange_weak(used, used + granted, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return granted,
                Err(now) => used = now,
            }
        }
    }

    /// Releases `bytes`.
    pub(super) fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
