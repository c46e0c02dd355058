//! Errors of this layer: the error type of the file layer.

pub(crate) use aqueduct_comm::agreement::agree;
pub use aqueduct_file::{Error, Kind, Result};

/// What to do about a file that exists and was to be created.
pub(crate) const EXISTS: &str =
    "it exists and was to be created; replace it with `Options::replace`, or write another file";

/// The same error; for a file that exists and was to be created, with the remedy of an output.
pub(crate) fn with_exists_hint(error: Error) -> Error {
    if error.kind() == Kind::FileExists { error.with_detail(EXISTS) } else { error }
}
