//! Forces on the molecules of a rank, summed over the 27 neighbouring cells in the order of cells and ids.
//!
//! A pair is computed twice, once for each molecule. This doubles the arithmetic, but the sum of every molecule has the same terms in the
//! same order on every rank: forces are bitwise the same for every decomposition.

use std::ops::Range;

use crate::decomposition::cell_box::CellBox;
use crate::force::linked_cells::LinkedCells;
use crate::force::potential::{PairPotential, Potential};

/// The force on one molecule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Force {
    /// The force.
    pub force: [f64; 3],
    /// Half of the potential energy of its pairs.
    pub energy: f64,
    /// Half of the sum of force times distance over its pairs.
    pub virial: f64,
}

/// The number of independent sums, so that additions do not depend on each other.
const LANES: usize = 4;

/// The forces on the molecules in the cells of `cell_box`, in their order.
pub fn forces(cell_box: &CellBox, cells: &LinkedCells, potential: &Potential) -> Vec<Force> {
    let around = cell_box.grown();
    let mut near = Vec::new();
    let mut forces = Vec::new();
    for cell in cell_box.iter() {
        let rows = rows_around(&around, cells, cell);
        for slot in cells.slots(around.index(cell)) {
            let pairs = potential.row(cells.component[slot] as usize);
            find_near(cells, slot, &rows, pairs, &mut near);
            forces.push(match pairs {
                [only] => force_on(cells, slot, &near, |_| only),
                _ => force_on(cells, slot, &near, |other| &pairs[cells.component[other] as usize]),
            });
        }
    }
    forces
}

/// The cells around a cell: nine rows of three, each one range.
fn rows_around(around: &CellBox, cells: &LinkedCells, [x, y, z]: [i64; 3]) -> [Range<usize>; 9] {
    std::array::from_fn(|row| {
        let (dy, dz) = (row as i64 % 3 - 1, row as i64 / 3 - 1);
        let first = around.index([x - 1, y + dy, z + dz]);
        cells.starts[first]..cells.starts[first + 3]
    })
}

/// The molecules of `rows` within the cutoff around the one in `slot`, without itself: about one of seven.
fn find_near(
    cells: &LinkedCells,
    slot: usize,
    rows: &[Range<usize>; 9],
    pairs: &[PairPotential],
    near: &mut Vec<usize>,
) {
    let cutoff2 = pairs.iter().fold(0.0, |most: f64, pair| most.max(pair.cutoff2));
    let [xs, ys, zs] = &cells.at;
    let here = [xs[slot], ys[slot], zs[slot]];
    near.resize(rows.iter().map(ExactSizeIterator::len).sum(), 0);
    let mut count = 0;
    for row in rows {
        let partners = xs[row.clone()].iter().zip(&ys[row.clone()]).zip(&zs[row.clone()]);
        for (other, ((x, y), z)) in row.clone().zip(partners) {
            // Written unconditionally, since a branch would often be mispredicted.
            near[count] = other;
            count += usize::from(square(here, [*x, *y, *z]) < cutoff2 && other != slot);
        }
    }
    near.truncate(count);
}

/// The force of the partners in `near` on the molecule in `slot`.
fn force_on<'p>(
    cells: &LinkedCells,
    slot: usize,
    near: &[usize],
    pair: impl Fn(usize) -> &'p PairPotential,
) -> Force {
    let [xs, ys, zs] = &cells.at;
    let here = [xs[slot], ys[slot], zs[slot]];
    let mut sums = [[0.0f64; LANES]; 5];
    for partners in near.chunks(LANES) {
        for (lane, &other) in partners.iter().enumerate() {
            let there = [xs[other], ys[other], zs[other]];
            let (r2, pair) = (square(here, there), pair(other));
            // Components without forces exert none.
            if r2 < pair.cutoff2 {
                let action = pair.at(r2);
                (0..3).for_each(|axis| sums[axis][lane] += action.force * (here[axis] - there[axis]));
                sums[3][lane] += action.energy;
                sums[4][lane] += action.force * r2;
            }
        }
    }
    let [x, y, z, energy, virial] = sums.map(|lanes| lanes.iter().sum::<f64>());
    Force { force: [x, y, z], energy: 0.5 * energy, virial: 0.5 * virial }
}

/// The square of a distance.
#[inline]
fn square(here: [f64; 3], there: [f64; 3]) -> f64 {
    let [x, y, z] = std::array::from_fn(|axis| here[axis] - there[axis]);
    x * x + y * y + z * z
}
