//! The one error type of this layer: which operation, which file, which step.

use std::fmt;
use std::sync::Arc;

use aqueduct_comm as comm;
pub(crate) use aqueduct_comm::agreement::agree;
use aqueduct_file as file;
use serde::{Deserialize, Serialize};

/// The outcome of an operation on streams.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, coarse enough to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A declaration or an argument that cannot be.
    BadArgument = 1,
    /// The ranks declared different streams.
    NotSame,
    /// No stream or step of this name or number, or one of another kind of values.
    NoSuch,
    /// The file was begun, and the program ended before anything could be read.
    NotComplete,
    /// The bytes are not what was written.
    Damaged,
    /// Written by a later version of this library.
    UnknownVersion,
    /// The machine or the MPI library does not have this.
    Unsupported,
    /// The file layer reports an error: [`Error::file_kind`] tells which.
    File,
    /// The ranks could not talk, or another one failed.
    Communication,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::BadArgument,
        Self::NotSame,
        Self::NoSuch,
        Self::NotComplete,
        Self::Damaged,
        Self::UnknownVersion,
        Self::Unsupported,
        Self::File,
        Self::Communication,
    ];

    fn from_code(code: u8) -> Self {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code).unwrap_or(Self::Communication)
    }
}

/// What to do about a file that exists and was to be created.
pub(crate) const EXISTS: &str =
    "it exists and was to be created; replace it with `Options::replace`, or write another file";

/// An error with its kind, the operation, the file, the step where there is one, and what to know about it.
#[derive(Clone)]
pub struct Error {
    kind: Kind,
    operation: &'static str,
    file: Arc<str>,
    step: Option<u64>,
    detail: String,
    rank: Option<usize>,
    below: Option<file::Kind>,
}

impl Error {
    /// An error of `kind` in `operation` on `file`; `detail` says what happened and the way out.
    pub fn new(kind: Kind, operation: &'static str, file: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { kind, operation, file: file.into(), step: None, detail, rank: None, below: None }
    }

    pub(crate) fn from_comm(operation: &'static str, file: &str, error: &comm::Error) -> Self {
        Self { rank: error.rank(), ..Self::new(Kind::Communication, operation, file, error.to_string()) }
    }

    /// The same; where a file exists that was to be created, with what a program that writes streams can do.
    pub(crate) fn with_exists_hint(self) -> Self {
        match self.below {
            Some(file::Kind::FileExists) => Self { detail: EXISTS.to_owned(), ..self },
            _ => self,
        }
    }

    /// Names the step it belongs to, unless it names one already.
    #[must_use]
    pub fn in_step(mut self, step: u64) -> Self {
        self.step.get_or_insert(step);
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What was being done.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The step it belongs to, where it belongs to one.
    pub fn step(&self) -> Option<u64> {
        self.step
    }

    /// What happened, and the way out.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The rank it happened on, where that is not (only) this one.
    pub fn rank(&self) -> Option<usize> {
        self.rank
    }

    /// What went wrong in the file layer, if it did there.
    pub fn file_kind(&self) -> Option<file::Kind> {
        self.below
    }

    /// The same for the file layer, so that this rank takes part in a collective operation with its error.
    pub(crate) fn to_file_error(&self) -> file::Error {
        let kind = self.below.unwrap_or(file::Kind::BadArgument);
        file::Error::new(kind, self.operation, &self.file, &self.detail)
    }
}

/// An error on its way to another rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EncodedError {
    kind: u8,
    operation: String,
    file: String,
    step: Option<u64>,
    detail: String,
    rank: Option<usize>,
    below: Option<u8>,
}

impl Error {
    /// As it is told to another rank.
    pub(crate) fn to_encoded(&self) -> EncodedError {
        EncodedError {
            kind: self.kind as u8,
            operation: self.operation.to_owned(),
            file: self.file.to_string(),
            step: self.step,
            detail: self.detail.clone(),
            rank: self.rank,
            below: self.below.map(|kind| kind as u8),
        }
    }
}

impl EncodedError {
    /// As it was before.
    pub(crate) fn into_error(self) -> Error {
        const KNOWN: [&str; 8] = ["write", "create", "sync", "finish", "commit", "fetch", "close", "open"];
        let operation = KNOWN.into_iter().find(|known| *known == self.operation).unwrap_or("write");
        let made = Error::new(Kind::from_code(self.kind), operation, &self.file, self.detail);
        Error { step: self.step, rank: self.rank, below: self.below.map(file::Kind::from_code), ..made }
    }
}

impl From<file::Error> for Error {
    fn from(error: file::Error) -> Self {
        let made = Self::new(Kind::File, error.operation(), error.file(), error.detail());
        Self { rank: error.rank(), below: Some(error.kind()), ..made }
    }
}

impl From<aqueduct_formats::Error> for Error {
    fn from(error: aqueduct_formats::Error) -> Self {
        let kind = match error.kind() {
            aqueduct_formats::Kind::File => Kind::File,
            aqueduct_formats::Kind::Communication => Kind::Communication,
            aqueduct_formats::Kind::NotSame => Kind::NotSame,
            aqueduct_formats::Kind::Damaged => Kind::Damaged,
            _ => Kind::BadArgument,
        };
        let made = Self::new(kind, error.operation(), error.file(), error.detail());
        Self { rank: error.rank(), below: error.file_kind(), ..made }
    }
}

impl From<aqueduct_object::Error> for Error {
    fn from(error: aqueduct_object::Error) -> Self {
        let kind = match error.kind() {
            aqueduct_object::Kind::File => Kind::File,
            aqueduct_object::Kind::Communication => Kind::Communication,
            aqueduct_object::Kind::Damaged | aqueduct_object::Kind::NoMeta => Kind::Damaged,
            aqueduct_object::Kind::NotComplete => Kind::NotComplete,
            aqueduct_object::Kind::UnknownVersion => Kind::UnknownVersion,
            aqueduct_object::Kind::Unsupported => Kind::Unsupported,
            aqueduct_object::Kind::WrongType => Kind::NoSuch,
            aqueduct_object::Kind::BadArgument => Kind::BadArgument,
        };
        let made = Self::new(kind, error.operation(), error.place(), error.detail());
        Self { rank: error.rank(), below: error.file_kind(), ..made }
    }
}

impl From<comm::Error> for Error {
    fn from(error: comm::Error) -> Self {
        Self::from_comm(error.call(), "the ranks", &error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.operation, self.file)?;
        if let Some(step) = self.step {
            write!(f, ", step {step}")?;
        }
        if let Some(rank) = self.rank {
            write!(f, ", on rank {rank}")?;
        }
        write!(f, ": {}", self.detail)
    }
}

impl fmt::Debug for Error {
    /// The text of `Display`: the form in which `main` prints an error that it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl comm::agreement::SharedError for Error {
    fn encode(&self) -> ([u8; 2], &str) {
        ([self.kind as u8, self.below.map_or(0, |kind| kind as u8)], &self.detail)
    }

    fn decode(operation: &'static str, file: &str, told: ([u8; 2], String), rank: usize) -> Self {
        let ([code, below], detail) = told;
        let below = (below != 0).then(|| file::Kind::from_code(below));
        Self { rank: Some(rank), below, ..Self::new(Kind::from_code(code), operation, file, detail) }
    }

    fn from_comm(operation: &'static str, file: &str, error: &comm::Error) -> Self {
        Self::from_comm(operation, file, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_operation_file_step_and_rank() {
        let error = Error::new(Kind::File, "write", "run.out", "the disk is full").in_step(7).in_step(9);
        assert_eq!(error.to_string(), r#"write "run.out", step 7: the disk is full"#);
        assert_eq!(error.step(), Some(7));
        for kind in Kind::ALL {
            assert_eq!(Kind::from_code(kind as u8), kind);
        }
        let text = serde_json::to_vec(&error.to_encoded()).unwrap();
        let back = serde_json::from_slice::<EncodedError>(&text).unwrap().into_error();
        assert_eq!((back.to_string(), back.kind()), (error.to_string(), error.kind()));
    }
}
