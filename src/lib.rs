//! Parallel I/O for programs on many ranks: MPI-IO semantics, collective I/O, netCDF and HDF5 files, asynchronous output, checkpoints.
//!
//! A program runs on threads of one process, which needs no other software, or on MPI processes, with the MPI library of the launcher.
//! [`run`] starts it; every rank gets a [`Comm`](comm::Comm), its communicator, and opens [`file`](mod@file)s by name. The prefix of a name selects
//! the storage back end ([`device`]).
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
//! | layer | crate | contents |
//! |---|---|---|
//! | [`stream`] | `aqueduct-stream` | asynchronous output of time-stepping programs: streams, reductions, I/O servers |
//! | [`checkpoint`] | `aqueduct-checkpoint` | checkpoint and restart on any number of ranks, committed all or nothing; particle cell files |
//! | [`mardyn`] | `aqueduct-mardyn` | phase-space files of the program `MarDyn` |
//! | [`formats`] | `aqueduct-formats` | [`netcdf`] classic files, HDF5 files, conventions on them |
//! | [`object`] | `aqueduct-object` | typed objects: schema, encoding, messages between ranks, object files |
//! | [`file`](mod@file) | `aqueduct-file` | MPI-IO semantics: layouts, views, file pointers, independent and collective I/O, write buffering |
//! | [`comm`] | `aqueduct-comm` | ranks as threads or MPI processes: messages, collective calls, shared memory |
//! | [`device`] | `aqueduct-device` | storage back ends: POSIX files, `io_uring`, memory; layers that inject faults, throttle, trace and simulate crashes |
//!
//! A crate depends only on crates below it.
//!
//! # Features
//! Only `hdf5` is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `hdf5` | HDF5 files; no C library is needed |
//! | `ndarray` | access with arrays and views of the crate `ndarray`: `File::array`, `write_array` and `read_array` of variables and datasets, `Checkpoint::ndarray` |
//! | `num-complex`, `half` | elements of the types `Complex<f32>`, `Complex<f64>` and `half::f16` in files, objects and checkpoints |
//! | `tracing` | reports and warnings as events of the crate `tracing` |

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
pub use aqueduct_tunnel as tunnel;
#[cfg(feature = "ndarray")]
pub use ndarray;

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

/// Typed objects: schema, encoding, messages between ranks, object files. See `aqueduct-object`.
pub mod object {
    /// The derive macro for programs that depend on this crate only.
    pub use aqueduct_derive::FacadeObject as Object;
    pub use aqueduct_object::*;
}

/// The types of the README and the guides: ranks, files, typed objects, streams and checkpoints.
pub mod prelude {
    pub use aqueduct_checkpoint::{ArrayBlock, Checkpoint, Retention, Store};
    pub use aqueduct_comm::{Comm, Launch, Op};
    pub use aqueduct_file::hyperslab::Hyperslab;
    pub use aqueduct_file::layout::Layout;
    pub use aqueduct_file::{BufferOptions, Capacity, File, OpenOptions, View, Whence};
    pub use aqueduct_formats::Selection;
    pub use aqueduct_stream::{Output, Reduction, Stream, Streams};

    pub use crate::object::{Object, ObjectCommExt, ObjectFile, ObjectView, Single};
}
