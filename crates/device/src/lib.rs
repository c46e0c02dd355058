//! Where bytes live.

mod capabilities;
mod device;
mod error;
mod options;
mod piece;

pub use capabilities::{Capabilities, LockScope};
pub use device::{Device, Handle, HandleExt, LockGuard, LockKind, SyncScope};
pub use error::{Error, Kind, Operation, Result};
pub use options::OpenOptions;
pub use piece::{Piece, PieceMut, total, total_mut};
