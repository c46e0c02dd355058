//! Model checks of the code that ranks and threads run at the same time.
//!
//! [loom](https://docs.rs/loom) runs each model under all interleavings of two or three threads, up to a number of preemptions, and
//! under all values that the memory model lets a load return. A lost wake-up shows as a deadlock, a missing ordering as a stale value.
//!
//! The files that are checked are those of `crates/comm` and `crates/file`, included here by their paths. They take locks, atomics,
//! threads and the futex from `crate::sync`, which is loom's here; what else they use is replaced by the stand-ins of this crate. So
//! no build with another `cfg` is needed, and the models run with all other tests.
//!
//! | model | file | what holds |
//! |---|---|---|
//! | [`futex_barrier`] | `comm/src/node/futex_barrier.rs` | a barrier completes on all ranks or on none; a failure ends every wait |
//! | [`message_matching`] | `comm/src/matching/mailbox.rs` | no message is lost, no wait outlives its sender |
//! | [`pending_table`] | `file/src/write_buffer/pending_table.rs`, `pending_slots.rs` | an access waits for writes that were accepted before it |
//! | [`background_queue`] | `file/src/write_behind/background_queue.rs`, `waiting.rs` | every job is done, in order, before the queue ends |

// The unit tests of the checked files use the threads of std, and run in their own crates.
#![cfg(not(test))]

extern crate self as aqueduct_comm;

mod stubs;
mod sync;

#[allow(dead_code, reason = "the models use a part of it")]
#[path = "../../comm/src/node/futex_barrier.rs"]
mod barrier_file;
#[allow(dead_code, reason = "the models use a part of it")]
#[path = "../../comm/src/matching/mailbox.rs"]
mod mailbox;

#[allow(dead_code, reason = "the models use a part of it")]
#[path = "../../comm/src/wait_context.rs"]
mod wait_context;

#[allow(dead_code, unreachable_pub, reason = "the models use a part of it, which is public in its crate")]
mod write_behind;
#[allow(dead_code, reason = "the models use a part of it")]
mod write_buffer;

pub mod background_queue;
pub mod futex_barrier;
pub mod message_matching;
pub mod pending_table;

// What the included files find at the root of their crates.
pub(crate) use stubs::{
    BatchScheduling, Comm, Error, Kind, Result, SharedRegion, error, forbid_mpi_on_thread, layout, matching,
    needs_progress, progress, view,
};

/// Runs a model under all interleavings with at most so many preemptions.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(preemptions));
    builder.max_branches = 20_000;
    builder.check(model);
}
