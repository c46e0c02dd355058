//! The one error type of this layer.

use std::fmt;
use std::sync::Arc;

use aqueduct_comm as comm;
use aqueduct_comm::agreement::SharedError;
pub(crate) use aqueduct_comm::agreement::{agree, from_root};
use aqueduct_file as file;

use crate::schema::SchemaMismatch;

/// The outcome of an operation on objects.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, coarse enough to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The objects are of another type than the program's.
    WrongType = 1,
    /// The bytes are no objects of the type: changed, cut off, or never written.
    Damaged,
    /// Writing was begun and not committed.
    NotComplete,
    /// There is no `.meta` beside the data.
    NoMeta,
    /// Written by a later version of this library.
    UnknownVersion,
    /// An argument that cannot be.
    BadArgument,
    /// The file or the type does not have this operation.
    Unsupported,
    /// The file layer reports an error: [`Error::file_kind`] tells which.
    File,
    /// The ranks could not talk, or another one failed.
    Communication,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::WrongType,
        Self::Damaged,
        Self::NotComplete,
        Self::NoMeta,
        Self::UnknownVersion,
        Self::BadArgument,
        Self::Unsupported,
        Self::File,
        Self::Communication,
    ];
}

/// An error with its kind, the operation, the file or message, and what to know about it.
#[derive(Clone)]
pub struct Error {
    kind: Kind,
    operation: &'static str,
    place: Arc<str>,
    detail: String,
    rank: Option<usize>,
    file: Option<file::Kind>,
}

impl Error {
    /// An error of `kind` in `operation` on `place`, a file or a message; `detail` says what happened and the way out.
    pub fn new(kind: Kind, operation: &'static str, place: &str, detail: impl Into<String>) -> Self {
        Self { kind, operation, place: place.into(), detail: detail.into(), rank: None, file: None }
    }

    pub(crate) fn wrong_type(operation: &'static str, place: &str, mismatch: &SchemaMismatch) -> Self {
        Self::new(Kind::WrongType, operation, place, mismatch.to_string())
    }

    pub(crate) fn from_comm(operation: &'static str, place: &str, error: &comm::Error) -> Self {
        Self { rank: error.rank(), ..Self::new(Kind::Communication, operation, place, error.to_string()) }
    }

    /// The error of a collective access of the file layer: that of a rank which came with its own, refused, has the kind it had there.
    pub(crate) fn from_collective(error: file::Error) -> Self {
        let kind = match error.kind() {
            file::Kind::BadArgument => Kind::BadArgument,
            file::Kind::Unsupported => Kind::Unsupported,
            _ => Kind::File,
        };
        Self { kind, ..Self::from(error) }
    }

    /// The same for the file layer, to be brought to a collective access: all ranks learn of it there, without a meeting of its own.
    pub(crate) fn to_file_error(&self) -> file::Error {
        let kind = match (self.file, self.kind) {
            (Some(kind), _) => kind,
            (None, Kind::Unsupported) => file::Kind::Unsupported,
            (None, Kind::Communication) => file::Kind::Communication,
            (None, _) => file::Kind::BadArgument,
        };
        file::Error::new(kind, self.operation, &self.place, self.detail.clone())
    }

    /// What went wrong.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What was being done.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The file, or which message it was.
    pub fn place(&self) -> &str {
        &self.place
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
        self.file
    }
}

impl From<file::Error> for Error {
    fn from(error: file::Error) -> Self {
        let made = Self::new(Kind::File, error.operation(), error.file(), error.detail());
        Self { rank: error.rank(), file: Some(error.kind()), ..made }
    }
}

impl From<comm::Error> for Error {
    fn from(error: comm::Error) -> Self {
        Self::from_comm(error.call(), "the ranks", &error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.operation, self.place)?;
        if let Some(rank) = self.rank {
            write!(f, " on rank {rank}")?;
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

impl SharedError for Error {
    fn encode(&self) -> ([u8; 2], &str) {
        ([self.kind as u8, self.file.map_or(0, |kind| kind as u8)], &self.detail)
    }

    fn decode(operation: &'static str, place: &str, told: ([u8; 2], String), rank: usize) -> Self {
        let ([code, below], detail) = told;
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == code).unwrap_or(Kind::Communication);
        let file = (below != 0).then(|| file::Kind::from_code(below));
        Self { rank: Some(rank), file, ..Self::new(kind, operation, place, detail) }
    }

    fn from_comm(operation: &'static str, place: &str, error: &comm::Error) -> Self {
        Self::from_comm(operation, place, error)
    }
}
