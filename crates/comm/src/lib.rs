//! Message passing between ranks: one handle, [`Comm`], for threads of this process and for processes of an MPI job.
//!
//! ```
//! use aqueduct_comm::{Op, run};
//!
//! run(|world| -> Result<(), aqueduct_comm::Error> {
//!     // Each rank has a different number of values: the offset of this rank's values.
//!     let mine = vec![world.rank() as f64; 10 + world.rank()];
//!     let start = world.exclusive_scan_one(Op::Sum, mine.len() as u64)?.unwrap_or(0);
//!     let total = world.allreduce_one(Op::Sum, mine.len() as u64)?;
//!     assert!(start + mine.len() as u64 <= total);
//!     Ok(())
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! # Transports
//! [`run`] reads the environment. Under `mpirun` this process is one rank, and the MPI library of that launcher is loaded at run time:
//! Open MPI, MPICH, or any library with the standard ABI of MPI 5. Otherwise threads are the ranks. MPI only transfers packets; matching,
//! communicators and collective calls are the same code on both transports.
//!
//! Ranks of one node share memory: data of collective calls is read by pointer between threads and through a shared block between
//! processes, [`Comm::shared_region`] gives such memory to the program, and waiting ranks sleep on a futex. Messages are sent between
//! nodes only. `AQUEDUCT_NODE_RANKS=2` simulates nodes of two ranks, to test communication between nodes on one machine.
//!
//! # Calls
//! | purpose | calls |
//! |---|---|
//! | collective calls | [`barrier`](Comm::barrier), [`broadcast`](Comm::broadcast), [`gather`](Comm::gather), [`scatter`](Comm::scatter), [`allgather`](Comm::allgather), [`all_to_all`](Comm::all_to_all), [`route`](Comm::route), [`reduce`](Comm::reduce), [`allreduce`](Comm::allreduce), [`allreduce_with`](Comm::allreduce_with), [`scan`](Comm::scan), [`exclusive_scan`](Comm::exclusive_scan); `_varied` for different counts per rank, `_into` for existing buffers |
//! | point-to-point messages | [`send`](Comm::send), [`receive`](Comm::receive), [`start_send`](Comm::start_send), [`start_receive`](Comm::start_receive), [`probe`](Comm::probe); from one rank or [`MessageSource::Any`] |
//! | communicators | [`dup`](Comm::dup), [`split`](Comm::split), [`subgroup`](Comm::subgroup), [`split_by_node`](Comm::split_by_node); reused ones: [`PooledComm`] |
//! | shared memory | [`shared_region`](Comm::shared_region); an atomic counter between nodes: [`remote_counter`](Comm::remote_counter) |
//!
//! Values are [`Plain`]: numbers and structures of numbers without padding. Reductions combine [`Number`]s with an [`Op`].
//!
//! # Errors
//! ```
//! use aqueduct_comm::{Error, Kind, Launch};
//!
//! let outcome = Launch::threads(3).run(|world| -> Result<(), Error> {
//!     if world.rank() == 1 {
//!         return Err(Error::new(Kind::Unsupported, "read", "no input"));
//!     }
//!     let error = world.barrier().unwrap_err();
//!     assert_eq!((error.kind(), error.rank()), (Kind::RankFailed, Some(1)));
//!     Err(error)
//! });
//! assert_eq!(outcome.unwrap_err().to_string(), "run: rank 1 failed: read: no input");
//! ```
//! No rank waits forever for one that failed: thread ranks get an error with its rank and message, an MPI job is aborted with them. If
//! ranks make different collective calls, the error names both calls.
//!
//! `unsafe` is confined to the modules that share memory and call MPI; each block says why it is sound.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "aqueduct-comm supports Linux only: ranks of a node wait on futexes and share memory through memfd."
);

pub mod agreement;
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
mod scheduling;
mod sync;
mod topology;
mod traffic;
mod transport;
mod wait_context;

/// The constants and layouts of each MPI implementation's ABI that this crate relies on, for tests.
pub mod abi {
    pub use crate::transport::mpi::{Fact, MpiAbi, facts};
}

pub use collective::all_to_all_arrays::ExchangedArray;
pub use collective::reduce_op::{Number, Op};
pub use comm::Comm;
pub use comm_pool::PooledComm;
pub use error::{Error, Kind, Result};
pub use launch::{Host, HostComm, Launch, abandon_mpi, before_finalize, prepare_finalize, run};
pub use matching::packet::{MessageBody, Plain};
pub use node::shared_region::SharedRegion;
pub use point_to_point::{Message, MessageSource, ReceiveRequest, SendRequest, Status, wait_all, wait_any};
pub use remote_counter::RemoteCounter;
pub use scheduling::background_thread::{BatchScheduling, forbid_mpi_on_thread};
pub use scheduling::core_yield::pause_between_polls;
pub use traffic::Traffic;
pub use transport::background_operation::{BackgroundOperation, needs_progress, progress};
pub use transport::mpi::ThreadLevel;
