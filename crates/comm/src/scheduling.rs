//! The scheduling of threads that wait.

pub(crate) mod background_thread;
pub(crate) mod core_yield;
