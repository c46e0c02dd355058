//! The patterns that are weighed: what each rank writes of one file, 128 KiB each.

use std::ops::Range;

use crate::hyperslab::Hyperslab;
use crate::layout::{Basic, Layout, Order, Pattern};

pub(crate) const BYTES: u64 = 128 << 10;
/// Edges of a rank's block of 8-byte values.
const EDGES: [u64; 3] = [16, 32, 32];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Contiguous,
    /// Pieces of so many bytes in turn.
    RoundRobin(u64),
    /// Blocks of a three-dimensional array.
    Blocks,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] =
        [Self::Contiguous, Self::RoundRobin(4096), Self::RoundRobin(4), Self::Blocks];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Contiguous => "contiguous".to_owned(),
            Self::RoundRobin(bytes) if bytes >= 1024 => format!("round-robin {} KiB", bytes / 1024),
            Self::RoundRobin(bytes) => format!("round-robin {bytes} B"),
            Self::Blocks => "3-D blocks".to_owned(),
        }
    }

    /// What a rank sees of the file.
    pub(crate) fn layout(self, rank: usize, ranks: usize) -> (u64, Layout) {
        let (rank, ranks) = (rank as u64, ranks as u64);
        match self {
            Self::Contiguous => (rank * BYTES, Layout::bytes(BYTES).unwrap()),
            Self::RoundRobin(piece) => {
                let layout = Layout::bytes(piece).unwrap().resized(0, (piece * ranks) as i64).unwrap();
                (piece * rank, layout)
            }
            Self::Blocks => (0, block(rank, ranks)),
        }
    }

    pub(crate) fn pattern(self, rank: usize, ranks: usize) -> (Pattern, Range<u64>) {
        let (start, layout) = self.layout(rank, ranks);
        (layout.endless(start as i64).unwrap(), 0..BYTES)
    }

    /// Contiguous pieces of a rank: what the others keep lists of.
    pub(crate) fn segments(self) -> u64 {
        match self {
            Self::Contiguous => 1,
            Self::RoundRobin(piece) => BYTES / piece,
            Self::Blocks => EDGES[0] * EDGES[1],
        }
    }
}

/// One rank's block of an array over a grid of ranks that is as cubic as powers of two allow.
fn block(rank: u64, ranks: u64) -> Layout {
    let power = ranks.ilog2();
    let grid = [power.div_ceil(3), (power + 1) / 3, power / 3].map(|power| 1u64 << power);
    let place = [rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]];
    let shape = [0, 1, 2].map(|at| grid[at] * EDGES[at]);
    let block = Hyperslab::new([0, 1, 2].map(|at| place[at] * EDGES[at]), EDGES);
    Layout::from(Basic::F64).subarray(&shape, &block, Order::C).unwrap()
}

/// The extent of the whole file.
pub(crate) fn total(ranks: usize) -> u64 {
    BYTES * ranks as u64
}
