//! Errors of this layer: the error type of the file layer, and its form in messages to other ranks.

pub(crate) use aqueduct_comm::agreement::agree;
pub use aqueduct_file::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

/// What to do about a file that exists and was to be created.
pub(crate) const EXISTS: &str =
    "it exists and was to be created; replace it with `Options::replace`, or write another file";

/// The same error; for a file that exists and was to be created, with the remedy of an output.
pub(crate) fn with_exists_hint(error: Error) -> Error {
    if error.kind() == Kind::FileExists { error.with_detail(EXISTS) } else { error }
}

/// An error in a message to another rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EncodedError {
    kind: u8,
    operation: String,
    path: String,
    step: Option<u64>,
    detail: String,
    rank: Option<usize>,
}

impl EncodedError {
    /// The form of `error` in a message.
    pub(crate) fn new(error: &Error) -> Self {
        Self {
            kind: error.kind() as u8,
            operation: error.operation().to_owned(),
            path: error.path().to_owned(),
            step: error.step(),
            detail: error.detail().to_owned(),
            rank: error.rank(),
        }
    }

    /// The error as it was, without its cause.
    pub(crate) fn into_error(self) -> Error {
        let made = Error::new(Kind::from_code(self.kind), self.operation, self.path, self.detail);
        let made = self.step.map_or(made.clone(), |step| made.in_step(step));
        self.rank.map_or(made.clone(), |rank| made.on_rank(rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_a_message_keeps_all_but_its_cause() {
        let error = Error::new(Kind::NoSpace, "any operation", "run.out", "full").in_step(7).on_rank(3);
        let back = EncodedError::new(&error).into_error();
        assert_eq!((back.to_string(), back.kind()), (error.to_string(), error.kind()));
        assert_eq!((back.step(), back.rank()), (Some(7), Some(3)));
    }
}
