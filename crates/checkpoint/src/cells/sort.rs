//! A rank's particles, cell by cell.

use std::borrow::Cow;

use crate::grid::Grid;
use crate::molecule::Particle;

/// Particles of a cell that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) cell: u64,
    pub(crate) count: u64,
}

/// Particles in the order of their cells, as they are where they already lie so, and the runs they make.
pub(crate) fn sorted<'p, P: Particle>(grid: &Grid, particles: &'p [P]) -> (Cow<'p, [P]>, Vec<Run>) {
    if let Some(runs) = in_order(grid, particles) {
        return (Cow::Borrowed(particles), runs);
    }
    let mut keys: Vec<(u64, u32)> = Vec::with_capacity(particles.len());
    keys.extend(
        particles.iter().zip(0..).map(|(particle, index)| (grid.cell_of(particle.position()), index)),
    );
    match dense(&keys) {
        Some((least, width)) => count_sort(particles, &keys, least, width),
        None => {
            keys.sort_unstable();
            let ordered: Vec<P> = keys.iter().map(|(_, index)| particles[*index as usize]).collect();
            let mut runs: Vec<Run> = Vec::new();
            keys.iter().for_each(|(cell, _)| extend(&mut runs, *cell));
            (Cow::Owned(ordered), runs)
        }
    }
}

/// The runs, if the particles lie in the order of their cells.
fn in_order<P: Particle>(grid: &Grid, particles: &[P]) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for particle in particles {
        let cell = grid.cell_of(particle.position());
        if runs.last().is_some_and(|run| run.cell > cell) {
            return None;
        }
        extend(&mut runs, cell);
    }
    Some(runs)
}

#[inline]
fn extend(runs: &mut Vec<Run>, cell: u64) {
    match runs.last_mut() {
        Some(run) if run.cell == cell => run.count += 1,
        _ => runs.push(Run { cell, count: 1 }),
    }
}

/// The lowest cell, and how many there are up to the highest, if that is not much more than there are particles.
fn dense(keys: &[(u64, u32)]) -> Option<(u64, usize)> {
    let least = keys.iter().map(|key| key.0).min()?;
    let most = keys.iter().map(|key| key.0).max()?;
    (most - least < 4 * keys.len() as u64 + 1024).then_some((least, (most - least + 1) as usize))
}

fn count_sort<'p, P: Particle>(
    particles: &'p [P],
    keys: &[(u64, u32)],
    least: u64,
    width: usize,
) -> (Cow<'p, [P]>, Vec<Run>) {
    let mut starts = vec![0_u64; width + 1];
    keys.iter().for_each(|(cell, _)| starts[(cell - least) as usize + 1] += 1);
    let counts = starts[1..].iter().zip(least..).filter(|(count, _)| **count > 0);
    let runs: Vec<Run> = counts.map(|(count, cell)| Run { cell, count: *count }).collect();
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    let mut order = vec![0_u32; keys.len()];
    for (cell, index) in keys {
        let place = &mut starts[(cell - least) as usize];
        order[*place as usize] = *index;
        *place += 1;
    }
    (Cow::Owned(order.iter().map(|index| particles[*index as usize]).collect()), runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Molecule;

    fn check(grid: &Grid, places: &[f64]) {
        let particles: Vec<Molecule> =
            places.iter().zip(0..).map(|(x, id)| Molecule::new(id, [*x, 0.5, 0.5], [0.0; 3])).collect();
        let (ordered, runs) = sorted(grid, &particles);
        let cells: Vec<u64> = ordered.iter().map(|particle| grid.cell_of(particle.position)).collect();
        assert!(cells.is_sorted());
        let told: Vec<u64> = runs.iter().flat_map(|run| (0..run.count).map(|_| run.cell)).collect();
        assert_eq!(told, cells);
        let mut ids: Vec<u64> = ordered.iter().map(|particle| particle.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..places.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn particles_come_out_cell_by_cell_and_all_of_them() {
        let few = Grid::new([10.0, 1.0, 1.0], [10, 1, 1]).unwrap();
        let many = Grid::new([10.0, 1.0, 1.0], [1 << 30, 1, 1]).unwrap();
        for grid in [few, many] {
            check(&grid, &[]);
            check(&grid, &[9.5, 0.5, 3.0, 3.0, 10.0, 0.6]);
            check(&grid, &[0.5, 0.6, 3.0, 9.5]);
        }
    }

    #[test]
    fn what_lies_in_order_is_not_copied() {
        let grid = Grid::whole([1.0; 3]).unwrap();
        let particles = vec![Molecule::new(1, [0.5; 3], [0.0; 3]); 3];
        let (ordered, runs) = sorted(&grid, &particles);
        assert!(matches!(ordered, Cow::Borrowed(_)));
        assert_eq!(runs, [Run { cell: 0, count: 3 }]);
    }
}
