//! What access means: all of MPI-IO as an idiomatic interface over ranks and devices.

pub mod access;
mod core;
mod error;
mod file;
mod hints;
pub mod layout;
mod memory;
mod mode;
mod open;
pub mod plan;
mod queue;
mod representation;
mod request;
mod shared_pointer;
mod transfer;
mod two_phase;
mod view;

pub use access::{Access, Etypes, Split, Together};
pub use error::{Class, Error, Kind, Result};
pub use file::{File, Whence};
pub use hints::{Hints, Info, Toggle};
pub use memory::{Buffer, LaidOut, Sink, Source};
pub use mode::Mode;
pub use open::{Open, delete};
pub use representation::{Conversion, Representation};
pub use request::{Count, Request, wait_all, wait_any, wait_some};
pub use view::View;
