//! Work in the background: a queue of jobs with its thread. Requests of files use it; it is public for
//! the layers above.
//!
//! - [`BackgroundQueue`]: a named thread that executes jobs in order. It calls MPI only where the
//!   thread level allows that, waits under `SCHED_BATCH`, survives panics of jobs, and is waited for
//!   with or without a limit.
//! - [`JobActivity`], [`StallTimer`]: waits whose limit counts only while the thread waits for other
//!   ranks, not while the medium is busy.
//!
//! Decision record 48 has the reasons.

pub(crate) mod activity;
pub(crate) mod background_queue;
pub(crate) mod waiting;

pub use activity::{JobActivity, StallTimer};
pub use background_queue::{BackgroundQueue, JobContext, catch_panic};
pub use waiting::wait_while;
