//! A box of cells.

/// Cells from `low` (included) to `high` (excluded) along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellBox {
    /// The first cell.
    pub low: [i64; 3],
    /// One past the last.
    pub high: [i64; 3],
}

impl CellBox {
    /// All cells of a grid of this shape.
    pub fn whole(shape: [i64; 3]) -> Self {
        Self { low: [0; 3], high: shape }
    }

    /// Whether it has no cells.
    pub fn is_empty(&self) -> bool {
        (0..3).any(|axis| self.low[axis] >= self.high[axis])
    }

    /// Cells along each axis.
    pub fn shape(&self) -> [i64; 3] {
        std::array::from_fn(|axis| (self.high[axis] - self.low[axis]).max(0))
    }

    /// The number of cells.
    pub fn cells(&self) -> usize {
        self.shape().iter().product::<i64>() as usize
    }

    /// Whether it contains a cell.
    pub fn contains(&self, cell: [i64; 3]) -> bool {
        (0..3).all(|axis| (self.low[axis]..self.high[axis]).contains(&cell[axis]))
    }

    /// The intersection with another box.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self {
            low: std::array::from_fn(|axis| self.low[axis].max(other.low[axis])),
            high: std::array::from_fn(|axis| self.high[axis].min(other.high[axis])),
        }
    }

    /// The box shifted by an offset.
    #[must_use]
    pub fn shifted(&self, by: [i64; 3]) -> Self {
        let add = |corner: [i64; 3]| std::array::from_fn(|axis| corner[axis] + by[axis]);
        Self { low: add(self.low), high: add(self.high) }
    }

    /// The box with one more layer of cells around it; an empty box stays empty.
    #[must_use]
    pub fn grown(&self) -> Self {
        if self.is_empty() {
            return *self;
        }
        Self { low: self.low.map(|at| at - 1), high: self.high.map(|at| at + 1) }
    }

    /// The parts below and from `at` on, along an axis.
    pub fn split(&self, axis: usize, at: i64) -> (Self, Self) {
        let (mut below, mut above) = (*self, *self);
        (below.high[axis], above.low[axis]) = (at, at);
        (below, above)
    }

    /// The index of a cell in the box, x fastest.
    pub fn index(&self, cell: [i64; 3]) -> usize {
        let shape = self.shape();
        let at: [i64; 3] = std::array::from_fn(|axis| cell[axis] - self.low[axis]);
        ((at[2] * shape[1] + at[1]) * shape[0] + at[0]) as usize
    }

    /// The cells, x fastest.
    pub fn iter(&self) -> impl Iterator<Item = [i64; 3]> + use<> {
        let Self { low, high } = *self;
        (low[2]..high[2])
            .flat_map(move |z| (low[1]..high[1]).flat_map(move |y| (low[0]..high[0]).map(move |x| [x, y, z])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_numbered_in_the_order_of_iteration() {
        let cell_box = CellBox { low: [-1, 2, 0], high: [2, 4, 3] };
        assert_eq!(cell_box.cells(), 18);
        assert!(
            cell_box
                .iter()
                .enumerate()
                .all(|(at, cell)| cell_box.index(cell) == at && cell_box.contains(cell))
        );
        assert_eq!(cell_box.iter().count(), 18);
    }

    #[test]
    fn an_empty_box_does_not_grow() {
        let nothing = CellBox { low: [1; 3], high: [1, 5, 5] };
        assert!(nothing.is_empty() && nothing.grown().is_empty() && nothing.cells() == 0);
        assert_eq!(CellBox::whole([2; 3]).grown().cells(), 64);
    }
}
