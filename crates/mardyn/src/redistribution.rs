//! Exchange of molecules between ranks, by region, id or cell.

use aqueduct_checkpoint::{CellGrid, Molecule, SpatialRegion};
use aqueduct_comm::{Comm, Op};
use aqueduct_file::{Error, Kind, Result};

use crate::molecule_values::find_duplicate;
use crate::phase_space::PhaseSpace;

/// Sends each molecule to the ranks whose region contains it.
pub(super) fn by_region(
    comm: &Comm,
    name: &str,
    molecules: Vec<Molecule>,
    region: &SpatialRegion,
    length: [f64; 3],
) -> Result<Vec<Molecule>> {
    let comm_error = |error| Error::from_comm("read", name, &error);
    let corners = [region.low, region.high].concat();
    let all = comm.allgather(&corners).map_err(comm_error)?;
    let regions: Vec<SpatialRegion> =
        all.chunks_exact(6).map(|c| SpatialRegion::new([c[0], c[1], c[2]], [c[3], c[4], c[5]])).collect();
    if regions.len() == 1 {
        return Ok(molecules
            .into_iter()
            .filter(|molecule| region.contains(molecule.position, length))
            .collect());
    }
    let index = RegionIndex::new(&regions, length);
    let mut parts = vec![Vec::new(); regions.len()];
    for molecule in molecules {
        for rank in index.near(molecule.position) {
            if regions[rank].contains(molecule.position, length) {
                parts[rank].push(molecule);
            }
        }
    }
    Ok(comm.all_to_all_varied(&parts).map_err(comm_error)?.concat())
}

/// Finds the ranks whose region may contain a position, without testing all of them.
struct RegionIndex {
    grid: Option<CellGrid>,
    ranks: Vec<Vec<usize>>,
}

impl RegionIndex {
    fn new(regions: &[SpatialRegion], length: [f64; 3]) -> Self {
        let along = (regions.len() as f64).cbrt().ceil() as u64 * 2;
        let grid = CellGrid::new(length, [along; 3]);
        let mut ranks = vec![Vec::new(); grid.map_or(1, |grid| grid.count() as usize)];
        for (rank, region) in regions.iter().enumerate() {
            let cells = grid.map_or(vec![(0, 1)], |grid| grid.overlapped_runs(region));
            for cell in cells.into_iter().flat_map(|(first, count)| first..first + count) {
                ranks[cell as usize].push(rank);
            }
        }
        Self { grid, ranks }
    }

    fn near(&self, position: [f64; 3]) -> impl Iterator<Item = usize> + '_ {
        let cell = self.grid.map_or(0, |grid| grid.cell_of(position));
        self.ranks[cell as usize].iter().copied()
    }
}

/// Sorts molecules by id over all ranks; rank 0 gets the lowest ids.
pub(super) fn by_id(comm: &Comm, name: &str, molecules: &[Molecule]) -> Result<Vec<Molecule>> {
    let comm_error = |error| Error::from_comm("convert", name, &error);
    let least = molecules.iter().map(|molecule| molecule.id).min().unwrap_or(u64::MAX);
    let most = molecules.iter().map(|molecule| molecule.id).max().unwrap_or(0);
    let bounds = comm.allreduce(Op::Max, &[u64::MAX - least, most]).map_err(comm_error)?;
    let (least, most) = (u64::MAX - bounds[0], bounds[1].max(u64::MAX - bounds[0]));
    let size = comm.size() as u128;
    let width = u128::from(most - least) + 1;
    let mut parts = vec![Vec::new(); comm.size()];
    for molecule in molecules {
        let rank = u128::from(molecule.id - least) * size / width;
        parts[rank as usize].push(*molecule);
    }
    let mut mine = comm.all_to_all_varied(&parts).map_err(comm_error)?.concat();
    mine.sort_unstable_by_key(|molecule| molecule.id);
    Ok(mine)
}

/// Sends each molecule to the rank of its cell; each rank has a block of cells.
pub(super) fn by_cell(
    comm: &Comm,
    name: &str,
    molecules: &[Molecule],
    grid: &CellGrid,
) -> Result<Vec<Molecule>> {
    let mut parts = vec![Vec::new(); comm.size()];
    let (cells, size) = (u128::from(grid.count()), comm.size() as u128);
    for molecule in molecules {
        let rank = u128::from(grid.cell_of(molecule.position)) * size / cells;
        parts[rank as usize].push(*molecule);
    }
    let all = comm.all_to_all_varied(&parts).map_err(|error| Error::from_comm("convert", name, &error))?;
    Ok(all.concat())
}

/// Checks that every id occurs once on all ranks. `molecules` are this rank's share of the rows, in the order of the file, from `row` on.
fn check_unique_ids(comm: &Comm, name: &str, molecules: &[Molecule], row: u64) -> Result<()> {
    let comm_error = |error| Error::from_comm("read", name, &error);
    let size = comm.size() as u64;
    let double = if size == 1 {
        find_duplicate(molecules.iter().map(|molecule| molecule.id))
    } else {
        let mut parts = vec![Vec::new(); comm.size()];
        for molecule in molecules {
            parts[(molecule.id % size) as usize].push(molecule.id / size);
        }
        let ids = comm.all_to_all_varied(&parts).map_err(comm_error)?.concat();
        find_duplicate(ids.into_iter()).map(|id| id * size + comm.rank() as u64)
    };
    // All ranks report the lowest duplicate: the maximum of u64::MAX - id.
    let found = comm
        .allreduce(Op::Max, &[u64::from(double.is_some()), u64::MAX - double.unwrap_or(u64::MAX)])
        .map_err(comm_error)?;
    if found[0] == 0 {
        return Ok(());
    }
    let id = u64::MAX - found[1];
    let mine: Vec<u64> =
        molecules.iter().zip(row..).filter(|(molecule, _)| molecule.id == id).map(|(_, row)| row).collect();
    let rows = comm.allgather_varied(&mine).map_err(comm_error)?.concat();
    let shown: Vec<String> = rows.iter().take(5).map(|row| (row + 1).to_string()).collect();
    let detail = format!("molecule {id} occurs {} times: rows {}", rows.len(), shown.join(", "));
    Err(Error::new(Kind::Damaged, "read", name, detail))
}

/// Checks the number and the ids of rows that were read, and sends them to the ranks of their regions.
pub(super) fn distribute_rows(
    comm: &Comm,
    name: &str,
    space: &PhaseSpace,
    molecules: Vec<Molecule>,
    region: Option<&SpatialRegion>,
) -> Result<Vec<Molecule>> {
    let comm_error = |error| Error::from_comm("read", name, &error);
    let mine = molecules.len() as u64;
    let before = comm.exclusive_scan_one(Op::Sum, mine).map_err(comm_error)?.unwrap_or(0);
    let total = comm.allreduce_one(Op::Sum, mine).map_err(comm_error)?;
    if total != space.molecules {
        let detail = format!("the header says {} molecules, but the file has {total}", space.molecules);
        return Err(Error::new(Kind::Damaged, "read", name, detail));
    }
    check_unique_ids(comm, name, &molecules, before)?;
    match region {
        Some(region) => by_region(comm, name, molecules, region, space.length),
        None => Ok(molecules),
    }
}
