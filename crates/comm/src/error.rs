//! The error type of this layer: its kind, the call, and the rank that caused it.

use std::fmt;

/// The outcome of a communication call.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An invalid argument: a rank outside the communicator, a length that is not a multiple.
    InvalidArgument,
    /// The ranks made different collective calls, or the same one with different sizes or roots.
    Mismatch,
    /// Another rank panicked, returned an error or left the program.
    RankFailed,
    /// A message does not fit the buffer or type of its receive.
    Truncated,
    /// The transport does not support this.
    Unsupported,
    /// No usable MPI library was found.
    NoMpi,
    /// MPI granted a thread level that forbids this call from this thread.
    ThreadLevel,
    /// The MPI library reported an error.
    Mpi,
    /// The operating system reported an error.
    System,
    /// The rank's own program failed: the error that [`run`](crate::run) returns.
    Program,
}

/// An error with its kind, the call in which it happened, and details.
pub struct Error {
    kind: Kind,
    call: &'static str,
    rank: Option<usize>,
    detail: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` in `call`; `detail` says what happened and, if there is one, the remedy.
    pub fn new(kind: Kind, call: &'static str, detail: impl Into<String>) -> Self {
        Self { kind, call, rank: None, detail: detail.into(), source: None }
    }

    /// Names the rank that caused it.
    #[must_use]
    pub fn caused_by(mut self, rank: usize) -> Self {
        self.rank = Some(rank);
        self
    }

    /// Adds the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// An error of the operating system.
    pub(crate) fn system(
        call: &'static str,
        detail: impl Into<String>,
        source: impl Into<std::io::Error>,
    ) -> Self {
        Self::new(Kind::System, call, detail).with_source(source.into())
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The name of the method in which it happened.
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// The underlying error: of the system, or of a rank's program.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// The underlying error by value.
    pub fn into_cause(self) -> Option<Box<dyn std::error::Error + Send + Sync>> {
        self.source
    }

    /// The rank that caused it, if known: for kind [`RankFailed`](Kind::RankFailed) a rank of the world, otherwise one of the
    /// communicator.
    pub fn rank(&self) -> Option<usize> {
        self.rank
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.detail)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
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
    /// The source of the [`cause`](Error::cause), whose own text is a part of this error's.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().and_then(std::error::Error::source)
    }
}
