//! Conformance suites that every implementation must pass, public so that custom implementations can run them, and test utilities.
//!
//! * [`transport`]: conformance of transports of a [`Comm`](aqueduct_comm::Comm), run on every rank;
//! * [`device`]: conformance of devices and wrappers with the contract of [`aqueduct_device::Handle`];
//! * [`file`](mod@file): conformance of the file engine, and its byte oracle;
//! * [`filesystem`]: small file systems that can be filled, shut down and limited;
//! * [`oracle`]: random operations on a device against a plain vector of bytes;
//! * [`control_group`]: control groups with a memory limit;
//! * [`byte_pattern`]: bytes of test files, computed from their position;
//! * [`contents`]: the bytes of a file, as another open sees them;
//! * [`blocking_device`]: a device whose writes block until they are released;
//! * [`hosts`]: several hosts on one machine, as network namespaces;
//! * [`launcher`]: MPI programs started under the installed launchers;
//! * [`mutator`]: mutated inputs for tests of decoders;
//! * [`hdf5_checksums`]: checksums of mutated HDF5 files;
//! * [`mpi_job`]: tests that start themselves under these launchers;
//! * [`headers`]: constants of MPI implementations, compared with their headers;
//! * [`external_tools`]: external programs that read the written files;
//! * [`crash`]: checks of the state after a power cut, independent of the `crash` wrapper.
//!
//! Random tests show their seed when they fail; `AQUEDUCT_SEED=…` repeats it.

pub mod blocking_device;
pub mod byte_pattern;
pub mod contents;
pub mod control_group;
pub mod crash;
pub mod device;
pub mod external_tools;
pub mod file;
pub mod filesystem;
pub mod hdf5_checksums;
pub mod headers;
pub mod hosts;
pub mod launcher;
pub mod mpi_job;
pub mod mutator;
pub mod oracle;
pub mod rng;
pub mod transport;
