//! Locks, atomics and the futex as the files under model checks use them: those of the system here, those of loom in `crates/model-checks`.

use std::time::Duration;

use rustix::thread::futex;

pub(crate) use std::sync::atomic::{AtomicU32, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;

/// Sleeps while `word` has this value, until woken, for no longer than `timeout`. May return early.
pub(crate) fn futex_wait(word: &AtomicU32, flags: futex::Flags, value: u32, timeout: Option<Duration>) {
    let timeout = timeout.and_then(|longest| longest.try_into().ok());
    // Woken, timed out, interrupted or changed meanwhile: in each case the caller looks again.
    let _ = futex::wait(word, flags, value, timeout.as_ref());
}

/// Wakes all who sleep on `word`.
pub(crate) fn futex_wake(word: &AtomicU32, flags: futex::Flags) {
    // It can only fail for a bad address, and ours is a live reference.
    let _ = futex::wake(word, flags, i32::MAX as u32);
}
