//! Work in the background: a queue of jobs with its thread, and the memory of data that waits for it. Files, streams and
//! checkpoints use it; it is public for the layers above.
//!
//! - [`BackgroundQueue`]: a named thread that executes jobs in order. It calls MPI only where the
//!   thread level allows that, waits under `SCHED_BATCH`, survives panics of jobs, and is waited for
//!   with or without a limit.
//! - [`JobActivity`], [`StallTimer`]: waits whose limit counts only while the thread waits for other
//!   ranks, not while the medium is busy.
//! - [`SpillFile`], [`SpillRing`]: data that does not fit memory, in a file on a local disk.
//! - [`MemoryBudget`]: one limit for the memory of all data that this process writes in the background.
//!
//! Decision record 40 has the reasons.

pub(crate) mod activity;
pub(crate) mod background_queue;
pub(crate) mod memory_budget;
pub(crate) mod memory_ledger;
pub(crate) mod spill;
pub(crate) mod waiting;

pub use activity::{JobActivity, StallTimer};
pub use background_queue::{BackgroundQueue, JobContext, catch_panic};
pub use memory_budget::{BudgetUser, MemoryBudget, memory_level, process_ranks};
pub use memory_ledger::{Level, OwnerLimits};
pub use spill::{SpillFile, SpillRing};
pub use waiting::wait_while;
