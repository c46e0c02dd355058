//! Aqueduct carries the data of parallel programs to storage and back.
//!
//! The same program runs on threads of one process, with nothing to install, and on MPI processes, with whichever MPI library
//! the launcher belongs to. [`run`] starts it; every rank gets a [`Comm`](comm::Comm) to talk to the others and opens
//! [`file`](mod@file)s on any [`device`] by name.
//!
//! ```
//! use aqueduct::prelude::*;
//!
//! aqueduct::run(|world| {
//!     let file = File::create(world, "memfs:numbers")?;
//!     file.set_view(&View::round_robin::<f64>(world)?)?;
//!     file.at_pointer().all().write(&vec![world.rank() as f64; 1000])?;
//!     file.close()
//! })?;
//! # Ok::<(), aqueduct::Error>(())
//! ```
//!
//! | layer | crate | what it is for |
//! |---|---|---|
//! | [`comm`] | `aqueduct-comm` | ranks that talk: collective calls, messages, shared memory; threads or MPI |
//! | [`formats`] | `aqueduct-formats` | files of other systems: [`netcdf`], HDF5 with the feature `hdf5` |
//! | [`mardyn`] | `aqueduct-mardyn` | phase-space files of the program `MarDyn` |
//! | [`checkpoint`] | `aqueduct-checkpoint` | checkpoint and restart: atomically committed checkpoints, files of particles sorted by cell |
//! | [`object`] | `aqueduct-object` | typed objects: sent between ranks, stored in files, found again |
//! | [`stream`] | `aqueduct-stream` | hidden output: streams of a time-stepping program, written while it computes |
//! | [`file`](mod@file) | `aqueduct-file` | what access means: layouts, views, pointers, plans; all of MPI-IO |
//! | [`device`] | `aqueduct-device` | where bytes live: files, `io_uring`, memory; wrappers that fail, slow down, trace, crash |
//!
//! A layer knows those below and nothing above.

#[cfg(doctest)]
mod readmes;

pub use aqueduct_checkpoint as checkpoint;
pub use aqueduct_comm as comm;
pub use aqueduct_device as device;
pub use aqueduct_file as file;
pub use aqueduct_file::{Error, Kind, Result};
pub use aqueduct_formats as formats;
#[cfg(feature = "hdf5")]
pub use aqueduct_formats::hdf5;
pub use aqueduct_formats::netcdf;
pub use aqueduct_mardyn as mardyn;
pub use aqueduct_stream as stream;

/// Runs `program` on every rank and returns what the ranks of this process returned; see
/// [`comm::run`] for the environment variables.
///
/// The error of a rank's program is returned as it was, with the rank: its kind can be matched. An
/// error of another type becomes the [`cause`](Error::cause) of one of [`Kind::Program`].
///
/// ```
/// use aqueduct::prelude::*;
///
/// let outcome = aqueduct::run(|world| File::open(world, "memfs:missing").map(drop));
/// assert_eq!(outcome.unwrap_err().kind(), aqueduct::Kind::NoSuchFile);
/// ```
pub fn run<T, E>(program: impl Fn(&comm::Comm) -> std::result::Result<T, E> + Sync) -> Result<Vec<T>>
where
    T: Send,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    aqueduct_comm::run(program).map_err(Error::from)
}

/// Typed objects: sent between ranks, stored in files, found again. See `aqueduct-object`.
pub mod object {
    /// For programs that know this crate alone.
    pub use aqueduct_derive::FacadeObject as Object;
    pub use aqueduct_object::*;
}

/// What most programs need.
pub mod prelude {
    pub use aqueduct_comm::{Comm, Launch, Op};
    pub use aqueduct_file::layout::Layout;
    pub use aqueduct_file::{File, OpenOptions, View, Whence};

    pub use crate::object::{Object, ObjectCommExt, ObjectFile, ObjectView, Single};
}
