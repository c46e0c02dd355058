//! Locks, atomics and threads as the files under model checks use them: those of std here, those of loom in `crates/model-checks`.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::{Builder, JoinHandle, sleep, yield_now};
