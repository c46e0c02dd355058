//! Strategies by name, as the hint `aqueduct_strategy` gives them, and the two directions of a transfer.

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TransferDirection {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// How bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Run by run.
    Direct,
    /// Many runs in one call of the device.
    List,
    /// One large access, from which the runs are picked; a write reads, changes and writes back under a lock.
    Sieve,
    /// Runs are copied where they lie in the page cache.
    Map,
    /// The ranks exchange data, and few of them access large contiguous parts of the file.
    TwoPhase,
}

impl Strategy {
    const ALL: [Self; 5] = [Self::Direct, Self::List, Self::Sieve, Self::Map, Self::TwoPhase];

    /// Its name in hints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::List => "list",
            Self::Sieve => "sieve",
            Self::Map => "map",
            Self::TwoPhase => "two-phase",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == text)
    }
}
