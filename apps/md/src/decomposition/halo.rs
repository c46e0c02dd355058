//! Which cells a rank needs of the others, and they of it: pure planning.

use crate::decomposition::Decomposition;
use crate::decomposition::cell_box::CellBox;
use crate::decomposition::grid::SimulationGrid;

/// Cells that go from one rank to another, or to the other side of the box.
#[derive(Clone, Debug, PartialEq)]
pub struct HaloStrip {
    /// The cells, where their owner has them.
    pub source: CellBox,
    /// The same cells, where the rank that needs them sees them: outside of its own box, perhaps outside of the whole one.
    pub target: CellBox,
    /// What positions grow by on the way.
    pub shift: [f64; 3],
}

/// What a rank and a neighbour have for each other. A rank can be its own neighbour, across the border of the box.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// Its rank.
    pub rank: usize,
    /// What it needs of us; it expects them in this order.
    pub outgoing: Vec<HaloStrip>,
    /// What we need of it.
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

/// The cells of `source` in the layer around `target`, once for each image of the box that puts them there.
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
        fn each_cell_around_a_box_comes_from_its_owner_once(
            shape in prop::array::uniform3(1i64..6), ranks in 1usize..8
        ) {
            let grid = SimulationGrid { length: [1.0, 2.0, 4.0], shape };
            let decomposition = Decomposition::regular(&grid, ranks);
            for rank in 0..ranks {
                let brick = decomposition.cell_box(rank);
                let mut missing: HashSet<[i64; 3]> =
                    brick.grown().iter().filter(|cell| !brick.contains(*cell)).collect();
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
