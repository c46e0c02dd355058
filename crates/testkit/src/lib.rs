//! The judges: suites that every implementation has to pass, written once and public, so that one's own can be put before them too.
//!
//! * [`transport`]: conformance of whatever carries a [`Comm`](aqueduct_comm::Comm), run on every rank;
//! * [`device`]: conformance of devices and wrappers with the contract of [`aqueduct_device::Handle`];
//! * [`file`](mod@file): conformance of the file engine, and its byte oracle;
//! * [`filesystem`]: small file systems of their own, to be filled, shut down and limited;
//! * [`oracle`]: random operations on a device against a plain vector of bytes;
//! * [`control_group`]: control groups with a memory limit;
//! * [`byte_pattern`]: bytes of test files, computed from their position;
//! * [`contents`]: the bytes of a file, as another open sees them;
//! * [`blocking_device`]: a device whose writes wait until they are let through;
//! * [`launcher`]: MPI programs started under the launchers that are there;
//! * [`mpi_job`]: tests that start themselves under these launchers;
//! * [`headers`]: constants of MPI implementations, compared with their headers;
//! * [`external_tools`]: other people's programs that read what we write;
//! * [`crash`]: what may be left after a power cut, judged without knowing how it was made.
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
pub mod headers;
pub mod launcher;
pub mod mpi_job;
pub mod oracle;
pub mod rng;
pub mod transport;
