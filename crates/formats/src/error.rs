//! Errors of this layer: the error type of the file layer.

pub(crate) use aqueduct_comm::agreement::{agree, agree_with_max};
pub use aqueduct_file::{Error, Kind, Result};
