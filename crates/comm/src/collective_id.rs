//! The identity of a collective call: its name, root and size, which ranks compare.

use std::fmt;

use crate::{Error, Kind, Result};

/// The kinds of collective calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum CollectiveKind {
    Barrier = 1,
    Broadcast,
    Gather,
    Scatter,
    Allgather,
    AllToAll,
    Reduce,
    Allreduce,
    Scan,
    ExclusiveScan,
    Split,
    Region,
    Finish,
    Refused,
    Route,
    GatherInto,
    AllToAllArrays,
}

const COLLECTIVE_NAMES: [(CollectiveKind, &str); 17] = [
    (CollectiveKind::Barrier, "barrier"),
    (CollectiveKind::Broadcast, "broadcast"),
    (CollectiveKind::Gather, "gather"),
    (CollectiveKind::Scatter, "scatter"),
    (CollectiveKind::Allgather, "allgather"),
    (CollectiveKind::AllToAll, "all_to_all"),
    (CollectiveKind::Reduce, "reduce"),
    (CollectiveKind::Allreduce, "allreduce"),
    (CollectiveKind::Scan, "scan"),
    (CollectiveKind::ExclusiveScan, "exclusive_scan"),
    (CollectiveKind::Split, "split"),
    (CollectiveKind::Region, "region"),
    (CollectiveKind::Finish, "the end of the program"),
    (CollectiveKind::Refused, "a call with invalid arguments"),
    (CollectiveKind::Route, "route"),
    (CollectiveKind::GatherInto, "gather_into"),
    (CollectiveKind::AllToAllArrays, "all_to_all_varied_into"),
];

fn name_of(kind: u32) -> &'static str {
    if kind == CollectiveId::comparison().kind {
        return "the comparison of collective calls";
    }
    COLLECTIVE_NAMES
        .iter()
        .find(|(known, _)| *known as u32 == kind)
        .map_or("an unknown call", |(_, name)| name)
}

/// A collective call of a rank. It must be equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectiveId {
    kind: u32,
    root: u32,
    size: u64,
    /// The reduction operation, element type or step.
    detail: u32,
}

const NO_ROOT: u32 = u32::MAX;
const ANY_SIZE: u64 = u64::MAX;

impl CollectiveId {
    /// The bytes of an encoded call.
    pub(crate) const LEN: usize = 20;

    pub(crate) fn new(kind: CollectiveKind) -> Self {
        Self { kind: kind as u32, root: NO_ROOT, size: ANY_SIZE, detail: 0 }
    }

    /// The call by which ranks compare their calls.
    pub(crate) fn comparison() -> Self {
        Self { kind: 0, root: NO_ROOT, size: ANY_SIZE, detail: 0 }
    }

    /// True for the last call of the program.
    pub(crate) fn is_last(self) -> bool {
        self.kind == CollectiveKind::Finish as u32
    }

    pub(crate) fn root(mut self, root: usize) -> Self {
        self.root = root as u32;
        self
    }

    pub(crate) fn size(mut self, bytes: usize) -> Self {
        self.size = bytes as u64;
        self
    }

    pub(crate) fn detail(mut self, detail: u32) -> Self {
        self.detail = detail;
        self
    }

    pub(crate) fn name(self) -> &'static str {
        name_of(self.kind)
    }

    pub(crate) fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0..4].copy_from_slice(&self.kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.root.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.size.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.detail.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; Self::LEN]) -> Self {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        Self {
            kind: word(0),
            root: word(4),
            size: u64::from(word(8)) | u64::from(word(12)) << 32,
            detail: word(16),
        }
    }

    /// Fails if `theirs` is another call; the error names both ranks and both calls.
    pub(crate) fn check(self, me: usize, other: usize, theirs: Self) -> Result<()> {
        if self == theirs {
            return Ok(());
        }
        let detail = format!(
            "the ranks made different collective calls: rank {me} {self}, rank {other} {theirs}; \
             all ranks of a communicator must make the same calls in the same order"
        );
        Err(Error::new(Kind::Mismatch, self.name(), detail).caused_by(other))
    }
}

impl fmt::Display for CollectiveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name())?;
        let mut comma = "";
        if self.root != NO_ROOT {
            write!(f, "root {}", self.root)?;
            comma = ", ";
        }
        if self.size != ANY_SIZE {
            write!(f, "{comma}{} bytes", self.size)?;
            comma = ", ";
        }
        if self.detail != 0 {
            write!(f, "{comma}variant {:#x}", self.detail)?;
        }
        write!(f, ")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_encoded_and_decoded() {
        let call = CollectiveId::new(CollectiveKind::Reduce).root(3).size(1 << 40).detail(9);
        assert_eq!(CollectiveId::decode(&call.encode()), call);
    }

    #[test]
    fn the_error_names_both_calls() {
        let error = CollectiveId::new(CollectiveKind::Barrier)
            .check(0, 2, CollectiveId::new(CollectiveKind::Broadcast).root(1).size(8))
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("rank 0 barrier()"), "{text}");
        assert!(text.contains("rank 2 broadcast(root 1, 8 bytes)"), "{text}");
        assert_eq!(error.kind(), Kind::Mismatch);
    }
}
