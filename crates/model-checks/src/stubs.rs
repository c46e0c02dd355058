//! Replacements for what the included files use of their crates.
#![allow(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the signatures are those of the replaced items"
)]

use std::sync::Arc;

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

/// `comm/src/matching.rs`.
pub(crate) mod matching {
    pub(crate) mod packet {
        pub(crate) use StubPacket as Packet;

        #[derive(Debug)]
        pub(crate) struct StubPacket {
            pub(crate) header: StubPacketHeader,
            pub(crate) body: StubPacketBody,
        }

        pub(crate) use StubPacketHeader as PacketHeader;

        #[derive(Debug)]
        pub(crate) struct StubPacketHeader {
            pub(crate) context: u64,
            pub(crate) source: u32,
            pub(crate) tag: u32,
        }

        pub(crate) use StubPacketBody as PacketBody;

        #[derive(Debug)]
        pub(crate) struct StubPacketBody(pub(crate) Vec<u8>);

        impl StubPacket {
            pub(crate) fn key(&self) -> (u64, u32) {
                (self.header.context, self.header.tag)
            }
        }

        impl StubPacketBody {
            pub(crate) fn bytes(&self) -> &[u8] {
                &self.0
            }
        }
    }
}

/// Two ranks of one node with memory in common.
pub(crate) use StubComm as Comm;

pub(crate) struct StubComm {
    pub(crate) rank: usize,
    pub(crate) words: Arc<Vec<AtomicU64>>,
}

pub(crate) use StubSharedRegion as SharedRegion;

/// Words of that memory.
#[derive(Debug)]
pub(crate) struct StubSharedRegion(Arc<Vec<AtomicU64>>);

impl StubComm {
    pub(crate) fn shared_region(&self, bytes: usize) -> Result<StubSharedRegion> {
        assert!(bytes <= self.words.len() * size_of::<u64>(), "the table has {bytes} bytes");
        Ok(StubSharedRegion(Arc::clone(&self.words)))
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

impl StubSharedRegion {
    pub(crate) fn atomic(&self, offset: usize) -> Result<&AtomicU64> {
        Ok(&self.0[offset / size_of::<u64>()])
    }
}

pub(crate) use StubBatchScheduling as BatchScheduling;

/// Scheduling is loom's.
pub(crate) struct StubBatchScheduling;

impl StubBatchScheduling {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn wait<R>(&self, wait: impl FnOnce() -> R) -> R {
        wait()
    }
}

/// There is no MPI.
pub(crate) fn forbid_mpi_on_thread() {}

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

    use super::layout::StubStrip;

    pub(crate) use StubView as View;

    #[derive(Debug)]
    pub(crate) enum StubView {}

    impl StubView {
        pub(crate) fn pattern(&self) -> &Self {
            self
        }

        pub(crate) fn file_span(&self, _: &Range<u64>) -> Range<u64> {
            match *self {}
        }

        pub(crate) fn strips(&self, _: Range<u64>) -> std::iter::Empty<StubStrip> {
            match *self {}
        }
    }
}

/// `file/src/layout.rs`.
pub(crate) mod layout {
    pub(crate) use StubStrip as Strip;

    pub(crate) struct StubStrip {
        pub(crate) offset: i64,
        pub(crate) len: u64,
        pub(crate) count: u64,
        pub(crate) stride: i64,
    }
}
