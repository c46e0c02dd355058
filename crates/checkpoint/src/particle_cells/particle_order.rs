//! The order of a rank's particles by cell, as indices. The particles are gathered in this order when they are written.

use crate::grid::CellGrid;
use crate::molecule::{Molecule, Particle};
use crate::region::SpatialRegion;

/// Consecutive particles of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRun {
    /// The number of the cell.
    pub cell: u64,
    /// The number of this rank's particles in it.
    pub count: u64,
}

/// The order of a rank's particles in a file of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParticleOrder {
    /// The indices of the particles in this order; none if they are in order in memory.
    indices: Option<Vec<u32>>,
    /// The cells, ascending.
    pub runs: Vec<CellRun>,
}

impl ParticleOrder {
    /// Sorts the particles by cell, in one pass if they are in order; or says why a particle cannot be stored.
    pub(crate) fn of<P: Particle>(grid: &CellGrid, particles: &[P]) -> Result<Self, String> {
        let mut runs: Vec<CellRun> = Vec::new();
        for (at, particle) in particles.iter().enumerate() {
            let cell = cell_of(grid, particle)?;
            match runs.last_mut() {
                Some(run) if run.cell == cell => run.count += 1,
                Some(run) if run.cell > cell => return Self::unordered(grid, particles, &runs, at),
                _ => runs.push(CellRun { cell, count: 1 }),
            }
        }
        Ok(Self { indices: None, runs })
    }

    /// Sorts particles of which only those before `at`, with the runs `before`, are in the order of their cells.
    fn unordered<P: Particle>(
        grid: &CellGrid,
        particles: &[P],
        before: &[CellRun],
        at: usize,
    ) -> Result<Self, String> {
        if u32::try_from(particles.len()).is_err() {
            let count = particles.len();
            return Err(format!(
                "one rank can sort at most {} particles, not {count}; use more ranks",
                u32::MAX
            ));
        }
        let mut cells = Vec::with_capacity(particles.len());
        before.iter().for_each(|run| cells.resize(cells.len() + run.count as usize, run.cell));
        for particle in &particles[at..] {
            cells.push(cell_of(grid, particle)?);
        }
        Ok(dense_cell_range(&cells)
            .map_or_else(|| comparison_sort(&cells), |(least, width)| counting_sort(&cells, least, width)))
    }

    /// The particles in this order.
    pub fn pick<'p, P>(&'p self, particles: &'p [P]) -> impl Iterator<Item = &'p P> {
        let straight = if self.indices.is_none() { particles } else { &[] };
        let picked = self.indices.iter().flatten().map(|index| &particles[*index as usize]);
        straight.iter().chain(picked)
    }

    /// Gathers rows of bytes in this order: fills `out` with the bytes from `from` on.
    pub(crate) fn gather(&self, rows: &[u8], row: usize, from: u64, out: &mut [u8]) {
        let from = from as usize;
        let Some(indices) = &self.indices else {
            return out.copy_from_slice(&rows[from..from + out.len()]);
        };
        // The end of a row, whole rows, the beginning of a row.
        let (mut indices, skip) = (&indices[from / row..], from % row);
        let (end, rest) = out.split_at_mut(if skip == 0 { 0 } else { out.len().min(row - skip) });
        if let (false, Some((index, others))) = (end.is_empty(), indices.split_first()) {
            end.copy_from_slice(&rows[*index as usize * row + skip..][..end.len()]);
            indices = others;
        }
        let (whole, front) = rest.split_at_mut(rest.len() - rest.len() % row);
        match row {
            MOLECULE => pick_fixed::<MOLECULE>(rows, indices, whole),
            _ => pick_any(row, rows, indices, whole),
        }
        if let (false, Some(index)) = (front.is_empty(), indices.get(whole.len() / row)) {
            front.copy_from_slice(&rows[*index as usize * row..][..front.len()]);
        }
    }
}

/// The row size of most files.
const MOLECULE: usize = size_of::<Molecule>();

/// Rows of a size that is known at compile time: a few moves each instead of a call, so the processor loads many rows at once.
fn pick_fixed<const ROW: usize>(rows: &[u8], indices: &[u32], out: &mut [u8]) {
    let (rows, out) = (rows.as_chunks::<ROW>().0, out.as_chunks_mut::<ROW>().0);
    out.iter_mut().zip(indices).for_each(|(out, index)| *out = rows[*index as usize]);
}

/// Rows of any size.
fn pick_any(row: usize, rows: &[u8], indices: &[u32], out: &mut [u8]) {
    for (out, index) in out.chunks_exact_mut(row).zip(indices) {
        out.copy_from_slice(&rows[*index as usize * row..][..row]);
    }
}

#[inline]
fn cell_of<P: Particle>(grid: &CellGrid, particle: &P) -> Result<u64, String> {
    let position = particle.position();
    if SpatialRegion::of(grid.length()).contains_closed(position) {
        Ok(grid.cell_of(position))
    } else {
        Err(outside(grid, position))
    }
}

#[cold]
fn outside(grid: &CellGrid, position: [f64; 3]) -> String {
    format!(
        "a particle at {position:?} is outside of the box {:?}; move it into the box, or use a larger box",
        grid.length()
    )
}

/// The lowest cell and the width of the range of cells, if the range is not much larger than the number of particles.
fn dense_cell_range(cells: &[u64]) -> Option<(u64, usize)> {
    let (least, most) = (cells.iter().min()?, cells.iter().max()?);
    (most - least < 4 * cells.len() as u64 + 1024).then_some((*least, (most - least + 1) as usize))
}

/// Counting sort, for few cells.
fn counting_sort(cells: &[u64], least: u64, width: usize) -> ParticleOrder {
    let mut counts = vec![0_u32; width];
    cells.iter().for_each(|cell| counts[(cell - least) as usize] += 1);
    let held = counts.iter().zip(least..).filter(|(count, _)| **count > 0);
    let runs = held.map(|(count, cell)| CellRun { cell, count: u64::from(*count) }).collect();
    let mut before = 0;
    for count in &mut counts {
        before += std::mem::replace(count, before);
    }
    let mut indices = vec![0; cells.len()];
    for (cell, index) in cells.iter().zip(0..) {
        let place = &mut counts[(cell - least) as usize];
        indices[*place as usize] = index;
        *place += 1;
    }
    ParticleOrder { indices: Some(indices), runs }
}

/// Comparison sort, for many cells that are far apart.
fn comparison_sort(cells: &[u64]) -> ParticleOrder {
    let mut indices: Vec<u32> = (0..cells.len() as u32).collect();
    indices.sort_unstable_by_key(|index| (cells[*index as usize], *index));
    let same = indices.chunk_by(|a, b| cells[*a as usize] == cells[*b as usize]);
    let runs = same.map(|same| CellRun { cell: cells[same[0] as usize], count: same.len() as u64 }).collect();
    ParticleOrder { indices: Some(indices), runs }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn molecules(places: &[f64]) -> Vec<Molecule> {
        places.iter().zip(0..).map(|(x, id)| Molecule::new(id, [*x, 0.5, 0.5], [0.0; 3])).collect()
    }

    fn check(grid: &CellGrid, places: &[f64]) {
        let particles = molecules(places);
        let order = ParticleOrder::of(grid, &particles).unwrap();
        let ordered: Vec<Molecule> = order.pick(&particles).copied().collect();
        let cells: Vec<u64> = ordered.iter().map(|particle| grid.cell_of(particle.position)).collect();
        assert!(cells.is_sorted());
        let found: Vec<u64> = order.runs.iter().flat_map(|run| (0..run.count).map(|_| run.cell)).collect();
        assert_eq!(found, cells);
        let mut ids: Vec<u64> = ordered.iter().map(|particle| particle.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..places.len() as u64).collect::<Vec<_>>());
        // As bytes, in pieces of any length; also rows of another size, here the ids alone.
        let ids: Vec<[u64; 2]> = particles.iter().map(|particle| [particle.id; 2]).collect();
        let ordered_ids: Vec<[u64; 2]> = ordered.iter().map(|particle| [particle.id; 2]).collect();
        let pairs: [(&[u8], &[u8], usize); 2] = [
            (bytemuck::cast_slice(&particles), bytemuck::cast_slice(&ordered), 120),
            (bytemuck::cast_slice(&ids), bytemuck::cast_slice(&ordered_ids), 16),
        ];
        for (rows, wanted, row) in pairs {
            for piece in [1, 7, 16, 120, 121, 1000] {
                let mut found = vec![0; rows.len()];
                for (number, out) in found.chunks_mut(piece).enumerate() {
                    order.gather(rows, row, (number * piece) as u64, out);
                }
                assert_eq!(found, wanted, "rows of {row} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn all_particles_are_sorted_by_cell() {
        let few = CellGrid::new([10.0, 1.0, 1.0], [10, 1, 1]).unwrap();
        let many = CellGrid::new([10.0, 1.0, 1.0], [1 << 30, 1, 1]).unwrap();
        for grid in [few, many] {
            check(&grid, &[]);
            check(&grid, &[9.5, 0.5, 3.0, 3.0, 10.0, 0.6]);
            check(&grid, &[0.5, 0.6, 3.0, 9.5]);
            check(&grid, &[0.5, 0.5, 3.0, 9.5, 3.0]);
        }
    }

    #[test]
    fn particles_in_order_need_no_indices() {
        let grid = CellGrid::whole([10.0, 1.0, 1.0]).unwrap();
        let order = ParticleOrder::of(&grid, &molecules(&[0.5, 0.1, 0.7])).unwrap();
        assert_eq!(order, ParticleOrder { indices: None, runs: vec![CellRun { cell: 0, count: 3 }] });
    }

    #[test]
    fn a_particle_outside_of_the_box_is_an_error() {
        let grid = CellGrid::new([10.0, 1.0, 1.0], [10, 1, 1]).unwrap();
        for places in [&[11.0][..], &[0.5, 11.0], &[3.0, 0.5, 11.0]] {
            let refused = ParticleOrder::of(&grid, &molecules(places)).unwrap_err();
            assert!(refused.contains("11.0") && refused.contains("outside"), "{refused}");
        }
    }
}
