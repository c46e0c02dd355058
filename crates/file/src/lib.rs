//! What access means: all of MPI-IO as an idiomatic interface over ranks and devices.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_file::layout::{Basic, Layout};
//! use aqueduct_file::{Mode, Open, View};
//!
//! Launch::threads(4).run(|world| {
//!     let file = Open::new(Mode::read_write().create().delete_on_close()).open(world, "memfs:first")?;
//!     // Numbers dealt out to the ranks in turn …
//!     file.set_view(&View::round_robin(world, &Layout::from(Basic::F64))?)?;
//!     // … written by all of them together …
//!     file.next().all().write(&vec![world.rank() as f64; 1000])?;
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
//! # What a view is
//! A [`View`] says which bytes of the file a rank sees, and as what: from a displacement on, a *filetype* tiled without end, its data
//! counted in *etypes*. Ranks with different views share one file without stepping on one another:
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
//! | where | alone | together (collective) |
//! |---|---|---|
//! | explicit offset | [`file.at(o)`](File::at)`.read(…)` | `file.at(o).all().read(…)` |
//! | individual pointer | [`file.next()`](File::next)`.read(…)` | `file.next().all().read(…)` |
//! | shared pointer | [`file.shared()`](File::shared)`.read(…)` | `file.shared().all().read(…)`: in rank order |
//! | a view of its own | [`file.through(&view)`](File::through)`.read(…)` | `file.through(&view).all().read(…)` |
//!
//! | instead of `read` | |
//! |---|---|
//! | [`write`](Access::write) | the other way |
//! | [`start_read`](Access::start_read), [`start_write`](Access::start_write) | without waiting: a [`Request`] that owns the buffer; [`File::scope`] for borrowed ones |
//! | [`begin_read`](Together::begin_read), [`begin_write`](Together::begin_write) | the split form, together only: a [`Split`] to be ended |
//!
//! MPI's names are aliases in this documentation: search for `MPI_File_write_at_all`.
//!
//! ```
//! # use aqueduct_comm::Launch;
//! # use aqueduct_file::{Mode, Open, Whence};
//! # Launch::threads(2).run(|world| {
//! # let file = Open::new(Mode::read_write().create().delete_on_close()).open(world, "memfs:ways")?;
//! let mine = vec![world.rank() as u8; 100];
//! // Without waiting: the request keeps the buffer and gives it back.
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
//! Slices and vectors of plain values go as they are. [`Source::laid_out`] and [`Sink::laid_out`] put a layout over bytes, so that the
//! inner part of an array with ghost cells is written without copying it out by hand.
//!
//! # Buffered files
//! [`File::buffered`], or [`Open::buffered`], makes of any file one whose writes are copied and return at once; a thread of the rank writes them while the
//! program computes. `docs/buffering.md` has the promises.
//!
//! # How it is done
//! An access is *planned* by pure functions ([`plan`]) and then executed: run by run, as lists of runs, by sieving, or in two phases, where ranks
//! exchange data so that few of them move large contiguous parts. The cheapest is estimated; hints ([`Info`]) decide otherwise.
//! Whatever the plan, the result is the same, counts are exact, and an error on one rank is an error on all, the same class on each.
//!
//! What is guaranteed, and where that is more than MPI's standard does, is in `docs/semantics.md`.

pub mod access;
mod buffer;
mod core;
mod counters;
mod desk;
mod distribution;
mod error;
mod external32;
mod field;
mod file;
mod flow;
mod hints;
pub mod layout;
mod mapped;
mod memory;
mod mode;
mod one_node;
mod open;
mod perform;
mod pfs;
pub mod plan;
mod queue;
mod repeats;
mod representation;
mod request;
mod scope;
mod shared_hints;
mod shared_pointer;
mod sieve;
mod staging;
mod streak;
mod sync;
mod transfer;
mod two_phase;
pub mod verbose;
mod view;
mod waiting;

pub use access::{Access, Etypes, Split, Together};
pub use aqueduct_device::{Claim, available_memory};
pub use buffer::{Buffered, Buffering, Capacity, Level, Reservoir};
pub use counters::Counters;
pub use error::{Class, Error, Kind, Result};
pub use file::{File, Whence};
pub use hints::{Hints, Info, Toggle};
pub use memory::{Incoming, LaidOut, Outgoing, Sink, Source};
pub use mode::Mode;
pub use open::{Open, check_name, check_unclaimed, claim, delete, discard, path};
pub use pfs::{Pfs, PfsMode};
pub use representation::{Conversion, Representation};
pub use request::{Count, Request, wait_all, wait_any, wait_some};
pub use scope::Scope;
pub use view::View;
