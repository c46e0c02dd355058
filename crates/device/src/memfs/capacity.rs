//! The memory limit of a `memfs`.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a chunk takes besides its bytes: its place in the table, its lock, and what the allocator needs.
const CHUNK_OVERHEAD: u64 = 160;

/// What a file takes besides its chunks and its name, which is kept twice by servers.
const FILE_OVERHEAD: u64 = 1024;

/// A count of bytes with a limit.
#[derive(Debug)]
pub(super) struct MemoryCapacity {
    used: AtomicU64,
    limit: u64,
    /// Chunks are allocated in multiples of this, and counted so.
    unit: u64,
    /// Tables, names and handles count, too.
    counts_all: bool,
}

impl Default for MemoryCapacity {
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

impl MemoryCapacity {
    pub(super) fn new(limit: u64) -> Self {
        Self { used: AtomicU64::new(0), limit, unit: 1, counts_all: false }
    }

    /// Of all memory that is allocated, and not only of bytes.
    pub(super) fn of_all_memory(limit: u64) -> Self {
        Self { used: AtomicU64::new(0), limit, unit: 4096, counts_all: true }
    }

    /// The memory that so many bytes of a chunk take.
    pub(super) fn allocated(&self, bytes: usize) -> usize {
        bytes.next_multiple_of(self.unit as usize)
    }

    /// True if chunks are allocated as they are counted.
    pub(super) fn counts_all(&self) -> bool {
        self.counts_all
    }

    /// What a chunk takes besides its bytes.
    pub(super) fn chunk_overhead(&self) -> u64 {
        if self.counts_all { CHUNK_OVERHEAD } else { 0 }
    }

    /// What a file, or a handle of it, takes.
    pub(super) fn file_overhead(&self, name: usize) -> u64 {
        if self.counts_all { FILE_OVERHEAD + 2 * name as u64 } else { 0 }
    }

    /// Reserves all of `wanted` bytes, or nothing.
    pub(super) fn take_all(&self, wanted: u64) -> bool {
        let granted = self.take(wanted);
        if granted < wanted {
            self.give(granted);
        }
        granted == wanted
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
