//! Forces on a rank's molecules: each is summed over the 27 cells around it, in the order of cells and ids.
//!
//! A pair is computed from both sides. That costs twice the arithmetic and buys that the sum of every molecule has the same terms in
//! the same order whoever computes it: forces are the same to the bit for every decomposition.

use crate::brick::Brick;
use crate::cells::Cells;
use crate::potential::{Pair, Potential};

/// What acts on one molecule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pull {
    /// The force.
    pub force: [f64; 3],
    /// Half of the potential energy of its pairs.
    pub energy: f64,
    /// Half of the sum of force times distance over its pairs.
    pub virial: f64,
}

/// Partners at once: independent sums, so that the processor can work on them together.
const LANES: usize = 4;

/// What acts on each molecule of the cells of `brick`, in their order.
pub fn pulls(brick: &Brick, cells: &Cells, potential: &Potential) -> Vec<Pull> {
    let around = brick.grown();
    let mut pulls = Vec::new();
    for cell in brick.iter() {
        let slots = cells.slots(around.index(cell));
        let rows = rows_around(&around, cells, cell);
        for slot in slots {
            let pairs = potential.row(cells.component[slot] as usize);
            pulls.push(match pairs {
                [only] => pull(cells, slot, &rows, |_| only),
                _ => pull(cells, slot, &rows, |other| &pairs[cells.component[other] as usize]),
            });
        }
    }
    pulls
}

/// The cells around a cell: nine rows of three, each one range.
fn rows_around(around: &Brick, cells: &Cells, [x, y, z]: [i64; 3]) -> [(usize, usize); 9] {
    std::array::from_fn(|row| {
        let (dy, dz) = (row as i64 % 3 - 1, row as i64 / 3 - 1);
        let first = around.index([x - 1, y + dy, z + dz]);
        (cells.starts[first], cells.starts[first + 3])
    })
}

/// What acts on the molecule in `slot`, by partners in `rows`.
#[inline]
fn pull<'p>(
    cells: &Cells,
    slot: usize,
    rows: &[(usize, usize); 9],
    pair: impl Fn(usize) -> &'p Pair,
) -> Pull {
    let [xs, ys, zs] = &cells.at;
    let here = [xs[slot], ys[slot], zs[slot]];
    let mut sums = [[0.0f64; LANES]; 5];
    for &(start, end) in rows {
        let mut first = start;
        while first < end {
            for lane in 0..LANES {
                // Lanes past the end repeat the last partner, without effect.
                let other = (first + lane).min(end - 1);
                let (dx, dy, dz) = (here[0] - xs[other], here[1] - ys[other], here[2] - zs[other]);
                let r2 = dx * dx + dy * dy + dz * dz;
                let pair = pair(other);
                let counts = r2 < pair.cutoff2 && other != slot && first + lane < end;
                let action = pair.at(if counts { r2 } else { 1.0 });
                let (energy, force) = if counts { (action.energy, action.force) } else { (0.0, 0.0) };
                sums[0][lane] += force * dx;
                sums[1][lane] += force * dy;
                sums[2][lane] += force * dz;
                sums[3][lane] += energy;
                sums[4][lane] += force * r2;
            }
            first += LANES;
        }
    }
    let [x, y, z, energy, virial] = sums.map(|lanes| lanes.iter().sum::<f64>());
    Pull { force: [x, y, z], energy: 0.5 * energy, virial: 0.5 * virial }
}
