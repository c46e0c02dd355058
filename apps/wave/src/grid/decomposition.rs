//! The decomposition of the grid and of its spectrum among ranks. Pure.

use std::ops::Range;

use super::WaveGrid;
use super::field_block::FieldBlock;

/// How the grid is decomposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecompositionKind {
    /// Slabs while there are as many planes as ranks, then pencils.
    #[default]
    Auto,
    /// Each rank has planes of constant z, or rows of constant y in two dimensions.
    Slab,
    /// Each rank has a part of z and y.
    Pencil,
}

/// The ranks as a table: `planes` parts of z, each with `rows` parts of y. Rank `r` has part `r / rows` of z and `r % rows` of y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PencilDecomposition {
    /// The number of parts of z.
    pub planes: usize,
    /// The number of parts of y.
    pub rows: usize,
}

/// The part `index` of `parts` of this many elements.
pub fn share(length: usize, parts: usize, index: usize) -> Range<usize> {
    length * index / parts..length * (index + 1) / parts
}

/// All parts.
pub fn shares(length: usize, parts: usize) -> Vec<Range<usize>> {
    (0..parts).map(|index| share(length, parts, index)).collect()
}

impl PencilDecomposition {
    /// The decomposition of a grid among this many ranks.
    pub fn new(kind: DecompositionKind, grid: &WaveGrid, ranks: usize) -> Self {
        let [_, y, z] = grid.points;
        if z == 1 {
            return Self { planes: 1, rows: ranks };
        }
        let slab = match kind {
            DecompositionKind::Auto => ranks <= z.min(y),
            DecompositionKind::Slab => true,
            DecompositionKind::Pencil => false,
        };
        if slab {
            return Self { planes: ranks, rows: 1 };
        }
        // The table whose largest block is the smallest, and of these the most square one; y is cut in any case.
        let tables = (1..=ranks).filter(|rows| ranks.is_multiple_of(*rows) && (*rows > 1 || ranks == 1));
        let largest = |rows: usize| z.div_ceil(ranks / rows) * y.div_ceil(rows);
        let rows = tables.min_by_key(|rows| (largest(*rows), rows.abs_diff(ranks / rows))).unwrap_or(1);
        Self { planes: ranks / rows, rows }
    }

    /// The part of z and the part of y of a rank.
    pub fn place(&self, rank: usize) -> (usize, usize) {
        (rank / self.rows, rank % self.rows)
    }

    /// The points of a rank.
    pub fn block(&self, grid: &WaveGrid, rank: usize) -> FieldBlock {
        let (plane, row) = self.place(rank);
        FieldBlock {
            points: grid.points,
            y: share(grid.points[1], self.rows, row),
            z: share(grid.points[2], self.planes, plane),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pencils_cut_both_directions_where_they_can() {
        let table = |points, ranks| {
            let grid = WaveGrid { points, spacing: [1.0; 3] };
            let made = PencilDecomposition::new(DecompositionKind::Pencil, &grid, ranks);
            (made.planes, made.rows)
        };
        assert_eq!(
            [1, 2, 4, 5, 6].map(|ranks| table([8; 3], ranks)),
            [(1, 1), (1, 2), (2, 2), (1, 5), (3, 2)]
        );
        // More parts of y than of z, which has two planes only.
        assert_eq!(table([8, 32, 2], 8), (2, 4));
    }

    #[test]
    fn every_point_belongs_to_one_rank() {
        let grid = WaveGrid { points: [4, 7, 5], spacing: [1.0; 3] };
        for kind in [DecompositionKind::Auto, DecompositionKind::Slab, DecompositionKind::Pencil] {
            for ranks in 1..=12 {
                let decomposition = PencilDecomposition::new(kind, &grid, ranks);
                assert_eq!(decomposition.planes * decomposition.rows, ranks);
                let mut owners = vec![0; grid.volume()];
                for rank in 0..ranks {
                    let block = decomposition.block(&grid, rank);
                    (0..grid.volume())
                        .for_each(|index| owners[index] += usize::from(block.local(index).is_some()));
                }
                assert_eq!(owners, vec![1; grid.volume()], "{kind:?} {ranks}");
            }
        }
    }
}
