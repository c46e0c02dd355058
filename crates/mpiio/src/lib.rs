//! Interposition library: `libaqueduct_mpiio.so` defines every `MPI_File_*` function of the MPI standard over the file engine, so that programs in C,
//! C++, Fortran and Python, and the HDF5 and `PnetCDF` libraries, use it without changes. Their MPI library still does the communication.
//!
//! ```sh
//! cargo xtask mpiio                                                            # builds target/release/libaqueduct_mpiio.so
//! mpirun -n 4 -x LD_PRELOAD=$PWD/target/release/libaqueduct_mpiio.so program   # Open MPI
//! mpirun -n 4 -genv LD_PRELOAD $PWD/target/release/libaqueduct_mpiio.so program # MPICH
//! ```
//!
//! One binary, built without MPI, supports Open MPI, MPICH and libraries with the standard ABI of MPI 5. It is detected
//! at run time; the differences are in the three columns of [`abi`].
//!
//! # Structure
//! All semantics are in `aqueduct-file`. This crate converts objects of MPI to objects of the engine and back:
//!
//! | MPI | here | engine |
//! |---|---|---|
//! | `MPI_File` | `file` | `File` |
//! | `MPI_Comm` | `communicator`, an attribute of it | `Comm` |
//! | `MPI_Datatype` | `datatype`, an attribute of it | `Layout` |
//! | buffers | `buffer` | `Source`, `Sink` |
//! | `MPI_Request` | `request` | `Request` |
//! | `MPI_Info` | `info` | `Info` |
//! | error codes and handlers | `host`, `file` | `Error` |
//!
//! # Environment
//! | variable | effect |
//! |---|---|
//! | `AQUEDUCT_VERBOSE=1` | a line at the first file (which MPI, how it is used), a summary when a file is closed, errors in words |
//! | `AQUEDUCT_TRACE=folder` | a trace of every call, for `aqueduct report folder` |
//! | `AQUEDUCT_DEVICE=throttle=200MB/s` | a wrapper around every file: `fault`, `throttle`, `crash`; or a device: `uring` |
//! | `AQUEDUCT_HINTS`, `ROMIO_HINTS` | files with hints |
//! | `AQUEDUCT_BUFFER=256MiB` | buffers writes in memory; `AQUEDUCT_SPILL=folder` and `AQUEDUCT_SPILL_SIZE=1GiB` for data that does not fit; `AQUEDUCT_BUFFER_NODES=1` also on several machines. The hints `aqueduct_buffer`, `aqueduct_spill`, `aqueduct_spill_size` do the same for one file |
//!
//! An invalid value is reported on the standard error stream at the first file, with the valid forms.

pub mod abi;
mod buffer;
mod communicator;
mod datatype;
mod diagnostics;
mod file;
mod host;
mod info;
mod preload_check;
mod request;
mod settings;
mod shutdown;
mod shutdown_table;
mod symbols;
