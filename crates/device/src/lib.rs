//! Where bytes live.

mod capabilities;
mod device;
mod error;
mod lock;
mod memfs;
pub mod name;
mod options;
pub mod piece;
mod registry;

pub use capabilities::{Capabilities, LockScope};
pub use device::{Device, Handle, HandleExt, LockGuard, LockKind, SyncScope};
pub use error::{Error, Kind, Operation, Result};
pub use lock::{RangeGuard, RangeLocks};
pub use memfs::MemFs;
pub use options::OpenOptions;
pub use piece::{Extent, Piece, PieceMut, total, total_mut};
pub use registry::{Registry, delete, open, register_device, register_wrapper, registry};
