//! MPI-IO semantics in Rust: layouts (datatypes), views, file pointers, independent and collective access, non-blocking requests, hints, and
//! write buffering, over the ranks of [`aqueduct_comm`] and the storage back ends of [`aqueduct_device`].
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_file::{File, View};
//!
//! Launch::threads(4).run(|world| {
//!     let file = File::create(world, "memfs:first")?;
//!     // Numbers, distributed round-robin over the ranks …
//!     file.set_view(&View::round_robin::<f64>(world)?)?;
//!     // … written by a collective call …
//!     file.at_pointer().all().write(&vec![world.rank() as f64; 1000])?;
//!     // … and read back as one sequence.
//!     file.set_view(&View::default())?;
//!     let mut head = [0.0; 6];
//!     file.at(0).read(&mut head)?;
//!     assert_eq!(head, [0.0, 1.0, 2.0, 3.0, 0.0, 1.0]);
//!     file.close()
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! # Views
//! A [`View`] says which bytes of the file a rank sees, and as what: from a displacement on, a *filetype* tiled without end, its data
//! counted in *etypes*. With different views, ranks access different bytes of one file:
//!
//! ```text
//!  rank 0   |##. . . |##. . . |##. . . |       filetype: one etype, extent of three
//!  rank 1   |. ##. . |. ##. . |. ##. . |       the same, displaced by one
//!  rank 2   |. . ##. |. . ##. |. . ##. |
//!  file     |0  1  2 |0  1  2 |0  1  2 |
//! ```
//!
//! Etypes and filetypes are [`layout`]s, small values with all of MPI's constructors; [`View::round_robin`], [`View::cyclic`], [`View::block`],
//! [`View::contiguous`] and [`View::array`] are ready-made.
//!
//! # The access matrix
//! | position | independent | collective |
//! |---|---|---|
//! | explicit offset | [`file.at(o)`](File::at)`.read(…)` | `file.at(o).all().read(…)` |
//! | individual pointer | [`file.at_pointer()`](File::at_pointer)`.read(…)` | `file.at_pointer().all().read(…)` |
//! | shared pointer | [`file.shared()`](File::shared)`.read(…)` | `file.shared().all().read(…)`: in rank order |
//! | a view of its own | [`file.with_view(&view)`](File::with_view)`.read(…)` | `file.with_view(&view).all().read(…)` |
//!
//! | instead of `read` | |
//! |---|---|
//! | [`write`](Access::write) | writes |
//! | [`start_read`](Access::start_read), [`start_write`](Access::start_write) | non-blocking: a [`Request`] that owns the buffer; [`File::scope`] for borrowed buffers |
//! | [`begin_read`](CollectiveAccess::begin_read), [`begin_write`](CollectiveAccess::begin_write) | split collective: a [`Split`] to be ended |
//!
//! MPI's names are aliases in this documentation: search for `MPI_File_write_at_all`.
//!
//! ```
//! # use aqueduct_comm::Launch;
//! # use aqueduct_file::{File, Whence};
//! # Launch::threads(2).run(|world| {
//! # let file = File::create(world, "memfs:ways")?;
//! let mine = vec![world.rank() as u8; 100];
//! // Non-blocking: the request owns the buffer and returns it.
//! let request = file.at(100 * world.rank() as u64).start_write(mine)?;
//! // … compute …
//! let (mine, count) = request.wait()?;
//! assert_eq!(count.bytes(), 100);
//! // All ranks append to a common log, in rank order.
//! file.seek_shared(0, Whence::End)?;
//! file.shared().all().write(&mine)?;
//! assert_eq!(file.size()?, 400);
//! # file.close()
//! # })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! # Memory
//! Slices and vectors of plain values are passed directly. [`Source::laid_out`] and [`Sink::laid_out`] describe data in memory by a layout, so that
//! the inner part of an array with ghost cells is written without packing it first.
//!
//! # Buffered files
//! With [`File::buffered`] or [`OpenOptions::buffered`], writes are copied and return at once; a thread of the rank writes them to the file while the program
//! computes. `docs/buffering.md` has the guarantees.
//!
//! # Strategies
//! An access is planned by one pure function and then executed: run by run, as lists of runs (list I/O), by data sieving, through mapped
//! pages, or in two phases, where ranks exchange data so that few of them, the aggregators, access large contiguous parts. The strategy with
//! the lowest estimated cost is used; hints ([`Info`]) override it.
//! With every strategy the result is the same, counts are exact, and an error of a collective call on one rank is an error on all ranks, with the
//! same error class.
//!
//! `docs/semantics.md` has the guarantees, and where they exceed those of the MPI standard. `ARCHITECTURE.md` has the modules and traces a
//! collective write through them.
//!
//! # Modules
//! Dependencies go one way: `handle` (file handles) → `engine` (an open file) → `write_buffer` → `collective` → `independent` → `plan` → `memory`
//! → `view` → `layout`. `context` (communicator, device handle, mode, counters, errors) and `hints` are below `memory`.

mod collective;
mod context;
mod engine;
mod error;
mod handle;
mod hints;
pub mod hyperslab;
mod independent;
pub mod layout;
mod memory;
mod plan;
pub mod replan;
mod sync;
pub mod trace;
mod view;
#[doc(hidden)]
pub mod write_behind;
mod write_buffer;

pub use aqueduct_device::{PrefixKind, WriterLock, available_memory};
pub use context::counters::Counters;
pub use context::mode::Mode;
pub use error::{Class, Error, Kind, Result};
pub use handle::access::{self, Access, CollectiveAccess, Etypes, Split};
#[cfg(feature = "ndarray")]
pub use handle::array_access::{ArrayAccess, CollectiveArrayAccess};
#[doc(hidden)]
pub use handle::prefetcher;
pub use handle::{
    Count, File, OpenOptions, Pfs, PfsMode, PrefetchStats, Request, Scope, Whence, check_name,
    check_unclaimed, claim, delete, discard, path, prefix_kind, read, wait_all, wait_any, wait_some,
};
pub use hints::{BufferOptions, Capacity, Hints, Info, Strategy, Toggle};
#[cfg(feature = "ndarray")]
#[doc(hidden)]
pub use memory::array_memory;
pub use memory::{Incoming, LaidOut, Outgoing, Sink, Source};
pub use view::{Conversion, Representation, View};
pub use write_behind::{Level, memory_level};
pub use write_buffer::{BufferStatus, DrainTarget};
