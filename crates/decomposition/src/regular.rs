//! Equal boxes on a grid of ranks.

use super::TreeCut;
use crate::cell_box::CellBox;

/// The cuts of a grid of ranks as cuts of a tree: first along x, then y, then z.
pub(super) struct RegularCuts {
    shape: [i64; 3],
    ranks: [usize; 3],
}

impl RegularCuts {
    pub(super) fn new(shape: [i64; 3], ranks: usize) -> Self {
        Self { shape, ranks: best_grid(shape, ranks) }
    }

    /// The cut between `count` ranks from `first` on.
    pub(super) fn next(&mut self, _: &CellBox, first: usize, count: usize) -> TreeCut {
        let mut slab = count;
        let mut axis = 0;
        for (at, behind) in [self.ranks[1] * self.ranks[2], self.ranks[2], 1].into_iter().enumerate() {
            if count > behind {
                (axis, slab) = (at, behind);
                break;
            }
        }
        let (from, slabs) = (first / slab % self.ranks[axis], count / slab);
        let below = slabs / 2;
        let at = self.shape[axis] * (from + below) as i64 / self.ranks[axis] as i64;
        TreeCut { axis, at, below: below * slab }
    }
}

/// Ranks per axis: they minimise the largest box, then the surface.
fn best_grid(shape: [i64; 3], ranks: usize) -> [usize; 3] {
    let divisors = |number: usize| (1..=number).filter(move |divisor| number.is_multiple_of(*divisor));
    let grids = divisors(ranks).flat_map(|x| divisors(ranks / x).map(move |y| [x, y, ranks / x / y]));
    let cost = |grid: &[usize; 3]| {
        let [x, y, z] = [0, 1, 2].map(|axis| (shape[axis] as u64).div_ceil(grid[axis] as u64));
        (x * y * z, x * y + y * z + z * x)
    };
    grids.min_by_key(cost).unwrap_or([ranks, 1, 1])
}
