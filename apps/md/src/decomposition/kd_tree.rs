//! Boxes of equal load by a k-d tree.

use super::TreeCut;
use crate::decomposition::cell_box::CellBox;
use crate::decomposition::grid::SimulationGrid;

/// The cut through `brick` after which the heaviest of `ranks` ranks has least to do; of equal ones that across the longest axis.
pub(super) fn best_cut(grid: &SimulationGrid, load: &[u64], brick: &CellBox, ranks: usize) -> TreeCut {
    let below = ranks / 2;
    let profiles = profiles(grid, load, brick);
    let shape = brick.shape();
    let mut best: Option<((u128, i64), TreeCut)> = None;
    for (axis, profile) in profiles.iter().enumerate() {
        let total: u64 = profile.iter().sum();
        let mut lower = 0;
        for (step, here) in profile.iter().enumerate().take(profile.len().saturating_sub(1)) {
            lower += here;
            // Load per rank on either side, as fractions of the common denominator.
            let heaviest =
                (u128::from(lower) * (ranks - below) as u128).max(u128::from(total - lower) * below as u128);
            let cost = (heaviest, -shape[axis]);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, TreeCut { axis, at: brick.low[axis] + step as i64 + 1, below }));
            }
        }
    }
    // One cell cannot be cut: the lower ranks get it.
    best.map_or(TreeCut { axis: 0, at: brick.high[0], below }, |(_, cut)| cut)
}

/// The load of each layer of cells, per axis; a cell without load counts a little, so that empty space is dealt out too.
fn profiles(grid: &SimulationGrid, load: &[u64], brick: &CellBox) -> [Vec<u64>; 3] {
    let mut profiles = brick.shape().map(|cells| vec![0; cells as usize]);
    for cell in brick.iter() {
        let weight = load[grid.index(cell)].saturating_mul(16).saturating_add(1);
        for (axis, profile) in profiles.iter_mut().enumerate() {
            profile[(cell[axis] - brick.low[axis]) as usize] += weight;
        }
    }
    profiles
}
