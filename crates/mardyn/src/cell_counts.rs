//! The number of molecules in each cell of a file, and the cells that a rank reads.

use aqueduct_checkpoint::{CellGrid, Molecule, SpatialRegion};
use aqueduct_comm::Comm;
use aqueduct_comm::agreement::agree;
use aqueduct_file::{Error, Kind, Result};

use crate::molecule_values::find_duplicate;
use crate::phase_space::PhaseSpace;
use crate::redistribution::by_region;

/// The number of molecules in each cell of a file.
pub(super) struct MoleculeCellCounts {
    grid: CellGrid,
    /// Whether the cells fill the box. If not, the file does not say which cell has the molecules in the remainder of the box.
    fills: bool,
    pub(super) counts: Vec<u64>,
    /// The number of molecules before each cell.
    pub(super) firsts: Vec<u64>,
}

/// The distance, as a fraction of the box, within which programs may assign a molecule to either side of a cell's face.
const FACE: f64 = 1e-9;

impl MoleculeCellCounts {
    /// The cells of `grid`, whose edges are `edge` in the file.
    pub(super) fn new(grid: CellGrid, edge: [f64; 3], counts: Vec<u64>) -> Self {
        let sum = |before: &mut u64, count: &u64| {
            let first = *before;
            *before += count;
            Some(first)
        };
        let firsts = counts.iter().scan(0, sum).collect();
        let rest = |d: usize| grid.length()[d] - grid.cells()[d] as f64 * edge[d];
        let fills = (0..3).all(|d| rest(d).abs() <= FACE * grid.length()[d]);
        Self { grid, fills, counts, firsts }
    }

    /// The cells that a region overlaps. Without a region, or if the cells do not fill the box: the cells whose first molecule is in this
    /// rank's share.
    pub(super) fn wanted(&self, comm: &Comm, region: Option<&SpatialRegion>) -> Vec<usize> {
        let Some(region) = region.filter(|_| self.fills) else {
            let total: u64 = self.counts.iter().sum();
            let border = |rank: usize| (u128::from(total) * rank as u128 / comm.size() as u128) as u64;
            let share = border(comm.rank())..border(comm.rank() + 1);
            let mine = |cell: &usize| self.counts[*cell] > 0 && share.contains(&self.firsts[*cell]);
            return (0..self.counts.len()).filter(mine).collect();
        };
        if (0..3).any(|d| region.low[d] >= region.high[d]) {
            return Vec::new();
        }
        let margin = self.grid.length().map(|edge| FACE * edge);
        let wider = SpatialRegion::new(
            std::array::from_fn(|d| region.low[d] - margin[d]),
            std::array::from_fn(|d| region.high[d] + margin[d]),
        );
        let runs = self.grid.overlapped_runs(&wider);
        runs.into_iter().flat_map(|(first, count)| first as usize..(first + count) as usize).collect()
    }

    /// Checks that no molecule was read twice, and selects or exchanges the molecules of each rank's region.
    pub(super) fn finish(
        &self,
        comm: &Comm,
        name: &str,
        space: &PhaseSpace,
        mut molecules: Vec<Molecule>,
        region: Option<&SpatialRegion>,
    ) -> Result<Vec<Molecule>> {
        let double = find_duplicate(molecules.iter().map(|molecule| molecule.id));
        let refuse = |id| Err(Error::new(Kind::Damaged, "read", name, format!("molecule {id} occurs twice")));
        agree(comm, "read", name, double.map_or(Ok(()), refuse))?;
        match region {
            Some(region) if self.fills => {
                molecules.retain(|molecule| region.contains(molecule.position, space.length));
                Ok(molecules)
            }
            Some(region) => by_region(comm, name, molecules, region, space.length),
            None => Ok(molecules),
        }
    }
}
