//! The one error type of this layer, and the MPI error class of each of its kinds.

use std::fmt;
use std::sync::Arc;

use aqueduct_comm as comm;
use aqueduct_device as device;

/// The outcome of a file operation.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, coarse enough to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The file does not exist and was not to be created.
    NoSuchFile = 1,
    /// The file exists and was to be created exclusively.
    FileExists,
    /// The name cannot be one, or names a directory.
    BadName,
    /// The ranks gave different values for an argument that must be the same.
    NotSame,
    /// The access mode contradicts itself.
    BadMode,
    /// The operating system forbids it.
    AccessDenied,
    /// The file was opened for reading only.
    ReadOnly,
    /// The file was opened for writing only.
    WriteOnly,
    /// The device is full.
    NoSpace,
    /// The file is open elsewhere.
    InUse,
    /// An offset, size or other argument that cannot be.
    BadArgument,
    /// A number of elements that does not fit memory or file.
    BadCount,
    /// A layout that cannot be what it is used as: an etype, a filetype, a buffer.
    BadLayout,
    /// The file's mode or device does not have this operation.
    Unsupported,
    /// A data representation that is not registered.
    UnknownRepresentation,
    /// A data representation registered twice.
    RepresentationExists,
    /// A conversion between representations failed.
    Conversion,
    /// A split collective operation is in progress, or none is.
    SplitPending,
    /// A request that has already given its result.
    RequestGone,
    /// The file is closed, or an earlier failed sync has made it unusable.
    Closed,
    /// The medium reports an error.
    Io,
    /// Another rank of a collective operation failed, or communication failed.
    Communication,
    /// The quota of a user, group or project is used up.
    Quota,
}

/// The MPI error classes that file operations give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "they are the standard's own names")]
pub enum Class {
    Access,
    Amode,
    Arg,
    BadFile,
    Conversion,
    Count,
    DupDatarep,
    File,
    FileExists,
    FileInUse,
    Io,
    NoSpace,
    NoSuchFile,
    NotSame,
    Other,
    Quota,
    ReadOnly,
    Request,
    Type,
    UnsupportedDatarep,
    UnsupportedOperation,
}

impl Kind {
    const ALL: [Self; 23] = [
        Self::NoSuchFile,
        Self::FileExists,
        Self::BadName,
        Self::NotSame,
        Self::BadMode,
        Self::AccessDenied,
        Self::ReadOnly,
        Self::WriteOnly,
        Self::NoSpace,
        Self::InUse,
        Self::BadArgument,
        Self::BadCount,
        Self::BadLayout,
        Self::Unsupported,
        Self::UnknownRepresentation,
        Self::RepresentationExists,
        Self::Conversion,
        Self::SplitPending,
        Self::RequestGone,
        Self::Closed,
        Self::Io,
        Self::Communication,
        Self::Quota,
    ];

    /// The class the MPI standard has for it.
    pub fn class(self) -> Class {
        match self {
            Self::NoSuchFile => Class::NoSuchFile,
            Self::FileExists => Class::FileExists,
            Self::BadName => Class::BadFile,
            Self::NotSame => Class::NotSame,
            Self::BadMode => Class::Amode,
            Self::AccessDenied | Self::WriteOnly => Class::Access,
            Self::ReadOnly => Class::ReadOnly,
            Self::NoSpace => Class::NoSpace,
            Self::InUse => Class::FileInUse,
            Self::BadArgument => Class::Arg,
            Self::BadCount => Class::Count,
            Self::BadLayout => Class::Type,
            Self::Unsupported | Self::SplitPending => Class::UnsupportedOperation,
            Self::UnknownRepresentation => Class::UnsupportedDatarep,
            Self::RepresentationExists => Class::DupDatarep,
            Self::Conversion => Class::Conversion,
            Self::RequestGone => Class::Request,
            Self::Closed => Class::File,
            Self::Io => Class::Io,
            Self::Communication => Class::Other,
            Self::Quota => Class::Quota,
        }
    }

    /// The kind with this number (`kind as u8`), as in messages between ranks.
    pub fn from_code(code: u8) -> Self {
        Self::ALL.iter().copied().find(|kind| *kind as u8 == code).unwrap_or(Self::Communication)
    }
}

impl From<device::Kind> for Kind {
    fn from(kind: device::Kind) -> Self {
        match kind {
            device::Kind::NotFound => Self::NoSuchFile,
            device::Kind::AlreadyExists => Self::FileExists,
            device::Kind::NotAFile | device::Kind::InvalidName | device::Kind::UnknownDevice => Self::BadName,
            device::Kind::PermissionDenied => Self::AccessDenied,
            device::Kind::NoSpace => Self::NoSpace,
            device::Kind::Quota => Self::Quota,
            device::Kind::Busy => Self::InUse,
            device::Kind::InvalidArgument => Self::BadArgument,
            device::Kind::Unsupported => Self::Unsupported,
            _ => Self::Io,
        }
    }
}

/// An error with its kind, the operation, the file, and what to know about it.
#[derive(Clone)]
pub struct Error {
    kind: Kind,
    operation: &'static str,
    file: Arc<str>,
    detail: String,
    rank: Option<usize>,
    transferred: u64,
}

impl Error {
    /// An error of `kind` in `operation` on `file`; `detail` says what happened and the way out.
    pub fn new(kind: Kind, operation: &'static str, file: &Arc<str>, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { kind, operation, file: Arc::clone(file), detail, rank: None, transferred: 0 }
    }

    /// An error of the device.
    pub(crate) fn device(operation: &'static str, file: &Arc<str>, error: &device::Error) -> Self {
        let place = error.offset().map_or(String::new(), |offset| format!("at byte {offset}: "));
        let made = Self::new(error.kind().into(), operation, file, place + &error.reason());
        made.after(error.transferred())
    }

    /// An error of the communicator.
    pub(crate) fn communication(operation: &'static str, file: &Arc<str>, error: &comm::Error) -> Self {
        let kind = if error.kind() == comm::Kind::Mismatch { Kind::NotSame } else { Kind::Communication };
        let made = Self::new(kind, operation, file, error.to_string());
        error.rank().map_or(made.clone(), |rank| made.on_rank(rank))
    }

    /// Names the rank it happened on, where that is another one.
    #[must_use]
    pub fn on_rank(mut self, rank: usize) -> Self {
        self.rank = Some(rank);
        self
    }

    /// Says how many bytes were transferred before it.
    #[must_use]
    pub fn after(mut self, transferred: u64) -> Self {
        self.transferred = transferred;
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The class the MPI standard has for it.
    pub fn class(&self) -> Class {
        self.kind.class()
    }

    /// What was being done.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What happened, and the way out.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The rank it happened on, where that is not (only) this one.
    pub fn rank(&self) -> Option<usize> {
        self.rank
    }

    /// How many bytes were transferred before it.
    pub fn transferred(&self) -> u64 {
        self.transferred
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.operation, self.file)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_kinds_are_unique() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_code(kind as u8), kind);
        }
        assert_eq!(Kind::from_code(0), Kind::Communication);
    }

    #[test]
    fn an_error_names_operation_file_and_rank() {
        let error = Error::new(Kind::NoSpace, "write_at", &"run.bin".into(), "the disk is full").on_rank(3);
        assert_eq!(error.to_string(), r#"write_at "run.bin" on rank 3: the disk is full"#);
        assert_eq!(error.class(), Class::NoSpace);
    }
}
