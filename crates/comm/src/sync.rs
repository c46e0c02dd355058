//! Locks, atomics and the futex for modules under model checks; `crates/model-checks` replaces them with those of loom.

use std::time::Duration;

use rustix::thread::futex;

pub(crate) use std::sync::atomic::{AtomicU32, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

pub(crate) use crate::scheduling::core_yield::yield_core;

/// Sleeps while `word` has this value, until woken, for no longer than `timeout`. May return early.
pub(crate) fn futex_wait(word: &AtomicU32, flags: futex::Flags, value: u32, timeout: Option<Duration>) {
    let timeout = timeout.and_then(|longest| longest.try_into().ok());
    // Woken, timed out, interrupted or the value has changed: the caller checks again in each case.
    let _ = futex::wait(word, flags, value, timeout.as_ref());
}

/// Wakes all threads that sleep on `word`.
pub(crate) fn futex_wake(word: &AtomicU32, flags: futex::Flags) {
    // It can only fail for an invalid address, and this is a reference.
    let _ = futex::wake(word, flags, i32::MAX as u32);
}
