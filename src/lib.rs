//! Aqueduct carries the data of parallel programs to storage and back.
//!
//! The same program runs on threads of one process, with nothing to install, and on MPI processes, with whichever MPI library
//! the launcher belongs to. [`run`] starts it; every rank gets a [`Comm`](comm::Comm) to talk to the others and opens files on any
//! [`device`] by name.
//!
//! ```
//! use aqueduct::prelude::*;
//!
//! aqueduct::run(|world| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//!     let file = aqueduct::device::open("memfs:shared", &OpenOptions::read_write().create(true))?;
//!     let mine = [world.rank() as u8 + 1; 1024];
//!     file.write_at(1024 * world.rank() as u64, &mine)?;
//!     world.barrier()?;
//!
//!     let next = (world.rank() + 1) % world.size();
//!     let mut theirs = [0; 1024];
//!     file.read_at(1024 * next as u64, &mut theirs)?;
//!     assert_eq!(theirs, [next as u8 + 1; 1024]);
//!     Ok(())
//! })?;
//! # Ok::<(), aqueduct::comm::Error>(())
//! ```
//!
//! | layer | crate | what it is for |
//! |---|---|---|
//! | [`comm`] | `aqueduct-comm` | ranks that talk: collective calls, messages, shared memory; threads or MPI |
//! | [`device`] | `aqueduct-device` | where bytes live: files, `io_uring`, memory; wrappers that fail, slow down, trace, crash |
//!
//! A layer knows the one below and nothing above; more layers stand on these two as they are built.

pub use aqueduct_comm as comm;
pub use aqueduct_comm::run;
pub use aqueduct_device as device;
pub use aqueduct_file as file;

/// What most programs need.
pub mod prelude {
    pub use aqueduct_comm::{Comm, Launch, Op, Source};
    pub use aqueduct_device::{Handle, HandleExt, OpenOptions, Piece, PieceMut, SyncScope};
}
