//! The cells of a domain.

use crate::region::SpatialRegion;

/// A box from the origin to `length`, divided into equal cells. All particles of a cell are on one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellGrid {
    length: [f64; 3],
    cells: [u64; 3],
}

/// The largest number of cells; their table alone has 24 TiB.
const MOST_CELLS: u64 = 1 << 40;

impl CellGrid {
    /// A domain with this number of cells along each dimension. `None` if a length is not positive, or if there are 0 or more than 2^40 cells.
    pub fn new(length: [f64; 3], cells: [u64; 3]) -> Option<Self> {
        let product = cells.iter().try_fold(1_u64, |all, &n| all.checked_mul(n))?;
        let sane = length.iter().all(|&edge| edge > 0.0 && edge.is_finite());
        (sane && (1..=MOST_CELLS).contains(&product)).then_some(Self { length, cells })
    }

    /// A single cell, as in a sequential program.
    pub fn whole(length: [f64; 3]) -> Option<Self> {
        Self::new(length, [1; 3])
    }

    /// As many whole cells of this edge as fit into the domain: floor(length / edge) along each dimension, as in `MarDyn`. The remainder
    /// at the upper faces belongs to the last cells.
    pub fn with_edge(length: [f64; 3], edge: [f64; 3]) -> Option<Self> {
        let mut cells = [0; 3];
        for d in 0..3 {
            let count = (length[d] / edge[d]).floor();
            if !(edge[d] > 0.0 && count < MOST_CELLS as f64) {
                return None;
            }
            cells[d] = count as u64;
        }
        Self::new(length, cells)
    }

    /// The edges of the domain.
    pub fn length(&self) -> [f64; 3] {
        self.length
    }

    /// The number of cells along each dimension.
    pub fn cells(&self) -> [u64; 3] {
        self.cells
    }

    /// The number of cells.
    pub fn count(&self) -> u64 {
        self.cells.iter().product()
    }

    /// The edges of a cell, rounded so that floor(length / edge) is the number of cells and [`with_edge`](Self::with_edge) returns this grid.
    pub fn edge(&self) -> [f64; 3] {
        std::array::from_fn(|d| {
            let (length, cells) = (self.length[d], self.cells[d] as f64);
            let mut edge = length / cells;
            while length / edge < cells {
                edge = edge.next_down();
            }
            edge
        })
    }

    /// The number of the cell at a position, x fastest. A position outside of the domain belongs to the nearest cell.
    #[inline]
    pub fn cell_of(&self, position: [f64; 3]) -> u64 {
        let [x, y, z] = std::array::from_fn(|d| self.step(d, position[d]));
        (z * self.cells[1] + y) * self.cells[0] + x
    }

    /// The runs of cells along x that a region overlaps, ascending: first cell and number of cells.
    pub fn overlapped_runs(&self, region: &SpatialRegion) -> Vec<(u64, u64)> {
        let low: [u64; 3] = std::array::from_fn(|d| self.step(d, region.low[d]));
        let high: [u64; 3] = std::array::from_fn(|d| self.step(d, region.high[d]));
        let empty = (0..3).any(|d| {
            region.low[d] >= region.high[d] || region.low[d] > self.length[d] || region.high[d] < 0.0
        });
        if empty {
            return Vec::new();
        }
        let rows = (low[2]..=high[2]).flat_map(|z| (low[1]..=high[1]).map(move |y| (y, z)));
        let runs =
            rows.map(|(y, z)| ((z * self.cells[1] + y) * self.cells[0] + low[0], high[0] - low[0] + 1));
        runs.fold(Vec::new(), |mut runs: Vec<(u64, u64)>, (first, count)| {
            match runs.last_mut() {
                Some((start, len)) if *start + *len == first => *len += count,
                _ => runs.push((first, count)),
            }
            runs
        })
    }

    #[inline]
    fn step(&self, d: usize, at: f64) -> u64 {
        // The conversion from a float saturates; it does not wrap around.
        let step = (at / self.length[d] * self.cells[d] as f64) as u64;
        step.min(self.cells[d] - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_on_the_upper_face_and_outside_belong_to_the_nearest_cell() {
        let grid = CellGrid::new([1.0; 3], [4, 2, 1]).unwrap();
        assert_eq!(
            [0.0, 0.24, 0.25, 1.0, 7.0, -7.0].map(|x| grid.cell_of([x, 0.0, 0.0])),
            [0, 0, 1, 3, 3, 0]
        );
        assert_eq!(grid.cell_of([0.0, 1.0, 1.0]), 4);
    }

    #[test]
    fn adjacent_runs_of_cells_are_joined() {
        let grid = CellGrid::new([4.0, 2.0, 1.0], [4, 2, 1]).unwrap();
        assert_eq!(grid.overlapped_runs(&SpatialRegion::EVERYWHERE), [(0, 8)]);
        assert_eq!(
            grid.overlapped_runs(&SpatialRegion::new([1.0, 0.0, 0.0], [2.5, 2.0, 1.0])),
            [(1, 2), (5, 2)]
        );
        assert_eq!(grid.overlapped_runs(&SpatialRegion::new([5.0, 0.0, 0.0], [6.0, 2.0, 1.0])), []);
    }

    #[test]
    fn with_edge_counts_whole_cells() {
        assert_eq!(CellGrid::with_edge([2.5, 3.0, 0.9], [1.0, 1.0, 0.3]).unwrap().cells(), [2, 3, 3]);
        assert_eq!(CellGrid::with_edge([1.0; 3], [1.5, 1.0, 1.0]), None);
    }

    #[test]
    fn with_edge_of_its_own_edge_returns_the_same_grid() {
        for n in 1..2000 {
            let grid = CellGrid::new([0.1, 97.0, 3.3], [n, n, 1]).unwrap();
            assert_eq!(CellGrid::with_edge(grid.length(), grid.edge()), Some(grid));
        }
        assert_eq!(CellGrid::with_edge([1.0; 3], [f64::NAN, 1.0, 1.0]), None);
        assert_eq!(CellGrid::with_edge([1.0; 3], [1e-9; 3]), None);
    }
}
