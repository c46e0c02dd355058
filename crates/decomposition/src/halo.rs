//! The halo exchange: which cells a rank sends to and receives from its neighbours. No communication.

use crate::Decomposition;
use crate::cell_box::CellBox;
use crate::grid::SimulationGrid;

/// Cells that are sent from one rank to another, or across the periodic boundary.
#[derive(Clone, Debug, PartialEq)]
pub struct HaloStrip {
    /// The cells in the coordinates of their owner.
    pub source: CellBox,
    /// The same cells in the coordinates of the receiver: outside of its box, perhaps outside of the whole box.
    pub target: CellBox,
    /// The shift of positions across the periodic boundary.
    pub shift: [f64; 3],
}

/// The cells that a rank exchanges with a neighbour. A rank can be its own neighbour across the periodic boundary.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// Its rank.
    pub rank: usize,
    /// The cells that are sent to it, in the order that it expects.
    pub outgoing: Vec<HaloStrip>,
    /// The cells that are received from it.
    pub incoming: Vec<HaloStrip>,
}

/// The neighbours of a rank, in rank order.
pub fn neighbours(grid: &SimulationGrid, decomposition: &Decomposition, rank: usize) -> Vec<Neighbour> {
    let between = |source: usize, target: usize| {
        halo_strips(grid, &decomposition.cell_box(source), &decomposition.cell_box(target), source == target)
    };
    let ranks = 0..decomposition.cell_boxes().len();
    let all = ranks.map(|other| Neighbour {
        rank: other,
        outgoing: between(rank, other),
        incoming: between(other, rank),
    });
    all.filter(|neighbour| !neighbour.outgoing.is_empty() || !neighbour.incoming.is_empty()).collect()
}

/// The cells of `source` in the layer around `target`, for each periodic image of the box.
fn halo_strips(grid: &SimulationGrid, source: &CellBox, target: &CellBox, same: bool) -> Vec<HaloStrip> {
    let around = target.grown();
    let images = CellBox { low: [-1; 3], high: [2; 3] };
    let strip = |image: [i64; 3]| {
        let by: [i64; 3] = std::array::from_fn(|axis| image[axis] * grid.shape[axis]);
        let seen = source.shifted(by).intersection(&around);
        if seen.is_empty() || (same && image == [0; 3]) {
            return None;
        }
        let shift = std::array::from_fn(|axis| image[axis] as f64 * grid.length[axis]);
        Some(HaloStrip { source: seen.shifted(by.map(|cells| -cells)), target: seen, shift })
    };
    images.iter().filter_map(strip).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_halo_cell_is_received_once_from_its_owner(
            shape in prop::array::uniform3(1i64..6), ranks in 1usize..8
        ) {
            let grid = SimulationGrid { length: [1.0, 2.0, 4.0], shape };
            let decomposition = Decomposition::regular(&grid, ranks);
            for rank in 0..ranks {
                let cell_box = decomposition.cell_box(rank);
                let mut missing: HashSet<[i64; 3]> =
                    cell_box.grown().iter().filter(|cell| !cell_box.contains(*cell)).collect();
                for neighbour in neighbours(&grid, &decomposition, rank) {
                    for strip in &neighbour.incoming {
                        for (target, source) in strip.target.iter().zip(strip.source.iter()) {
                            prop_assert!(missing.remove(&target));
                            prop_assert_eq!(decomposition.owner(source), neighbour.rank);
                            for axis in 0..3 {
                                let images = (target[axis] - source[axis]) / shape[axis];
                                prop_assert_eq!(strip.shift[axis], images as f64 * grid.length[axis]);
                            }
                        }
                    }
                    let theirs = neighbours(&grid, &decomposition, neighbour.rank);
                    let ours = theirs.iter().find(|other| other.rank == rank).unwrap();
                    prop_assert_eq!(&ours.outgoing, &neighbour.incoming);
                }
                prop_assert!(missing.is_empty());
            }
        }
    }
}
