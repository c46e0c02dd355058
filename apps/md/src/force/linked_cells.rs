//! Linked cells: the molecules of a rank and the ghost molecules around them, sorted by cell for the force loop.

use bytemuck::{Pod, Zeroable};

use crate::decomposition::cell_box::CellBox;
use crate::decomposition::grid::SimulationGrid;
use aqueduct::checkpoint::Molecule;

/// A copy of a neighbour's molecule, with the values that the forces need.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Ghost {
    /// Position in the coordinates of the receiver.
    pub position: [f64; 3],
    /// Component.
    pub component: u32,
    /// Index of its cell, in an order that sender and receiver know.
    pub cell: u32,
}

/// Positions and components sorted by cell (x fastest, with one layer of cells around those of the rank) and by id inside a cell.
#[derive(Clone, Debug, Default)]
pub struct LinkedCells {
    /// The index of the first molecule of each cell, and the end of the last cell.
    pub starts: Vec<usize>,
    /// Coordinates, an array for each axis.
    pub at: [Vec<f64>; 3],
    /// Components.
    pub component: Vec<u32>,
}

impl LinkedCells {
    /// `molecules` are sorted by [`sort`]; `ghosts` have the indices of their cells in the grown box, in any order.
    pub fn new(grid: &SimulationGrid, cell_box: &CellBox, molecules: &[Molecule], ghosts: &[Ghost]) -> Self {
        let around = cell_box.grown();
        let own: Vec<usize> =
            molecules.iter().map(|molecule| around.index(grid.cell_of(molecule.position))).collect();
        let mut starts = vec![0usize; around.cells() + 1];
        for cell in own.iter().copied().chain(ghosts.iter().map(|ghost| ghost.cell as usize)) {
            starts[cell + 1] += 1;
        }
        for cell in 1..starts.len() {
            starts[cell] += starts[cell - 1];
        }
        let total = molecules.len() + ghosts.len();
        let mut cells = Self { at: [(); 3].map(|()| vec![0.0; total]), component: vec![0; total], starts };
        let mut next = cells.starts.clone();
        let all = molecules
            .iter()
            .zip(own)
            .map(|(molecule, cell)| (cell, molecule.position, molecule.component as u32));
        let all =
            all.chain(ghosts.iter().map(|ghost| (ghost.cell as usize, ghost.position, ghost.component)));
        for (cell, position, component) in all {
            let slot = next[cell];
            next[cell] += 1;
            (0..3).for_each(|axis| cells.at[axis][slot] = position[axis]);
            cells.component[slot] = component;
        }
        cells
    }

    /// The molecules in a cell.
    pub fn slots(&self, cell: usize) -> std::ops::Range<usize> {
        self.starts[cell]..self.starts[cell + 1]
    }
}

/// Sorts the molecules of a rank by cell and, inside a cell, by id, which is the same order for every decomposition. Returns the index of
/// the first molecule of each cell, and the end of the last cell.
pub fn sort(grid: &SimulationGrid, cell_box: &CellBox, molecules: &mut Vec<Molecule>) -> Vec<usize> {
    let mut counts = vec![0usize; cell_box.cells() + 1];
    let places: Vec<usize> =
        molecules.iter().map(|molecule| cell_box.index(grid.cell_of(molecule.position))).collect();
    places.iter().for_each(|cell| counts[cell + 1] += 1);
    for cell in 1..counts.len() {
        counts[cell] += counts[cell - 1];
    }
    let mut sorted = vec![Molecule::zeroed(); molecules.len()];
    let mut next = counts.clone();
    for (molecule, cell) in molecules.iter().zip(places) {
        sorted[next[cell]] = *molecule;
        next[cell] += 1;
    }
    for range in counts.windows(2) {
        sorted[range[0]..range[1]].sort_unstable_by_key(|molecule| molecule.id);
    }
    *molecules = sorted;
    counts
}
