//! The required ratio of each pattern.

use crate::cases::{CaseFamily, Coordination};

/// The ratios of which a family has to reach one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SpeedTarget {
    /// As a multiple of the best peer.
    pub(super) peer: f64,
    /// As a fraction of our own contiguous bandwidth.
    pub(super) contiguous: Option<f64>,
}

/// The requirement. Nested structures count as tiles, ordered accesses as those through the shared file pointer.
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

/// Whether one of ours is compared with a peer. OMPIO takes no lock in atomic mode and is not compared there. A program on the preloaded
/// library communicates and waits as its MPI library does, and is compared with the MPI-IO of that library.
pub(super) fn is_comparable(family: &CaseFamily, ours: &str, peer: &str) -> bool {
    let same = match ours {
        "preload/openmpi" => peer != "mpich",
        "preload/mpich" => peer == "mpich",
        _ => true,
    };
    same && !(family.pattern == "atomic" && peer == "ompio")
}
