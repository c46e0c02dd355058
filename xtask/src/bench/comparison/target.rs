//! What is required of each pattern.

use super::case::{CaseFamily, Coordination};

/// What a family has to reach: one of the two is enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SpeedTarget {
    /// As a multiple of the best peer.
    pub(super) peer: f64,
    /// As a part of our own contiguous transfer.
    pub(super) contiguous: Option<f64>,
}

/// The requirement. Nested structures count as tiles do, accesses in rank order as those through the shared pointer.
pub(super) fn speed_target(family: &CaseFamily) -> SpeedTarget {
    use Coordination::{Collective, Independent};
    let (peer, contiguous) = match (family.pattern, family.coordination) {
        ("contiguous", Independent) => (0.95, None),
        ("round-robin-4", Collective) => (40.0, Some(0.4)),
        ("objects", _) => (20.0, None),
        ("round-robin-64", Collective) => (8.0, Some(0.65)),
        ("round-robin-4", Independent) => (1.5, Some(0.2)),
        ("round-robin-64", Independent) => (1.5, Some(0.4)),
        ("round-robin-4096" | "tiles" | "page-tiles" | "blocks" | "nested", Collective) => (1.5, Some(0.8)),
        ("round-robin-4096" | "tiles" | "page-tiles" | "blocks" | "nested", Independent) => (1.0, Some(0.9)),
        ("shared" | "ordered", _) => (2.0, None),
        _ => (1.0, None),
    };
    SpeedTarget { peer, contiguous }
}

/// Whether a peer is the measure for one of ours. It has to do what is asked for: Open MPI's OMPIO takes no lock in atomic mode. A program that comes
/// through the door talks and waits as its MPI library does; there the library's own files are the measure.
pub(super) fn is_comparable(family: &CaseFamily, ours: &str, peer: &str) -> bool {
    let same = match ours {
        "door/openmpi" => peer != "mpich",
        "door/mpich" => peer == "mpich",
        _ => true,
    };
    same && !(family.pattern == "atomic" && peer == "ompio")
}
