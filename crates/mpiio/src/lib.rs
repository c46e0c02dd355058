//! Interposition library: `libaqueduct_mpiio.so` defines every `MPI_File_*` function of the MPI standard over the file engine, so that programs in C,
//! C++, Fortran and Python, and the HDF5 and `PnetCDF` libraries under them, use it without a change. Communication stays with their MPI.
//!
//! ```sh
//! cargo xtask mpiio                                                            # builds target/release/libaqueduct_mpiio.so
//! mpirun -n 4 -x LD_PRELOAD=$PWD/target/release/libaqueduct_mpiio.so program   # Open MPI
//! mpirun -n 4 -genv LD_PRELOAD $PWD/target/release/libaqueduct_mpiio.so program # MPICH
//! ```
//!
//! One binary, built without any MPI, serves Open MPI, MPICH and libraries with the standard interface of MPI 5: which one it is is found out
//! in the running program, and what differs stands in [`abi`]'s three columns.
//!
//! # Thin
//! All semantics live in `aqueduct-file`. Here, things of MPI become things of the engine and back:
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
//! # The environment
//! | variable | effect |
//! |---|---|
//! | `AQUEDUCT_VERBOSE=1` | a line at the first file (which MPI, how it is used), a summary when a file is closed, errors in words |
//! | `AQUEDUCT_TRACE=folder` | every operation on the medium, one file per process; where the folder is missing for a rank, nothing is traced |
//! | `AQUEDUCT_DEVICE=throttle=200MB/s` | a wrapper around every file: `fault`, `throttle`, `crash`; or a device: `uring` |
//! | `AQUEDUCT_HINTS`, `ROMIO_HINTS` | files with hints |
//! | `AQUEDUCT_BUFFER=256MiB` | writes are copied and written while the program computes; `AQUEDUCT_SPILL=folder`, `AQUEDUCT_SPILL_SIZE=1GiB` for what does not fit; `AQUEDUCT_BUFFER_NODES=1` on several machines too. The hints `aqueduct_buffer`, `aqueduct_spill`, `aqueduct_spill_size` do the same for one file |
//!
//! A value that is wrong is reported on the standard error stream at the first file, with the valid forms.

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
