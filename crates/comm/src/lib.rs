//! Ranks that talk: one handle, [`Comm`], whether the ranks are threads of this process or processes of an MPI job.
//!
//! ```
//! use aqueduct_comm::{Op, run};
//!
//! run(|world| -> Result<(), aqueduct_comm::Error> {
//!     // Each rank has a different number of things; where do this rank's begin?
//!     let mine = vec![world.rank() as f64; 10 + world.rank()];
//!     let start = world.exclusive_scan_one(Op::Sum, mine.len() as u64)?.unwrap_or(0);
//!     let total = world.allreduce_one(Op::Sum, mine.len() as u64)?;
//!     assert!(start + mine.len() as u64 <= total);
//!     Ok(())
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! # Two transports, one behaviour
//! [`run`] looks at the environment. Under `mpirun` this process is one rank, and the MPI library of that launcher is loaded at run time:
//! Open MPI, MPICH, or any library with the standard interface of MPI 5. Otherwise threads are the ranks. What MPI does for us is carry
//! packets; matching, communicators and collective calls are the same code on both transports.
//!
//! Ranks of one node share memory: data of collective calls moves by pointer between threads and through a shared block between
//! processes, [`Comm::shared_region`] lends such memory to the program, and waiting ranks sleep on a futex. Messages travel between nodes
//! only. `AQUEDUCT_NODE_RANKS=2` pretends that only two ranks share a node, so that all of that is tested on one machine.
//!
//! # Talking
//! | what | how |
//! |---|---|
//! | all ranks at once | [`barrier`](Comm::barrier), [`broadcast`](Comm::broadcast), [`gather`](Comm::gather), [`scatter`](Comm::scatter), [`allgather`](Comm::allgather), [`all_to_all`](Comm::all_to_all), [`route`](Comm::route), [`reduce`](Comm::reduce), [`allreduce`](Comm::allreduce), [`allreduce_with`](Comm::allreduce_with), [`scan`](Comm::scan), [`exclusive_scan`](Comm::exclusive_scan); `_varied` where each rank's count is its own, `_into` for memory there is |
//! | two ranks | [`send`](Comm::send), [`receive`](Comm::receive), [`start_send`](Comm::start_send), [`start_receive`](Comm::start_receive), [`probe`](Comm::probe); from one rank or from [`MessageSource::Any`] |
//! | a part of the ranks | [`dup`](Comm::dup), [`split`](Comm::split), [`subgroup`](Comm::subgroup), [`split_by_node`](Comm::split_by_node); all of them, again and again: [`PooledComm`] |
//! | shared memory | [`shared_region`](Comm::shared_region); one number between nodes where threads may not serve it: [`remote_counter`](Comm::remote_counter) |
//!
//! Values are [`Plain`]: numbers and structures of numbers without padding. Reductions are over [`Number`]s with an [`Op`].
//!
//! # When something goes wrong
//! ```
//! use aqueduct_comm::{Error, Kind, Launch};
//!
//! let outcome = Launch::threads(3).run(|world| -> Result<(), Error> {
//!     if world.rank() == 1 {
//!         return Err(Error::new(Kind::Unsupported, "pump", "no water"));
//!     }
//!     let error = world.barrier().unwrap_err();
//!     assert_eq!((error.kind(), error.rank()), (Kind::RankFailed, Some(1)));
//!     Err(error)
//! });
//! assert_eq!(outcome.unwrap_err().to_string(), "run: rank 1 failed: pump: no water");
//! ```
//! A rank that fails never leaves another waiting: thread ranks get its name and message, an MPI job ends with them. Ranks that make
//! different collective calls are told so, both calls named.
//!
//! `unsafe` is confined to the modules that share memory and call MPI; each block says why it is sound.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "aqueduct-comm supports Linux only: ranks of a node wait on futexes and share memory through memfd."
);

pub mod agreement;
mod background_thread;
mod collective;
mod collective_id;
mod comm;
mod comm_constructors;
mod comm_pool;
mod error;
mod launch;
mod matching;
mod node;
mod point_to_point;
mod remote_counter;
mod run_end;
mod sync;
mod topology;
mod traffic;
mod transport;
mod wait_context;

/// What we rely on of each MPI implementation's binary interface, open to inspection and tests.
pub mod abi {
    pub use crate::transport::mpi::{Fact, MpiAbi, facts};
}

pub use background_thread::{BatchScheduling, forbid_mpi_on_thread};
pub use collective::reduce_op::{Number, Op};
pub use comm::Comm;
pub use comm_pool::PooledComm;
pub use error::{Error, Kind, Result};
pub use launch::{Host, Launch, abandon_mpi, prepare_finalize, run};
pub use matching::packet::Plain;
pub use node::shared_region::SharedRegion;
pub use point_to_point::{MessageSource, ReceiveRequest, SendRequest, Status, wait_all, wait_any};
pub use remote_counter::RemoteCounter;
pub use traffic::Traffic;
pub use transport::background_operation::{BackgroundOperation, needs_progress, progress};
pub use transport::mpi::ThreadLevel;
