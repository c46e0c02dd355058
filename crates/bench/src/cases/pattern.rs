//! The access patterns as views of the engine; `README.md` describes them, `peer/peer.c` has them as MPI datatypes.

use anyhow::Result;
use aqueduct::file::View;
use aqueduct::file::hyperslab::Hyperslab;
use aqueduct::file::layout::{Basic, Layout, Member, Order};

/// Bytes of an access through the shared file pointer, also of an ordered one.
pub(crate) const SHARED_PIECE: usize = 4096;

/// Which bytes of the file each rank accesses, and by which calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessPattern {
    Contiguous,
    RoundRobin {
        piece: u64,
    },
    Tiles {
        row: u64,
    },
    Blocks,
    Nested,
    /// Accesses of so many bytes at explicit offsets, one after the other, as IOR does.
    Explicit {
        piece: usize,
    },
    /// The same in a file of each rank, as IOR does with `-F`.
    OwnFiles {
        piece: usize,
    },
    Shared,
    Ordered,
    Atomic,
    Open,
    /// As round-robin pieces of 4 bytes, through an object file.
    Objects,
}

/// A rank and the number of ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankPosition {
    pub(crate) rank: u64,
    pub(crate) ranks: u64,
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
    pub(crate) fn view(self, place: RankPosition, bytes: u64) -> Result<View> {
        let byte = Layout::from(Basic::Byte);
        let [rows, columns] = place.grid();
        let (row, column) = (place.rank / columns, place.rank % columns);
        Ok(match self {
            Self::RoundRobin { piece } => {
                let etype = Layout::bytes(piece)?;
                let round = etype.resized(0, (piece * place.ranks) as i64)?;
                View::new(piece * place.rank, &etype, &round)?
            }
            Self::Tiles { row: width } => {
                let height = bytes / width;
                let shape = [height * rows, width * columns];
                let tile = Hyperslab::new([height * row, width * column], [height, width]);
                View::new(0, &byte, &byte.subarray(&shape, &tile, Order::C)?)?
            }
            Self::Blocks => {
                let [z, y, x] = cube(bytes);
                let block = Hyperslab::new([0, y * row, x * column], [z, y, x]);
                View::new(0, &byte, &byte.subarray(&[z, y * rows, x * columns], &block, Order::C)?)?
            }
            Self::Nested => View::new(0, &byte, &record(place)?)?,
            _ => View::default(),
        })
    }

    /// The offset of a rank's access, in etypes of its view.
    pub(crate) fn start(self, place: RankPosition, bytes: u64) -> u64 {
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
fn record(place: RankPosition) -> Result<Layout> {
    let array = |element: u64, displacement: u64| -> Result<Member> {
        let displacement = (displacement * place.ranks + 32 * element * place.rank) as i64;
        Ok(Member { count: 32, displacement, layout: Layout::bytes(element)? })
    };
    let scalars = Layout::structure([array(4, 0)?, array(4, 32 * 4)?])?;
    let scalars = Member { count: 1, displacement: (32 * 24 * place.ranks) as i64, layout: scalars };
    Ok(Layout::structure([array(24, 0)?, scalars])?.resized(0, (32 * 32 * place.ranks) as i64)?)
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
