//! The cells that a domain is cut into.

use crate::region::SpatialRegion;

/// A box of `length`, from the origin, cut into equal cells. A cell lies on one rank only; the decomposition says how large cells are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellGrid {
    length: [f64; 3],
    cells: [u64; 3],
}

/// More cells than this make no sense: their table alone would fill a disk.
const MOST_CELLS: u64 = 1 << 40;

impl CellGrid {
    /// A domain cut into so many cells along each dimension; none if a length is not positive or there are no, or too many, cells.
    pub fn new(length: [f64; 3], cells: [u64; 3]) -> Option<Self> {
        let product = cells.iter().try_fold(1_u64, |all, &n| all.checked_mul(n))?;
        let sane = length.iter().all(|&edge| edge > 0.0 && edge.is_finite());
        (sane && (1..=MOST_CELLS).contains(&product)).then_some(Self { length, cells })
    }

    /// One cell: what a sequential program has.
    pub fn whole(length: [f64; 3]) -> Option<Self> {
        Self::new(length, [1; 3])
    }

    /// As many whole cells of this edge as fit into the domain: floor(length / edge) along each dimension, as `MarDyn` counts them. What is left over
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

    /// How many cells there are along each dimension.
    pub fn cells(&self) -> [u64; 3] {
        self.cells
    }

    /// How many cells there are.
    pub fn count(&self) -> u64 {
        self.cells.iter().product()
    }

    /// The edges of a cell, rounded such that floor(length / edge) is the number of cells: [`with_edge`](Self::with_edge) gives this grid back.
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

    /// The number of the cell of a place, x fastest. What lies outside goes to the nearest cell.
    #[inline]
    pub fn cell_of(&self, position: [f64; 3]) -> u64 {
        let [x, y, z] = std::array::from_fn(|d| self.step(d, position[d]));
        (z * self.cells[1] + y) * self.cells[0] + x
    }

    /// The runs of cells that a region overlaps: first cell and how many, along x, ascending.
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
        // A float becomes the nearest number there is: no wrap-around below or above.
        let step = (at / self.length[d] * self.cells[d] as f64) as u64;
        step.min(self.cells[d] - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_face_and_what_lies_outside_go_to_the_nearest_cell() {
        let grid = CellGrid::new([1.0; 3], [4, 2, 1]).unwrap();
        assert_eq!(
            [0.0, 0.24, 0.25, 1.0, 7.0, -7.0].map(|x| grid.cell_of([x, 0.0, 0.0])),
            [0, 0, 1, 3, 3, 0]
        );
        assert_eq!(grid.cell_of([0.0, 1.0, 1.0]), 4);
    }

    #[test]
    fn runs_of_cells_join_where_they_touch() {
        let grid = CellGrid::new([4.0, 2.0, 1.0], [4, 2, 1]).unwrap();
        assert_eq!(grid.overlapped_runs(&SpatialRegion::EVERYWHERE), [(0, 8)]);
        assert_eq!(
            grid.overlapped_runs(&SpatialRegion::new([1.0, 0.0, 0.0], [2.5, 2.0, 1.0])),
            [(1, 2), (5, 2)]
        );
        assert_eq!(grid.overlapped_runs(&SpatialRegion::new([5.0, 0.0, 0.0], [6.0, 2.0, 1.0])), []);
    }

    #[test]
    fn whole_cells_are_counted() {
        assert_eq!(CellGrid::with_edge([2.5, 3.0, 0.9], [1.0, 1.0, 0.3]).unwrap().cells(), [2, 3, 3]);
        assert_eq!(CellGrid::with_edge([1.0; 3], [1.5, 1.0, 1.0]), None);
    }

    #[test]
    fn the_edge_gives_the_grid_back() {
        for n in 1..2000 {
            let grid = CellGrid::new([0.1, 97.0, 3.3], [n, n, 1]).unwrap();
            assert_eq!(CellGrid::with_edge(grid.length(), grid.edge()), Some(grid));
        }
        assert_eq!(CellGrid::with_edge([1.0; 3], [f64::NAN, 1.0, 1.0]), None);
        assert_eq!(CellGrid::with_edge([1.0; 3], [1e-9; 3]), None);
    }
}
