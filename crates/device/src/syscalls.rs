//! Per-thread counters of system calls and lock waits, for counters of higher layers, tests and benchmarks.

use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static WAITS: Cell<u64> = const { Cell::new(0) };
}

/// How many system calls the file devices (`ufs`, `uring`) have made in the calling thread so far, for reads and writes.
///
/// Per thread, because the devices work in the thread that calls them: whatever other threads do, the difference of
/// two readings is exact, and counting costs nothing.
pub fn syscalls() -> u64 {
    CALLS.get()
}

/// How many locks the calling thread has had to wait for so far, on any device; per thread as [`syscalls`].
pub fn lock_waits() -> u64 {
    WAITS.get()
}

/// Counts one call.
pub(crate) fn count_syscall() {
    CALLS.set(CALLS.get() + 1);
}

/// Counts one wait for a lock.
pub(crate) fn count_lock_wait() {
    WAITS.set(WAITS.get() + 1);
}
