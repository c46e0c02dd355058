//! The access patterns and their views; `crates/bench/README.md` describes them.

use anyhow::Result;
use aqueduct::file::View;

use crate::view_tree::{DatatypeTree, TreeMember, ViewTree};

/// Bytes of an access through the shared file pointer, also of an ordered one.
pub const SHARED_PIECE: usize = 4096;

/// Which bytes of the file each rank accesses, and by which calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessPattern {
    /// One run per rank, at an explicit offset.
    Contiguous,
    /// Pieces of so many bytes, in turn over the ranks.
    RoundRobin {
        /// Bytes of a piece.
        piece: u64,
    },
    /// A tile of an array of two dimensions.
    Tiles {
        /// Bytes of a row of the tile.
        row: u64,
    },
    /// A block of an array of three dimensions.
    Blocks,
    /// Records of three consecutive arrays.
    Nested,
    /// Accesses of so many bytes at explicit offsets, one after the other, as IOR does.
    Explicit {
        /// Bytes of an access.
        piece: usize,
    },
    /// The same in a file of each rank, as IOR does with `-F`.
    OwnFiles {
        /// Bytes of an access.
        piece: usize,
    },
    /// Pieces through the shared file pointer, in any order.
    Shared,
    /// The same in rank order.
    Ordered,
    /// As contiguous, in atomic mode.
    Atomic,
    /// The file is opened and closed.
    Open,
    /// As round-robin pieces of 4 bytes, through an object file.
    Objects,
}

/// A rank and the number of ranks.
#[derive(Clone, Copy, Debug)]
pub struct RankPosition {
    /// The rank.
    pub rank: u64,
    /// How many there are.
    pub ranks: u64,
}

impl RankPosition {
    /// Rows and columns of a grid of all ranks, as square as possible.
    fn grid(self) -> [u64; 2] {
        let rows = (1..=self.ranks).take_while(|rows| rows * rows <= self.ranks);
        let rows = rows.filter(|rows| self.ranks.is_multiple_of(*rows)).last().unwrap_or(1);
        [rows, self.ranks / rows]
    }
}

impl AccessPattern {
    /// The view of a rank with so many bytes.
    pub fn view_tree(self, place: RankPosition, bytes: u64) -> ViewTree {
        let [rows, columns] = place.grid();
        let (row, column) = (place.rank / columns, place.rank % columns);
        let file_type = match self {
            Self::RoundRobin { piece } => return ViewTree::round_robin(piece, place.rank, place.ranks),
            Self::Objects => return ViewTree::round_robin(4, place.rank, place.ranks),
            Self::Tiles { row: width } => {
                let height = bytes / width;
                let shape = vec![height * rows, width * columns];
                DatatypeTree::Subarray {
                    shape,
                    start: vec![height * row, width * column],
                    part: vec![height, width],
                }
            }
            Self::Blocks => {
                let [z, y, x] = cube(bytes);
                let shape = vec![z, y * rows, x * columns];
                DatatypeTree::Subarray { shape, start: vec![0, y * row, x * column], part: vec![z, y, x] }
            }
            Self::Nested => record(place),
            _ => return ViewTree::bytes(),
        };
        ViewTree { displacement: 0, etype: DatatypeTree::Bytes(1), file_type }
    }

    /// The same as a view of the engine.
    pub fn view(self, place: RankPosition, bytes: u64) -> Result<View> {
        self.view_tree(place, bytes).view()
    }

    /// The offset of a rank's access, in etypes of its view.
    pub fn start(self, place: RankPosition, bytes: u64) -> u64 {
        match self {
            Self::Contiguous | Self::Atomic | Self::Explicit { .. } => bytes * place.rank,
            _ => 0,
        }
    }
}

/// The sides (z, y, x) of a block of 8-byte elements, as cubic as powers of two allow; x in bytes.
fn cube(bytes: u64) -> [u64; 3] {
    let elements = (bytes / 8).ilog2();
    let x = elements.div_ceil(3);
    let y = (elements - x).div_ceil(2);
    [1 << (elements - x - y), 1 << y, 8 << x]
}

/// A record of three consecutive arrays, each distributed over the ranks in blocks of 32 particles: positions of 24 bytes, then, in a
/// nested structure, charges and kinds of 4 bytes.
fn record(place: RankPosition) -> DatatypeTree {
    let array = |element: u64, displacement: u64| TreeMember {
        count: 32,
        displacement: displacement * place.ranks + 32 * element * place.rank,
        datatype: DatatypeTree::Bytes(element),
    };
    let scalars = DatatypeTree::Structure(vec![array(4, 0), array(4, 32 * 4)]);
    let scalars = TreeMember { count: 1, displacement: 32 * 24 * place.ranks, datatype: scalars };
    DatatypeTree::Structure(vec![array(24, 0), scalars]).resized(32 * 32 * place.ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 65536;

    #[test]
    fn every_byte_of_the_file_belongs_to_one_rank() {
        let patterns = [
            AccessPattern::RoundRobin { piece: 4 },
            AccessPattern::RoundRobin { piece: 64 },
            AccessPattern::RoundRobin { piece: 4096 },
            AccessPattern::Tiles { row: 1024 },
            AccessPattern::Tiles { row: 4096 },
            AccessPattern::Blocks,
            AccessPattern::Nested,
        ];
        for (pattern, ranks) in
            patterns.into_iter().flat_map(|pattern| [1, 2, 4, 6].map(|ranks| (pattern, ranks)))
        {
            let mut owners = vec![0u8; (BYTES * ranks) as usize];
            for rank in 0..ranks {
                let view = pattern.view(RankPosition { rank, ranks }, BYTES).unwrap();
                for etype in 0..BYTES / view.etype().size() {
                    let first = view.byte_offset(etype).unwrap() as usize;
                    owners[first..][..view.etype().size() as usize].iter_mut().for_each(|count| *count += 1);
                }
            }
            assert!(owners.iter().all(|count| *count == 1), "{pattern:?} on {ranks} ranks");
        }
    }

    #[test]
    fn blocks_are_nearly_cubes() {
        assert_eq!(cube(1 << 16), [16, 16, 32 * 8]);
        assert_eq!(cube(1 << 24), [128, 128, 128 * 8]);
    }
}
