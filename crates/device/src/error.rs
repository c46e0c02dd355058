//! The one error type of this layer: what happened, doing what, to which file, at which place.

use std::fmt;
use std::io;

/// The outcome of a device operation.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, coarse enough to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The file does not exist and was not to be created.
    NotFound,
    /// The file exists and was to be created exclusively.
    AlreadyExists,
    /// The name is that of a directory, or a directory of its path is none.
    NotAFile,
    /// The operating system or the open mode forbids it.
    PermissionDenied,
    /// The device is full, or a quota or capacity limit is reached.
    NoSpace,
    /// The file is open or locked elsewhere.
    Busy,
    /// The name cannot be one: empty, a NUL byte, a malformed prefix or parameter.
    InvalidName,
    /// The prefix names no registered device.
    UnknownDevice,
    /// An offset, length or alignment that the device cannot serve.
    InvalidArgument,
    /// The device does not have this operation.
    Unsupported,
    /// A limit of the process or system: open files, memory, locks.
    ResourceLimit,
    /// The simulated power is off: nothing works until the file is opened anew.
    PowerLost,
    /// Anything else the medium reports.
    Io,
}

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Finding the device that a name means.
    Resolve,
    /// Opening or creating.
    Open,
    /// Reading pieces.
    Read,
    /// Writing pieces.
    Write,
    /// Asking for the length.
    Len,
    /// Setting the length.
    SetLen,
    /// Reserving space.
    Preallocate,
    /// Making data durable.
    Sync,
    /// Locking a range.
    Lock,
    /// Deleting.
    Delete,
}

/// An error with its kind, operation, file name and, where there is one, the place in the file.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    operation: Operation,
    name: String,
    offset: Option<u64>,
    transferred: u64,
    advice: Option<String>,
    source: Option<io::Error>,
}
