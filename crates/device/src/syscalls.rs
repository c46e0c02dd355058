//! How many system calls a thread has made for its files: what tests and benchmarks of this layer count.

use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// How many system calls the file devices (`ufs`, `uring`) have made in the calling thread so far, for reads and writes.
///
/// Per thread, because the devices work in the thread that calls them: whatever other threads do, the difference of
/// two readings is exact, and counting costs nothing.
pub fn syscalls() -> u64 {
    CALLS.get()
}

/// Counts one call.
pub(crate) fn count() {
    CALLS.set(CALLS.get() + 1);
}
