//! The cells of the whole box. They are the same for every decomposition, so that sums have the same order.

use anyhow::{Result, ensure};

/// The periodic box from 0 to `length`, divided into equal cells that are not smaller than the cutoff.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulationGrid {
    /// Edges of the box.
    pub length: [f64; 3],
    /// Cells along each edge.
    pub shape: [i64; 3],
}

/// The factor by which cells are larger than the cutoff, so that rounding never puts a partner two cells away.
const MARGIN: f64 = 1.0 + 1e-9;

impl SimulationGrid {
    /// Cells for a number of molecules: as small as the cutoff allows, but not many more than molecules.
    pub fn new(length: [f64; 3], cutoff: f64, molecules: u64) -> Result<Self> {
        ensure!(cutoff.is_finite() && cutoff > 0.0, "the cutoff radius {cutoff} must be a positive number");
        for (axis, edge) in ["x", "y", "z"].iter().zip(length) {
            ensure!(
                edge.is_finite() && edge >= cutoff * MARGIN,
                "the box is {edge} long in {axis}, less than the cutoff radius {cutoff}; use a larger box or a smaller cutoff"
            );
        }
        let most = (4.0 * molecules as f64).max(64.0);
        let finest = length.map(|edge| edge / (cutoff * MARGIN));
        Ok(Self { length, shape: coarsened(finest, most).map(|cells| cells as i64) })
    }

    /// The cell of a position inside the box.
    pub fn cell_of(&self, position: [f64; 3]) -> [i64; 3] {
        std::array::from_fn(|axis| {
            let cells = self.shape[axis];
            ((position[axis] * (cells as f64 / self.length[axis])) as i64).clamp(0, cells - 1)
        })
    }

    /// The edge of a cell along each axis.
    pub fn cell_length(&self) -> [f64; 3] {
        std::array::from_fn(|axis| self.length[axis] / self.shape[axis] as f64)
    }

    /// Wraps a position that has left the box by less than its length to the other side.
    pub fn wrap(&self, mut position: [f64; 3]) -> [f64; 3] {
        for (x, length) in position.iter_mut().zip(self.length) {
            if *x < 0.0 {
                *x += length;
            } else if *x >= length {
                *x -= length;
            }
            // A tiny negative number plus the length is rounded to the length.
            if *x >= length {
                *x = 0.0;
            }
        }
        position
    }

    /// The number of cells.
    pub fn cells(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }

    /// The number of a cell, x fastest.
    pub fn index(&self, cell: [i64; 3]) -> usize {
        ((cell[2] * self.shape[1] + cell[1]) * self.shape[0] + cell[0]) as usize
    }

    /// The volume of the box.
    pub fn volume(&self) -> f64 {
        self.length.iter().product()
    }
}

/// Reduces the numbers of cells along the axes so that there are about `most` cells at most. If an axis has only one cell, as in a long
/// tube, the others are reduced further.
fn coarsened(finest: [f64; 3], most: f64) -> [f64; 3] {
    let mut shape = finest;
    for _ in 0..shape.len() {
        let excess = shape.iter().product::<f64>() / most;
        if excess <= 1.001 {
            break;
        }
        let long = shape.iter().filter(|cells| **cells > 1.0).count();
        let share = if long == shape.len() { excess.cbrt() } else { excess.powf(1.0 / long.max(1) as f64) };
        shape = shape.map(|cells| (cells / share).max(1.0));
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_larger_than_the_cutoff_and_contain_their_positions() {
        let grid = SimulationGrid::new([10.0, 7.4, 2.5], 2.4, 1000).unwrap();
        assert_eq!(grid.shape, [4, 3, 1]);
        assert!(grid.cell_length().iter().all(|edge| *edge > 2.4));
        assert_eq!(grid.cell_of([9.999, 0.0, 2.4]), [3, 0, 0]);
        assert_eq!(grid.cell_of([10.0f64.next_down(), 7.4f64.next_down(), 0.0]), [3, 2, 0]);
    }

    #[test]
    fn a_large_empty_box_has_few_cells() {
        assert!(SimulationGrid::new([1e6; 3], 1.0, 1000).unwrap().cells() <= 4000);
        for tube in [[1e15, 1.1, 1.1], [1e12, 1e12, 1.1], [1.1, 1e300, 1e300]] {
            let grid = SimulationGrid::new(tube, 1.0, 1000).unwrap();
            assert!((1..=4010).contains(&grid.cells()), "{tube:?}: {:?}", grid.shape);
        }
    }

    #[test]
    fn positions_are_wrapped_into_the_box() {
        let grid = SimulationGrid::new([3.0; 3], 1.0, 10).unwrap();
        assert_eq!(grid.wrap([-1.0, 3.0, 4.5]), [2.0, 0.0, 1.5]);
        assert_eq!(grid.wrap([-1e-30, 0.0, 1.0]), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn a_box_smaller_than_the_cutoff_is_an_error() {
        let error = SimulationGrid::new([5.0, 1.0, 5.0], 2.0, 10).unwrap_err().to_string();
        assert!(error.contains("in y") && error.contains("cutoff radius 2"), "{error}");
    }
}
