//! What the included files use of their crates, as little as the models need.
#![allow(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the signatures are those of what stands here elsewhere"
)]

use std::sync::Arc;

use crate::rendezvous::Nap;
use crate::sync::AtomicU64;

/// An error of `crates/comm`.
#[derive(Clone, Debug)]
pub(crate) struct Error {
    rank: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    RankFailed,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(_: Kind, _: &'static str, _: impl Into<String>) -> Self {
        Self { rank: None }
    }

    pub(crate) fn caused_by(self, rank: usize) -> Self {
        Self { rank: Some(rank) }
    }

    pub(crate) fn rank(&self) -> Option<usize> {
        self.rank
    }
}

/// `comm/src/packet.rs`.
pub(crate) mod packet {
    #[derive(Debug)]
    pub(crate) struct Packet {
        pub(crate) header: Header,
        pub(crate) body: Body,
    }

    #[derive(Debug)]
    pub(crate) struct Header {
        pub(crate) context: u64,
        pub(crate) source: u32,
        pub(crate) tag: u32,
    }

    #[derive(Debug)]
    pub(crate) struct Body(pub(crate) Vec<u8>);

    impl Packet {
        pub(crate) fn key(&self) -> (u64, u32) {
            (self.header.context, self.header.tag)
        }
    }

    impl Body {
        pub(crate) fn bytes(&self) -> &[u8] {
            &self.0
        }
    }
}

/// `comm/src/wire.rs`: what a wait asks its transport.
pub(crate) mod wire {
    use super::{Error, Nap, Result};

    pub(crate) trait Wire: Nap {
        fn failure(&self, call: &'static str) -> Option<Error>;
        fn note_loss(&self, of: Option<usize>);
        fn check_wait(&self, call: &'static str) -> Result<()>;
    }
}

/// Two ranks of one node with memory in common.
pub(crate) struct Comm {
    pub(crate) rank: usize,
    pub(crate) words: Arc<Vec<AtomicU64>>,
}

/// Words of that memory.
#[derive(Debug)]
pub(crate) struct Region(Arc<Vec<AtomicU64>>);

impl Comm {
    pub(crate) fn region(&self, bytes: usize) -> Result<Region> {
        assert!(bytes <= self.words.len() * size_of::<u64>(), "the table has {bytes} bytes");
        Ok(Region(Arc::clone(&self.words)))
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn size(&self) -> usize {
        2
    }

    pub(crate) fn node_count(&self) -> usize {
        1
    }

    pub(crate) fn ranks_of_node(&self, _: usize) -> &[usize] {
        &[0, 1]
    }
}

impl Region {
    pub(crate) fn atomic(&self, offset: usize) -> Result<&AtomicU64> {
        Ok(&self.0[offset / size_of::<u64>()])
    }
}

/// Scheduling is loom's.
pub(crate) struct Courtesy;

impl Courtesy {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn wait<R>(&self, wait: impl FnOnce() -> R) -> R {
        wait()
    }
}

/// There is no MPI.
pub(crate) fn leave_mpi_alone() {}

/// Nor packets of background operations.
pub(crate) fn needs_progress() -> bool {
    false
}

pub(crate) fn progress() -> bool {
    false
}

/// `file/src/error.rs`.
pub(crate) mod error {
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Kind {
        Io = 1,
    }

    impl Kind {
        pub(crate) fn from_code(_: u8) -> Self {
            Self::Io
        }
    }
}

/// No model has a view: the type has no values, and its methods are never called.
pub(crate) mod view {
    use std::ops::Range;

    use super::layout::Strip;

    #[derive(Debug)]
    pub(crate) enum View {}

    impl View {
        pub(crate) fn pattern(&self) -> &Self {
            self
        }

        pub(crate) fn file_span(&self, _: &Range<u64>) -> Range<u64> {
            match *self {}
        }

        pub(crate) fn strips(&self, _: Range<u64>) -> std::iter::Empty<Strip> {
            match *self {}
        }
    }
}

/// `file/src/layout.rs`.
pub(crate) mod layout {
    pub(crate) struct Strip {
        pub(crate) offset: i64,
        pub(crate) len: u64,
        pub(crate) count: u64,
        pub(crate) stride: i64,
    }
}
