//! Domain decomposition of particle simulations: the cells of the whole box, boxes of cells for each rank as a tree of cuts (regular, or a
//! k-d tree of equal load), and the halo regions between them. No communication: every rank computes the same tree.
//!
//! ```
//! use aqueduct_decomposition::{Decomposition, grid::SimulationGrid, halo};
//!
//! let grid = SimulationGrid::new([12.0, 12.0, 12.0], 2.5, 1000)?;
//! let boxes = Decomposition::regular(&grid, 4);
//! let cell = grid.cell_of([11.0, 1.0, 1.0]);
//! assert!(boxes.cell_box(boxes.owner(cell)).contains(cell));
//! assert_eq!(halo::neighbours(&grid, &boxes, 0).len(), 4);
//! # anyhow::Ok(())
//! ```

// Shifts and wrapped positions are exact.
#![cfg_attr(test, allow(clippy::float_cmp))]

pub mod cell_box;
pub mod grid;
pub mod halo;
mod kd_tree;
mod regular;

use crate::cell_box::CellBox;
use crate::grid::SimulationGrid;

/// The method of decomposition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecompositionMethod {
    /// Into equal boxes on a grid of ranks (`DomainDecomposition`).
    #[default]
    Regular,
    /// By a k-d tree, into boxes of equal load (`KDDecomposition`).
    Kd,
}

/// A box of cells for each rank; together they are the grid. A box is empty if there are more ranks than cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Decomposition {
    nodes: Vec<TreeNode>,
    cell_boxes: Vec<CellBox>,
    shape: [i64; 3],
}

#[derive(Clone, Debug, PartialEq)]
enum TreeNode {
    Leaf(usize),
    /// Cells below `at` belong to the node that follows, the others to the node `above`.
    Cut {
        axis: usize,
        at: i64,
        above: usize,
    },
}

/// A cut: axis, first cell of the upper part, number of ranks of the lower part.
struct TreeCut {
    axis: usize,
    at: i64,
    below: usize,
}

impl Decomposition {
    /// Equal boxes.
    pub fn regular(grid: &SimulationGrid, ranks: usize) -> Self {
        let mut cuts = regular::RegularCuts::new(grid.shape, ranks);
        Self::cut(grid.shape, ranks, |cell_box, first, count| cuts.next(cell_box, first, count))
    }

    /// Boxes of equal load; `load` has one number per cell of the grid.
    pub fn kd(grid: &SimulationGrid, ranks: usize, load: &[u64]) -> Self {
        assert_eq!(load.len(), grid.cells(), "one load for each cell");
        Self::cut(grid.shape, ranks, |cell_box, _, count| kd_tree::best_cut(grid, load, cell_box, count))
    }

    fn cut(shape: [i64; 3], ranks: usize, mut choose: impl FnMut(&CellBox, usize, usize) -> TreeCut) -> Self {
        let mut whole = Self { nodes: Vec::new(), cell_boxes: Vec::new(), shape };
        whole.divide(CellBox::whole(shape), ranks, &mut choose);
        whole
    }

    fn divide(
        &mut self,
        cell_box: CellBox,
        ranks: usize,
        choose: &mut impl FnMut(&CellBox, usize, usize) -> TreeCut,
    ) {
        let first = self.cell_boxes.len();
        if ranks == 1 {
            self.nodes.push(TreeNode::Leaf(first));
            self.cell_boxes.push(cell_box);
            return;
        }
        let TreeCut { axis, at, below } = choose(&cell_box, first, ranks);
        let node = self.nodes.len();
        self.nodes.push(TreeNode::Cut { axis, at, above: 0 });
        let (lower, upper) = cell_box.split(axis, at);
        self.divide(lower, below, choose);
        let above = self.nodes.len();
        self.nodes[node] = TreeNode::Cut { axis, at, above };
        self.divide(upper, ranks - below, choose);
    }

    /// The rank that has a cell of the grid.
    pub fn owner(&self, cell: [i64; 3]) -> usize {
        let mut node = 0;
        loop {
            match self.nodes[node] {
                TreeNode::Leaf(rank) => return rank,
                TreeNode::Cut { axis, at, above } => node = if cell[axis] < at { node + 1 } else { above },
            }
        }
    }

    /// The box of a rank.
    pub fn cell_box(&self, rank: usize) -> CellBox {
        self.cell_boxes[rank]
    }

    /// The boxes of all ranks.
    pub fn cell_boxes(&self) -> &[CellBox] {
        &self.cell_boxes
    }

    /// The number of cells for files along each axis: the fewest equal cells that no cut divides.
    pub fn file_cells(&self) -> [i64; 3] {
        let mut edge = self.shape;
        for node in &self.nodes {
            if let TreeNode::Cut { axis, at, .. } = *node {
                edge[axis] = gcd(edge[axis], at);
            }
        }
        std::array::from_fn(|axis| self.shape[axis] / edge[axis])
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grid(shape: [i64; 3]) -> SimulationGrid {
        SimulationGrid { length: shape.map(|cells| cells as f64), shape }
    }

    /// Checks that every cell has one owner, whose box contains it.
    fn assert_covers(decomposition: &Decomposition, shape: [i64; 3], ranks: usize) {
        assert_eq!(decomposition.cell_boxes().len(), ranks);
        let cells: usize = decomposition.cell_boxes().iter().map(CellBox::cells).sum();
        assert_eq!(cells, CellBox::whole(shape).cells());
        for cell in CellBox::whole(shape).iter() {
            assert!(decomposition.cell_box(decomposition.owner(cell)).contains(cell));
        }
        // No cut divides a cell of a file.
        let file = decomposition.file_cells();
        for cell_box in decomposition.cell_boxes().iter().filter(|cell_box| !cell_box.is_empty()) {
            for axis in 0..3 {
                let edge = shape[axis] / file[axis];
                assert!(cell_box.low[axis] % edge == 0 && cell_box.high[axis] % edge == 0);
            }
        }
    }

    proptest! {
        #[test]
        fn both_methods_cover_the_grid(
            shape in prop::array::uniform3(1i64..7), ranks in 1usize..12, seed in any::<u64>()
        ) {
            let grid = grid(shape);
            assert_covers(&Decomposition::regular(&grid, ranks), shape, ranks);
            let load: Vec<u64> = (0..grid.cells() as u64).map(|cell| (cell * 7919) ^ seed >> 50).collect();
            assert_covers(&Decomposition::kd(&grid, ranks, &load), shape, ranks);
            assert_covers(&Decomposition::kd(&grid, ranks, &vec![0; grid.cells()]), shape, ranks);
        }
    }

    #[test]
    fn regular_boxes_are_equal_if_possible() {
        let decomposition = Decomposition::regular(&grid([12, 12, 12]), 8);
        assert!(decomposition.cell_boxes().iter().all(|cell_box| cell_box.shape() == [6, 6, 6]));
        assert_eq!(decomposition.file_cells(), [2, 2, 2]);
        let decomposition = Decomposition::regular(&grid([21, 4, 4]), 7);
        assert!(decomposition.cell_boxes().iter().all(|cell_box| cell_box.shape() == [3, 4, 4]));
        assert_eq!(Decomposition::regular(&grid([5, 5, 5]), 1).file_cells(), [1, 1, 1]);
    }

    #[test]
    fn the_tree_balances_an_uneven_load() {
        let grid = grid([8, 8, 8]);
        let crowd = |cell: [i64; 3]| if cell.iter().all(|at| *at < 4) { 100 } else { 1 };
        let load: Vec<u64> = CellBox::whole(grid.shape).iter().map(crowd).collect();
        let worst = |decomposition: &Decomposition| {
            let of = |cell_box: &CellBox| cell_box.iter().map(crowd).sum::<u64>();
            decomposition.cell_boxes().iter().map(of).max().unwrap()
        };
        let mean = load.iter().sum::<u64>() / 8;
        assert!(worst(&Decomposition::regular(&grid, 8)) > 7 * mean);
        assert!(worst(&Decomposition::kd(&grid, 8, &load)) < mean + mean / 2);
    }
}
