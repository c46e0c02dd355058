//! The one error type of this layer.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub(crate) use aqueduct_comm::agreement::agree;
use aqueduct_comm::agreement::{SharedError, from_root};
use aqueduct_comm::{self as comm, Comm};
use aqueduct_file as file;
use aqueduct_formats as format;

/// The outcome of an operation on a checkpoint, a cell file or a phase-space file.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, coarse enough to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The bytes are not what they should be: malformed, cut off, or a checksum does not fit.
    Damaged = 1,
    /// A later version of the format, or a byte order, that this program does not read: nothing is known about the bytes.
    Unsupported,
    /// The file was never finished.
    Incomplete,
    /// There is no committed checkpoint.
    NoCheckpoint,
    /// The checkpoint has no part of this name.
    NoSuchPart,
    /// The part holds something else than what is asked for.
    WrongType,
    /// An argument that cannot be.
    BadArgument,
    /// Two ranks hold particles of the same cell, or wrote the same part of an array.
    Overlap,
    /// Someone else is writing here.
    InUse,
    /// What the format cannot hold.
    NotHeld,
    /// The ranks gave different values for what must be the same.
    NotSame,
    /// The file layer reports an error: [`Error::file_kind`] tells which.
    File,
    /// The ranks could not talk, or another one failed.
    Communication,
}

impl Kind {
    /// What can be done about it whatever the place, where the detail does not say it.
    fn advice(self) -> &'static str {
        match self {
            Self::Damaged => "; mend it, write it again, or take an older one",
            Self::Unsupported => "; read it with a program that knows it",
            Self::Incomplete => "; write it again, or take an older one",
            _ => "",
        }
    }

    const ALL: [Self; 13] = [
        Self::Damaged,
        Self::Unsupported,
        Self::Incomplete,
        Self::NoCheckpoint,
        Self::NoSuchPart,
        Self::WrongType,
        Self::BadArgument,
        Self::Overlap,
        Self::InUse,
        Self::NotHeld,
        Self::NotSame,
        Self::File,
        Self::Communication,
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

    /// What the operating system says of a folder or file that the engine does not access.
    pub(crate) fn system(operation: &'static str, path: &Path, error: &io::Error) -> Self {
        let way_out = match error.kind() {
            io::ErrorKind::NotFound => "; check the path: something was moved or removed",
            io::ErrorKind::PermissionDenied => "; make it accessible to this program, or name another folder",
            io::ErrorKind::ReadOnlyFilesystem => "; name a folder on a medium that can be written",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "; make room, or name a folder on another medium"
            }
            _ => "",
        };
        Self::named(operation, path, error, format!("{error}{way_out}"))
    }

    /// The same where it is known what that means.
    pub(crate) fn named(
        operation: &'static str,
        path: &Path,
        error: &io::Error,
        detail: impl Into<String>,
    ) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => file::Kind::NoSuchFile,
            io::ErrorKind::PermissionDenied => file::Kind::AccessDenied,
            io::ErrorKind::StorageFull => file::Kind::NoSpace,
            io::ErrorKind::QuotaExceeded => file::Kind::Quota,
            io::ErrorKind::AlreadyExists => file::Kind::FileExists,
            _ => file::Kind::Io,
        };
        let made = Self::new(Kind::File, operation, &path.to_string_lossy(), detail);
        Self { file: Some(kind), ..made }
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

impl From<format::Error> for Error {
    fn from(error: format::Error) -> Self {
        let kind = match error.kind() {
            format::Kind::Damaged => Kind::Damaged,
            format::Kind::NotSame => Kind::NotSame,
            format::Kind::Communication => Kind::Communication,
            format::Kind::NoSuchName | format::Kind::WrongType => Kind::WrongType,
            format::Kind::File => Kind::File,
            _ => Kind::NotHeld,
        };
        let made = Self::new(kind, error.operation(), error.file(), error.detail());
        Self { rank: error.rank(), file: error.file_kind(), ..made }
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
        write!(f, ": {}{}", self.detail, self.kind.advice())
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

/// What rank 0 alone does, its bytes at every rank; or its error.
pub(crate) fn on_root(
    comm: &Comm,
    operation: &'static str,
    name: &str,
    work: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    from_root(comm, operation, name, if comm.rank() == 0 { work() } else { Ok(Vec::new()) })
}
