//! Where bytes live.

mod aligned;
mod capabilities;
mod device;
mod error;
mod lock;
mod memfs;
pub mod name;
mod options;
pub mod piece;
pub mod quantity;
mod registry;
mod run;
mod syscalls;
mod ufs;
mod uring;
pub mod wrap;

pub use aligned::{AlignedBuffer, DIRECT_ALIGNMENT};
pub use capabilities::{Capabilities, LockScope};
pub use device::{Device, Handle, HandleExt, LockGuard, LockKind, SyncScope};
pub use error::{Error, Kind, Operation, Result};
pub use lock::{RangeGuard, RangeLocks};
pub use memfs::MemFs;
pub use options::OpenOptions;
pub use piece::{Extent, Piece, PieceMut, total, total_mut};
pub use registry::{Registry, delete, open, register_device, register_wrapper, registry};
pub use syscalls::syscalls;
pub use ufs::Ufs;
pub use uring::Uring;
