//! Boxes of equal load by a k-d tree.

use super::TreeCut;
use crate::cell_box::CellBox;
use crate::grid::SimulationGrid;

/// The cut of `cell_box` that minimises the greatest load of `ranks` ranks; among equal cuts the one across the longest axis.
pub(super) fn best_cut(grid: &SimulationGrid, load: &[u64], cell_box: &CellBox, ranks: usize) -> TreeCut {
    let below = ranks / 2;
    let profiles = profiles(grid, load, cell_box);
    let shape = cell_box.shape();
    let mut best: Option<((u128, i64), TreeCut)> = None;
    for (axis, profile) in profiles.iter().enumerate() {
        let total: u64 = profile.iter().sum();
        let mut lower = 0;
        for (step, here) in profile.iter().enumerate().take(profile.len().saturating_sub(1)) {
            lower += here;
            // Load per rank on both sides, as fractions with a common denominator.
            let heaviest =
                (u128::from(lower) * (ranks - below) as u128).max(u128::from(total - lower) * below as u128);
            let cost = (heaviest, -shape[axis]);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, TreeCut { axis, at: cell_box.low[axis] + step as i64 + 1, below }));
            }
        }
    }
    // A single cell cannot be divided: the lower ranks get it.
    best.map_or(TreeCut { axis: 0, at: cell_box.high[0], below }, |(_, cut)| cut)
}

/// The load of each layer of cells, per axis. An empty cell has a small load, so that empty space is distributed too.
fn profiles(grid: &SimulationGrid, load: &[u64], cell_box: &CellBox) -> [Vec<u64>; 3] {
    let mut profiles = cell_box.shape().map(|cells| vec![0; cells as usize]);
    for cell in cell_box.iter() {
        let weight = load[grid.index(cell)].saturating_mul(16).saturating_add(1);
        for (axis, profile) in profiles.iter_mut().enumerate() {
            profile[(cell[axis] - cell_box.low[axis]) as usize] += weight;
        }
    }
    profiles
}
