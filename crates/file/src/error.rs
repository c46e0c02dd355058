//! The error type of this layer and of all layers above it.

mod kind;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use aqueduct_comm as comm;
use aqueduct_comm::agreement::SharedError;
use aqueduct_device as device;

pub use kind::{Class, Kind};

/// The outcome of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error: its kind, the operation, the file, where it happened, and the remedy.
///
/// It is the one error type of files, objects, formats, streams and checkpoints. A failure of the
/// medium keeps its kind through all layers: a full disk is [`Kind::NoSpace`] in a write to a file
/// and in a checkpoint.
///
/// ```
/// use aqueduct_file::{Error, Kind};
///
/// let error = Error::new(Kind::NoSpace, "write", "run.out", "the disk is full; free some space");
/// let error = error.in_step(7).on_rank(3);
/// assert_eq!(
///     error.to_string(),
///     r#"write "run.out", step 7, on rank 3: the disk is full; free some space"#,
/// );
/// ```
#[derive(Clone)]
pub struct Error(Box<ErrorFields>);

#[derive(Clone)]
struct ErrorFields {
    kind: Kind,
    operation: Cow<'static, str>,
    path: Arc<str>,
    step: Option<u64>,
    detail: String,
    rank: Option<usize>,
    transferred: u64,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` in `operation` on the file or message `path`. `detail` says what happened
    /// and, after a semicolon, the remedy.
    pub fn new(
        kind: Kind,
        operation: impl Into<Cow<'static, str>>,
        path: impl AsRef<str>,
        detail: impl Into<String>,
    ) -> Self {
        Self(Box::new(ErrorFields {
            kind,
            operation: operation.into(),
            path: path.as_ref().into(),
            step: None,
            detail: detail.into(),
            rank: None,
            transferred: 0,
            cause: None,
        }))
    }

    /// An error of the device.
    pub(crate) fn device(operation: &'static str, path: &str, error: device::Error) -> Self {
        let place = error.offset().map_or(String::new(), |offset| format!("at byte {offset}: "));
        let made = Self::new(error.kind().into(), operation, path, place + &error.reason());
        made.after(error.transferred()).with_cause(error)
    }

    /// An error of the communicator.
    pub fn from_comm(
        operation: impl Into<Cow<'static, str>>,
        path: impl AsRef<str>,
        error: &comm::Error,
    ) -> Self {
        let kind = if error.kind() == comm::Kind::Mismatch { Kind::NotSame } else { Kind::Communication };
        let mut made = Self::new(kind, operation, path, error.to_string());
        made.0.rank = error.rank();
        made
    }

    /// An error of the operating system on a file or folder that is accessed without a device.
    /// `detail` says what it means.
    pub fn from_io(
        operation: &'static str,
        path: &Path,
        error: io::Error,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(Kind::of_io(&error), operation, path.to_string_lossy(), detail).with_cause(error)
    }

    /// Names the rank on which it happened.
    #[must_use]
    pub fn on_rank(mut self, rank: usize) -> Self {
        self.0.rank = Some(rank);
        self
    }

    /// Says how many bytes were transferred before it.
    #[must_use]
    pub fn after(mut self, transferred: u64) -> Self {
        self.0.transferred = transferred;
        self
    }

    /// Names the step of an output to which it belongs, unless it names one already.
    #[must_use]
    pub fn in_step(mut self, step: u64) -> Self {
        self.0.step.get_or_insert(step);
        self
    }

    /// Replaces the detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = detail.into();
        self
    }

    /// Keeps the underlying error.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.cause = Some(Arc::from(cause.into()));
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Its error class of the MPI standard.
    pub fn class(&self) -> Class {
        self.0.kind.class()
    }

    /// The operation that failed.
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// The name of the file, or of the message.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The step of an output to which it belongs.
    pub fn step(&self) -> Option<u64> {
        self.0.step
    }

    /// What happened, and the remedy.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The rank on which it happened, if that is not (only) this one.
    pub fn rank(&self) -> Option<usize> {
        self.0.rank
    }

    /// How many bytes were transferred before it.
    pub fn transferred(&self) -> u64 {
        self.0.transferred
    }

    /// The underlying error on the rank where it happened: of the device, of the operating system,
    /// or of the program.
    pub fn cause(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.0.cause.as_deref()
    }
}

impl From<comm::Error> for Error {
    /// The error of a rank's program as it was, if it was one of these; other errors of programs
    /// become the [`cause`](Error::cause).
    fn from(error: comm::Error) -> Self {
        let (call, rank, kind) = (error.call(), error.rank(), error.kind());
        if kind != comm::Kind::Program {
            return Self::from_comm(call, "communicator", &error);
        }
        let text = error.to_string();
        let Some(cause) = error.into_cause() else {
            return Self::new(Kind::Program, call, "program", text);
        };
        let cause = match cause.downcast::<Self>() {
            Ok(mut own) => {
                own.0.rank = own.0.rank.or(rank);
                return *own;
            }
            Err(cause) => cause,
        };
        let mut made = match cause.downcast::<comm::Error>() {
            Ok(cause) => Self::from_comm(cause.call(), "communicator", &cause),
            Err(cause) => Self::new(Kind::Program, call, "program", cause.to_string()).with_cause(cause),
        };
        made.0.rank = made.0.rank.or(rank);
        made
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = &*self.0;
        write!(f, "{} {:?}", fields.operation, fields.path)?;
        match (fields.step, fields.rank) {
            (Some(step), None) => write!(f, ", step {step}")?,
            (Some(step), Some(rank)) => write!(f, ", step {step}, on rank {rank}")?,
            (None, Some(rank)) => write!(f, " on rank {rank}")?,
            (None, None) => {}
        }
        write!(f, ": {}", fields.detail)?;
        match fields.kind.remedy() {
            Some(remedy) if !fields.detail.contains("; ") => write!(f, "; {remedy}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    /// The text of `Display` and the chain of sources: the form in which `main` prints an error
    /// that it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut source = StdError::source(self);
        while let Some(error) = source {
            write!(f, "\n  caused by: {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    /// The source of the [`cause`](Error::cause), whose own text is a part of this error's.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_deref().and_then(StdError::source)
    }
}

impl SharedError for Error {
    fn encode(&self) -> (u8, &str) {
        (self.kind() as u8, self.detail())
    }

    fn decode(operation: &'static str, path: &str, code: u8, detail: String, rank: usize) -> Self {
        Self::new(Kind::from_code(code), operation, path, detail).on_rank(rank)
    }

    /// All ranks fail with the same error class. A rank whose own error has that class keeps it.
    fn resolve(self, agreed: Self) -> Self {
        if self.class() == agreed.class() { self } else { agreed.after(self.transferred()) }
    }

    fn not_same(operation: &'static str, path: &str, detail: String, rank: usize) -> Self {
        Self::new(Kind::NotSame, operation, path, detail).on_rank(rank)
    }

    fn from_comm(operation: &'static str, path: &str, error: &comm::Error) -> Self {
        Self::from_comm(operation, path, error)
    }
}

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
    fn an_error_names_operation_file_step_and_rank() {
        let error = Error::new(Kind::NoSpace, "write_at", "run.bin", "the disk is full").on_rank(3);
        assert_eq!(error.to_string(), r#"write_at "run.bin" on rank 3: the disk is full"#);
        assert_eq!(error.class(), Class::NoSpace);
        let error = Error::new(Kind::Io, "write", "run.out", "input/output error").in_step(7).in_step(9);
        assert_eq!(error.to_string(), r#"write "run.out", step 7: input/output error"#);
        assert_eq!(error.step(), Some(7));
    }

    #[test]
    fn a_detail_without_a_remedy_gets_that_of_its_kind() {
        let error = Error::new(Kind::Incomplete, "open", "a", "no header");
        assert_eq!(error.to_string(), r#"open "a": no header; write it again, or use an older one"#);
        let error = Error::new(Kind::Incomplete, "open", "a", "no header; wait for its writer");
        assert_eq!(error.to_string(), r#"open "a": no header; wait for its writer"#);
    }

    #[test]
    fn the_error_of_a_program_is_not_flattened() {
        let run = |own: Box<dyn StdError + Send + Sync>| {
            let error = comm::Error::new(comm::Kind::Program, "run", "rank 2 failed").caused_by(2);
            Error::from(error.with_source(own))
        };
        let own = Error::new(Kind::Quota, "write", "run.bin", "quota exceeded").in_step(4);
        let error = run(own.into());
        assert_eq!((error.kind(), error.step(), error.rank()), (Kind::Quota, Some(4), Some(2)));
        let error = run("no input".into());
        assert_eq!((error.kind(), error.rank(), error.detail()), (Kind::Program, Some(2), "no input"));
        let error = run(io::Error::from(io::ErrorKind::NotFound).into());
        let cause = error.cause().expect("the cause is kept");
        assert!(cause.is::<io::Error>(), "{cause}");
    }

    #[test]
    fn a_device_error_is_kept_as_the_cause() {
        let source = io::Error::from(io::ErrorKind::StorageFull);
        let below = device::Error::from_io(source, device::Operation::Write, "x").at(512).after(7);
        let error = Error::device("write_at", "x", below);
        assert_eq!((error.kind(), error.transferred()), (Kind::NoSpace, 7));
        let cause = error.cause().and_then(|cause| cause.downcast_ref::<device::Error>());
        assert!(cause.is_some_and(|cause| cause.offset() == Some(512)));
    }
}
