//! The error type of this layer: its kind, the operation, the file and the offset.

use std::ffi::OsStr;
use std::fmt;
use std::io;

use rustix::io::Errno;

/// The outcome of a device operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The file does not exist and was not to be created.
    NotFound,
    /// The file exists and was to be created exclusively.
    AlreadyExists,
    /// The name is that of a directory, or a part of its path is not a directory.
    NotAFile,
    /// The operating system or the open mode forbids it.
    PermissionDenied,
    /// The device is full, or a file size or capacity limit is reached.
    NoSpace,
    /// The quota of a user, group or project is used up.
    Quota,
    /// The file is open or locked elsewhere.
    Busy,
    /// An invalid name: empty, with a NUL byte, or with a malformed prefix or parameter.
    InvalidName,
    /// The prefix names no registered device.
    UnknownDevice,
    /// An offset, length or alignment that the device cannot serve.
    InvalidArgument,
    /// The device does not have this operation.
    Unsupported,
    /// A limit of the process or system: open files, memory, locks.
    ResourceLimit,
    /// The simulated power is off: all operations fail until the file is opened again.
    PowerLost,
    /// The server that holds the file cannot be reached, or has lost it.
    Disconnected,
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
    /// Reading segments.
    Read,
    /// Writing segments.
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
    /// Closing.
    Close,
    /// A comment in a trace.
    Annotate,
    /// Deleting.
    Delete,
}

/// An error with its kind, operation, file name and, where there is one, the place in the file.
///
/// ```
/// use aqueduct_device::{Error, Kind, Operation};
///
/// let error = Error::new(Kind::NoSpace, Operation::Write, "out.bin").at(4096).after(512);
/// assert_eq!(
///     error.to_string(),
///     "write \"out.bin\" at offset 4096: no space left (after 512 bytes); free some space or raise the limit",
/// );
/// ```
pub struct Error {
    kind: Kind,
    operation: Operation,
    name: String,
    offset: Option<u64>,
    transferred: u64,
    advice: Option<String>,
    source: Option<io::Error>,
}

impl Kind {
    /// What went wrong, in words.
    fn describe(self) -> &'static str {
        match self {
            Kind::NotFound => "no such file",
            Kind::AlreadyExists => "already exists",
            Kind::NotAFile => "not a file",
            Kind::PermissionDenied => "not permitted",
            Kind::NoSpace => "no space left",
            Kind::Quota => "quota exceeded",
            Kind::Busy => "in use",
            Kind::InvalidName => "not a valid name",
            Kind::UnknownDevice => "unknown device",
            Kind::InvalidArgument => "not a valid argument",
            Kind::Unsupported => "not supported by this device",
            Kind::ResourceLimit => "a limit of the process or system is reached",
            Kind::PowerLost => "the power is off",
            Kind::Disconnected => "disconnected",
            Kind::Io => "input/output error",
        }
    }

    /// The default remedy of the kind; [`Error::advise`] replaces it.
    fn remedy(self) -> &'static str {
        match self {
            Kind::NotFound => "check the path, or open with create",
            Kind::AlreadyExists => "choose another name, or do without exclusive",
            Kind::NotAFile => "name a regular file",
            Kind::PermissionDenied => "check the permissions of the file and the mode it was opened in",
            Kind::NoSpace => "free some space or raise the limit",
            Kind::Quota => "delete files that count against the quota, or have it raised",
            Kind::Busy => "close or unlock it elsewhere first",
            Kind::InvalidName => "a name is [prefix[=parameters]:]...path, not empty and without NUL bytes",
            Kind::UnknownDevice => "register the device first; a path with a colon is written ./like:this",
            Kind::InvalidArgument => "offsets and lengths go up to 2^63 - 1",
            Kind::Unsupported => "check the capabilities of the file first",
            Kind::ResourceLimit => "raise the limit (ulimit), or hold fewer resources at once",
            Kind::PowerLost => "open the file again to see what survived",
            Kind::Disconnected => "check that the server runs and that the network works",
            Kind::Io => "check the medium and the system log",
        }
    }

    /// The kind that an error of the operating system means.
    fn of(source: &io::Error, operation: Operation) -> Self {
        use Operation::{Close, Len, Preallocate, Read, SetLen, Sync, Write};
        let code = source.raw_os_error();
        let opened = matches!(operation, Read | Write | Len | SetLen | Preallocate | Sync | Close);
        match code.map(Errno::from_raw_os_error) {
            // For an open file these codes mean that the file system has failed, for example become read-only.
            Some(Errno::ROFS | Errno::NXIO) if opened => Kind::Io,
            _ => code.map_or_else(|| Self::of_std(source.kind()), Self::of_errno),
        }
    }

    fn of_errno(code: i32) -> Self {
        match Errno::from_raw_os_error(code) {
            Errno::NOENT => Kind::NotFound,
            Errno::EXIST => Kind::AlreadyExists,
            Errno::ISDIR | Errno::NOTDIR | Errno::LOOP | Errno::SPIPE | Errno::NXIO => Kind::NotAFile,
            Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::BADF => Kind::PermissionDenied,
            Errno::NOSPC | Errno::FBIG => Kind::NoSpace,
            Errno::DQUOT => Kind::Quota,
            Errno::BUSY | Errno::TXTBSY | Errno::AGAIN | Errno::DEADLK => Kind::Busy,
            Errno::NAMETOOLONG | Errno::ILSEQ => Kind::InvalidName,
            Errno::INVAL | Errno::OVERFLOW => Kind::InvalidArgument,
            Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY => Kind::Unsupported,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOLCK | Errno::NOBUFS => Kind::ResourceLimit,
            _ => Kind::Io,
        }
    }

    fn of_std(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::NotFound => Kind::NotFound,
            io::ErrorKind::AlreadyExists => Kind::AlreadyExists,
            io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => Kind::NotAFile,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Kind::PermissionDenied,
            io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge => Kind::NoSpace,
            io::ErrorKind::QuotaExceeded => Kind::Quota,
            io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock => Kind::Busy,
            io::ErrorKind::InvalidFilename => Kind::InvalidName,
            io::ErrorKind::InvalidInput => Kind::InvalidArgument,
            io::ErrorKind::Unsupported => Kind::Unsupported,
            io::ErrorKind::OutOfMemory => Kind::ResourceLimit,
            _ => Kind::Io,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Resolve => "resolve",
            Operation::Open => "open",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Len => "get the length of",
            Operation::SetLen => "set the length of",
            Operation::Preallocate => "preallocate",
            Operation::Sync => "sync",
            Operation::Lock => "lock",
            Operation::Close => "close",
            Operation::Delete => "delete",
            Operation::Annotate => "remark",
        })
    }
}

impl Error {
    /// An error of this kind; `name` is shown lossily where it is not UTF-8.
    pub fn new(kind: Kind, operation: Operation, name: impl AsRef<OsStr>) -> Self {
        let name = name.as_ref().to_string_lossy().into_owned();
        Self { kind, operation, name, offset: None, transferred: 0, advice: None, source: None }
    }

    /// An error of the operating system; its code determines the kind.
    pub fn from_io(source: io::Error, operation: Operation, name: impl AsRef<OsStr>) -> Self {
        let error = Self::new(Kind::of(&source, operation), operation, name);
        Self { source: Some(source), ..error }
    }

    /// Adds the offset in the file.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Sets how many bytes of the list were transferred before the error.
    #[must_use]
    pub fn after(mut self, transferred: u64) -> Self {
        self.transferred = transferred;
        self
    }

    /// Sets the remedy at the end of the message, instead of the default of the kind.
    #[must_use]
    pub fn advise(mut self, text: impl Into<String>) -> Self {
        self.advice = Some(text.into());
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What was being done.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The name of the file without prefixes; empty if unknown.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The offset in the file, if there is one.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// The underlying error of the operating system, if there is one.
    pub fn cause(&self) -> Option<&io::Error> {
        self.source.as_ref()
    }

    /// How many bytes, counted from the start of the list, were transferred before the error.
    pub fn transferred(&self) -> u64 {
        self.transferred
    }

    /// True if the same call may succeed later without a repair.
    pub fn is_retryable(&self) -> bool {
        let transient = |source: &io::Error| {
            matches!(
                source.kind(),
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            )
        };
        matches!(self.kind, Kind::Busy | Kind::ResourceLimit) || self.source.as_ref().is_some_and(transient)
    }
}

impl Error {
    /// The cause and the remedy alone: for an error that is sent to another process and made anew there.
    pub fn explanation(&self) -> String {
        let remedy = self.advice.as_deref().unwrap_or_else(|| self.kind.remedy());
        self.source.as_ref().map_or_else(|| remedy.to_owned(), |source| format!("{source}; {remedy}"))
    }

    /// The reason and the remedy, without the operation, the name and the offset: for layers that add those themselves.
    pub fn reason(&self) -> String {
        let done =
            if self.transferred > 0 { format!(" (after {} bytes)", self.transferred) } else { String::new() };
        let source = self.source.as_ref().map_or(String::new(), |source| format!(": {source}"));
        let remedy = self.advice.as_deref().unwrap_or_else(|| self.kind.remedy());
        format!("{}{done}{source}; {remedy}", self.kind.describe())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if !self.name.is_empty() {
            write!(f, " {:?}", self.name)?;
        }
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        write!(f, ": {}", self.reason())
    }
}

impl fmt::Debug for Error {
    /// The text of `Display` and then the chain of sources: the form in which `main` prints an error that it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut sources = std::iter::successors(std::error::Error::source(self), |error| error.source());
        sources.try_for_each(|source| write!(f, "\n  caused by: {source}"))
    }
}

impl std::error::Error for Error {
    /// The source of the error of the system, whose own text is a part of this error's.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().and_then(std::error::Error::source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_code_determines_the_kind() {
        let kind = |errno: Errno| Error::from_io(errno.into(), Operation::Open, "x").kind();
        assert_eq!(kind(Errno::NOENT), Kind::NotFound);
        assert_eq!(kind(Errno::ISDIR), Kind::NotAFile);
        assert_eq!(kind(Errno::NOSPC), Kind::NoSpace);
        assert_eq!(kind(Errno::FBIG), Kind::NoSpace);
        assert_eq!(kind(Errno::DQUOT), Kind::Quota);
        assert_eq!(kind(Errno::MFILE), Kind::ResourceLimit);
        assert_eq!(kind(Errno::IO), Kind::Io);
        assert_eq!(kind(Errno::ROFS), Kind::PermissionDenied);
        for operation in [Operation::Write, Operation::Sync, Operation::SetLen, Operation::Close] {
            let error = Error::from_io(Errno::ROFS.into(), operation, "x");
            assert_eq!(error.kind(), Kind::Io, "the file system has become read-only: {error}");
        }
        let plain = io::Error::from(io::ErrorKind::NotFound);
        assert_eq!(Error::from_io(plain, Operation::Open, "x").kind(), Kind::NotFound);
    }

    #[test]
    fn the_message_has_operation_name_offset_count_and_remedy() {
        let error = Error::from_io(Errno::NOSPC.into(), Operation::Write, "a\nb")
            .at(7)
            .after(3)
            .advise("free some space");
        let text = error.to_string();
        assert!(text.starts_with(r#"write "a\nb" at offset 7: no space left (after 3 bytes): "#), "{text}");
        assert!(text.ends_with("; free some space"), "{text}");
        assert_eq!(error.cause().and_then(std::io::Error::raw_os_error), Some(Errno::NOSPC.raw_os_error()));
    }

    #[test]
    fn only_transient_errors_are_retryable() {
        assert!(Error::from_io(Errno::INTR.into(), Operation::Read, "x").is_retryable());
        assert!(Error::new(Kind::Busy, Operation::Delete, "x").is_retryable());
        assert!(!Error::new(Kind::NoSpace, Operation::Write, "x").is_retryable());
        assert!(!Error::from_io(Errno::IO.into(), Operation::Read, "x").is_retryable());
    }

    #[test]
    fn names_that_are_not_utf8_are_shown_lossily() {
        use std::os::unix::ffi::OsStrExt;
        let error = Error::new(Kind::NotFound, Operation::Open, OsStr::from_bytes(b"a\xff"));
        assert_eq!(error.name(), "a\u{fffd}");
    }
}
