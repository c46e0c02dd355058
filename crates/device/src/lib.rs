//! Storage back ends behind one interface: files of the operating system, `io_uring`, memory, and custom devices.
//!
//! ```
//! use aqueduct_device::{HandleExt, DeviceOpenOptions, Segment, SyncScope};
//!
//! let file = aqueduct_device::open("memfs:run7", &DeviceOpenOptions::read_write().create(true))?;
//! file.write_all(&[Segment::new(0, b"head"), Segment::new(4096, b"far away")])?;
//! file.sync(SyncScope::Data)?;
//!
//! let mut bytes = [0; 8];
//! assert_eq!(file.read_at(4096, &mut bytes)?, 8);
//! assert_eq!(&bytes, b"far away");
//! # Ok::<_, aqueduct_device::Error>(())
//! ```
//!
//! # Devices and handles
//! A [`Device`] opens and deletes files by name. A [`Handle`] is an open file: it has no file pointer, every access has an
//! offset, so that threads can share it. The primitive is the *list of segments*: a [`Segment`] is a file offset and memory,
//! and a device transfers a whole list in as few calls as possible. Regular lists are described by [`Strip`]s (offset, length, stride, count), which memory
//! and servers take as they are. [`HandleExt`] has derived methods. The contract is documented on [`Handle`].
//!
//! # Names
//! The prefix of a name selects the device. Prefixes of wrappers, with parameters, precede it, outermost first. A name without a prefix means `ufs`.
//!
//! | name | means |
//! |---|---|
//! | `out.bin`, `ufs:out.bin`, `./a:b` | a file of the operating system: [`Ufs`] |
//! | `uring:out.bin` | the same with many operations in flight: [`Uring`] |
//! | `memfs:run7`, `memfs=8GiB:run7` | a file in the memory of this process ([`MemFs`]), or of this node if ranks are processes ([`NodeMemFs`]) |
//! | `throttle=200MB/s,1ms:ufs:out.bin` | `ufs`, throttled by a wrapper: see [`layers`] |
//!
//! An unknown prefix is an error that lists the known ones. [`name`] has the grammar, [`Registry`] the rules.
//!
//! # Capabilities
//! [`Handle::capabilities`] describes, as data, the features of an open file: whether a scattered list is cheap, the scope of locks, which alignment
//! avoids a copy. Layers above plan with it; the conformance suite chooses its cases by it.
//!
//! ```
//! use aqueduct_device::{LockScope, MemFs, Device, DeviceOpenOptions};
//!
//! let file = MemFs::new().open("a".as_ref(), &DeviceOpenOptions::read_write().create(true))?;
//! assert!(file.capabilities().native_lists, "memory needs no data sieving");
//! assert_eq!(file.capabilities().locks, LockScope::Process);
//! # Ok::<_, aqueduct_device::Error>(())
//! ```
//!
//! # Errors and counts
//! Every [`Error`] names the operation, the file, the offset, how many bytes of the list had been transferred, and a remedy. A count is
//! exact at the end of the file too.
//!
//! ```
//! use aqueduct_device::{HandleExt, Kind, DeviceOpenOptions, Operation};
//!
//! let error = aqueduct_device::open("memfs:missing", &DeviceOpenOptions::read_only()).err().unwrap();
//! assert_eq!((error.kind(), error.operation()), (Kind::NotFound, Operation::Open));
//! assert_eq!(error.to_string(), r#"open "missing": no such file; check the path, or open with create"#);
//! ```
//!
//! # Custom devices
//! Two methods of [`Device`] and six of [`Handle`] are required. This one, `examples/own_device.rs`, maps names to files in a
//! folder, is registered under a prefix, works inside every wrapper, and passes `aqueduct_testkit::device::conformance`:
//!
//! ```
#![doc = include_str!("../examples/own_device.rs")]
//! ```

#[cfg(not(target_os = "linux"))]
compile_error!(
    "aqueduct-device supports Linux only: files use io_uring, open-file-description locks and sync_file_range."
);

mod aligned_buffer;
mod available_memory;
mod capabilities;
mod coalesce;
mod device;
mod error;
pub mod layers;
mod lock;
mod mapping;
mod memfs;
pub mod name;
mod open_options;
mod registry;
pub mod segment;
pub mod strip;
mod syscalls;
mod ufs;
pub mod units;
mod uring;

pub use aligned_buffer::{AlignedBuffer, DIRECT_ALIGNMENT};
pub use available_memory::available_memory;
pub use capabilities::{Capabilities, LockScope};
pub use device::{Device, Handle, HandleExt, LockGuard, LockKind, MappedAccess, SyncScope};
pub use error::{Error, Kind, Operation, Result};
pub use lock::{RangeGuard, RangeLocks};
pub use mapping::Mapping;
pub use memfs::{MemFs, NodeMemFile, NodeMemFs};
pub use open_options::{DeviceOpenOptions, OpenedBy};
pub use registry::{
    PrefixKind, Registry, delete, discard, open, register_device, register_wrapper, registry,
};
pub use segment::{Segment, SegmentMut, SegmentRange, total, total_mut};
pub use strip::Strip;
pub use syscalls::{lock_waits, syscalls};
pub use ufs::{Ufs, WriterLock, acquire_writer_lock, check_unclaimed};
pub use uring::Uring;
