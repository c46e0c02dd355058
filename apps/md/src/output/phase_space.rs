//! Phase spaces in the four formats of `MarDyn`, and the molecules of a rank by the cells of files.

use anyhow::{Context, Result};
use aqueduct::checkpoint::{CellGrid, Molecule};
use aqueduct::comm::Op;
use aqueduct::mardyn::{MoleculeFormat, PhaseSpace, PhaseSpaceFormat};

use crate::simulation::Simulation;
use crate::simulation::exchange;

/// Writes all molecules into files with this prefix; existing files are replaced. Collective.
pub fn write(
    simulation: &Simulation,
    space: &PhaseSpace,
    format: PhaseSpaceFormat,
    prefix: &str,
) -> Result<()> {
    let (grid, molecules) = for_files(simulation)?;
    let space =
        PhaseSpace { time: simulation.time(), molecule_format: MoleculeFormat::Icrvqd, ..space.clone() };
    let files = format.files(prefix);
    format.replace(simulation.world(), &files, &space, &grid, &molecules)?;
    Ok(())
}

/// The cells for files, as large as the decomposition allows, and this rank's molecules in them. Collective.
///
/// The cells of a file are larger than those of the forces. Rounding may assign a molecule on a border to different sides in the two grids.
/// Such molecules are sent to the other rank, so that no two ranks have molecules of the same cell.
pub fn for_files(simulation: &Simulation) -> Result<(CellGrid, Vec<Molecule>)> {
    let (own, decomposition) = (&simulation.model().grid, simulation.decomposition());
    let cells = decomposition.file_cells();
    let grid = CellGrid::new(own.length, cells.map(|cells| cells as u64)).context("the box has no volume")?;
    let owner = |molecule: &Molecule| {
        let number = grid.cell_of(molecule.position) as i64;
        let place = [number % cells[0], number / cells[0] % cells[1], number / cells[0] / cells[1]];
        decomposition.owner(std::array::from_fn(|axis| place[axis] * (own.shape[axis] / cells[axis])))
    };
    let (world, mine) = (simulation.world(), simulation.molecules());
    let strangers = mine.iter().filter(|molecule| owner(molecule) != world.rank()).count() as u64;
    let molecules = match world.allreduce_one(Op::Sum, strangers)? {
        0 => mine.to_vec(),
        _ => exchange::send_to_owners(world, owner, mine)?,
    };
    Ok((grid, molecules))
}
