//! The one error type of this layer.

use std::fmt;
use std::sync::Arc;

use aqueduct_comm as comm;
use aqueduct_comm::agreement::SharedError;
pub(crate) use aqueduct_comm::agreement::{agree, agree_with_max};
use aqueduct_file as file;

/// The outcome of an operation on a file of a foreign format.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, coarse enough to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The bytes are no file of the format: damaged, cut off, or something else altogether.
    Damaged = 1,
    /// There is no dimension, variable or attribute of this name or number.
    NoSuchName,
    /// A dimension, variable or attribute of this name is there already.
    NameExists,
    /// Values of another type than the variable's.
    WrongType,
    /// An argument that cannot be.
    BadArgument,
    /// Larger than this version of the format can hold.
    TooLarge,
    /// The definition does not fit the room that was left: data would have to move.
    NeedsRoom,
    /// The file was opened for reading only.
    ReadOnly,
    /// The ranks gave different values for what must be the same.
    NotSame,
    /// A library that a format needs reports an error.
    Library,
    /// The file layer reports an error: [`Error::file_kind`] tells which.
    File,
    /// The ranks could not talk, or another one failed.
    Communication,
    /// Valid in the format, and not implemented here.
    Unsupported,
}

impl Kind {
    const ALL: [Self; 13] = [
        Self::Damaged,
        Self::NoSuchName,
        Self::NameExists,
        Self::WrongType,
        Self::BadArgument,
        Self::TooLarge,
        Self::NeedsRoom,
        Self::ReadOnly,
        Self::NotSame,
        Self::Library,
        Self::File,
        Self::Communication,
        Self::Unsupported,
    ];
}

/// An error with its kind, the operation, the file, and what to know about it.
#[derive(Clone)]
pub struct Error {
    kind: Kind,
    operation: &'static str,
    name: Arc<str>,
    detail: String,
    rank: Option<usize>,
    file: Option<file::Kind>,
}

impl Error {
    /// An error of `kind` in `operation` on the file `name`; `detail` says what happened, where, and the way out.
    pub fn new(kind: Kind, operation: &'static str, name: &str, detail: impl Into<String>) -> Self {
        Self { kind, operation, name: name.into(), detail: detail.into(), rank: None, file: None }
    }

    pub(crate) fn from_comm(operation: &'static str, name: &str, error: &comm::Error) -> Self {
        let kind = if error.kind() == comm::Kind::Mismatch { Kind::NotSame } else { Kind::Communication };
        Self { rank: error.rank(), ..Self::new(kind, operation, name, error.to_string()) }
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
        &self.name
    }

    /// What happened, where, and the way out.
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
        write!(f, "{} {:?}", self.operation, self.name)?;
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

    fn decode(operation: &'static str, name: &str, told: ([u8; 2], String), rank: usize) -> Self {
        let ([code, below], detail) = told;
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == code).unwrap_or(Kind::Communication);
        let file = (below != 0).then(|| file::Kind::from_code(below));
        Self { rank: Some(rank), file, ..Self::new(kind, operation, name, detail) }
    }

    fn from_comm(operation: &'static str, name: &str, error: &comm::Error) -> Self {
        Self::from_comm(operation, name, error)
    }
}
