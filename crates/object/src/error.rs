//! Errors of this layer: the error type of the file layer.

pub(crate) use aqueduct_comm::agreement::{agree, from_root};
pub use aqueduct_file::{Error, Kind, Result};

use crate::schema::SchemaMismatch;

/// The objects are of another type than the program's.
pub(crate) fn wrong_type(operation: &'static str, path: &str, mismatch: &SchemaMismatch) -> Error {
    Error::new(Kind::WrongType, operation, path, mismatch.to_string())
}
