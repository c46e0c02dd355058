//! The kinds of errors, and the MPI error class of each.

use std::io;

use aqueduct_device as device;

/// What went wrong. Files, objects, formats, streams and checkpoints share the kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// The file does not exist and was not to be created.
    NoSuchFile = 1,
    /// The file exists and was to be created exclusively.
    FileExists,
    /// The name is invalid, or names a directory.
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
    /// The file is open elsewhere, or another program is writing it.
    InUse,
    /// An invalid offset, size, declaration or other argument.
    BadArgument,
    /// A number of elements that does not fit memory or file.
    BadCount,
    /// A layout that cannot be used as an etype, a filetype or a buffer.
    BadLayout,
    /// The file, its type, mode or device, or the MPI library does not support this operation.
    Unsupported,
    /// A data representation that is not registered.
    UnknownRepresentation,
    /// A data representation registered twice.
    RepresentationExists,
    /// A conversion between representations failed.
    Conversion,
    /// A split collective operation is in progress, or none is.
    SplitPending,
    /// The request has already returned its result.
    RequestGone,
    /// The file is closed, or an earlier failed sync has made it unusable.
    Closed,
    /// The medium reports an error.
    Io,
    /// Another rank of a collective operation failed, or communication failed.
    Communication,
    /// The quota of a user, group or project is used up.
    Quota,
    /// The bytes are not what the format or the type requires: changed, truncated, or never written.
    Damaged,
    /// Writing was begun and not completed.
    Incomplete,
    /// Written by a later version of the format, or in a byte order that is not supported.
    UnknownVersion,
    /// An object file without its metadata file.
    NoMetadata,
    /// The values or objects stored are of another type than the program's.
    WrongType,
    /// No dimension, variable, attribute, stream, step or part of this name or number.
    NoSuchName,
    /// A dimension, variable or attribute of this name exists.
    NameExists,
    /// Larger than this version of the format allows.
    TooLarge,
    /// The definitions do not fit the space reserved for the header: data would have to move.
    HeaderFull,
    /// The format cannot represent the values.
    NotRepresentable,
    /// Two ranks hold particles of one cell, or wrote the same part of an array.
    Overlap,
    /// No committed checkpoint exists.
    NoCheckpoint,
    /// A library that a format needs reports an error.
    Library,
    /// The program of a rank failed with an error of another type, or panicked.
    Program,
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
    pub(super) const ALL: [Self; 37] = [
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
        Self::Damaged,
        Self::Incomplete,
        Self::UnknownVersion,
        Self::NoMetadata,
        Self::WrongType,
        Self::NoSuchName,
        Self::NameExists,
        Self::TooLarge,
        Self::HeaderFull,
        Self::NotRepresentable,
        Self::Overlap,
        Self::NoCheckpoint,
        Self::Library,
        Self::Program,
    ];

    /// Its error class of the MPI standard.
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
            Self::Quota => Class::Quota,
            Self::Communication
            | Self::Damaged
            | Self::Incomplete
            | Self::UnknownVersion
            | Self::NoMetadata
            | Self::WrongType
            | Self::NoSuchName
            | Self::NameExists
            | Self::TooLarge
            | Self::HeaderFull
            | Self::NotRepresentable
            | Self::Overlap
            | Self::NoCheckpoint
            | Self::Library
            | Self::Program => Class::Other,
        }
    }

    /// The remedy of an error whose detail names none.
    pub(super) fn remedy(self) -> Option<&'static str> {
        match self {
            Self::Damaged => Some("repair it, write it again, or use an older one"),
            Self::Incomplete => Some("write it again, or use an older one"),
            Self::UnknownVersion => Some("read it with a program that supports it"),
            _ => None,
        }
    }

    /// The kind of an error of the operating system, where no device was involved.
    pub(super) fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NoSuchFile,
            io::ErrorKind::PermissionDenied => Self::AccessDenied,
            io::ErrorKind::StorageFull => Self::NoSpace,
            io::ErrorKind::QuotaExceeded => Self::Quota,
            io::ErrorKind::AlreadyExists => Self::FileExists,
            _ => Self::Io,
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
