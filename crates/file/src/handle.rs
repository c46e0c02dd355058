//! File handles: opening, views and file pointers, the access methods, and requests.

pub mod access;
#[cfg(feature = "ndarray")]
pub(crate) mod array_access;
mod buffered_file;
mod collective_access;
mod file;
mod file_view;
mod hint_exchange;
mod open_options;
mod pfs;
mod prefetched_read;
pub mod prefetcher;
mod request;
mod scope;
mod step_predictor;

pub use file::{File, Whence};
pub use open_options::{
    OpenOptions, check_name, check_unclaimed, claim, delete, discard, path, prefix_kind, read,
};
pub use pfs::{Pfs, PfsMode};
pub use prefetcher::PrefetchStats;
pub use request::{Count, Request, wait_all, wait_any, wait_some};
pub use scope::Scope;
