//! Locks, atomics, threads and the futex of loom, under the names that the included files use.

use std::time::Duration;

use rustix::thread::futex;

pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread::{Builder, JoinHandle, yield_now};

loom::lazy_static! {
    /// The kernel's queue of sleepers: one for all words, which only makes more threads look again.
    static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

/// Sleeps if `word` has this value. The kernel compares under the lock of its queue, behind a full barrier: hence the read-modify-write,
/// which reads the latest value.
pub(crate) fn futex_wait(word: &AtomicU32, _: futex::Flags, value: u32, _: Option<Duration>) {
    let (queue, woken) = &*SLEEPERS;
    let guard = queue.lock().unwrap();
    if word.fetch_add(0, Ordering::SeqCst) == value {
        drop(woken.wait(guard).unwrap());
    }
}

/// Wakes all sleepers.
pub(crate) fn futex_wake(_: &AtomicU32, _: futex::Flags) {
    let (queue, woken) = &*SLEEPERS;
    let guard = queue.lock().unwrap();
    woken.notify_all();
    drop(guard);
}

/// Time is not modelled: no yield is slow.
pub(crate) fn yield_core() -> bool {
    yield_now();
    true
}

/// Time is not modelled: a sleep lets other threads run.
pub(crate) fn sleep(_: Duration) {
    yield_now();
}
