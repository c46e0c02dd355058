//! From one format to another.

use aqueduct_checkpoint::CellGrid;
use aqueduct_comm::Comm;
use aqueduct_file::{Error, Kind, Result};

use crate::phase_space_format::{PhaseSpaceFiles, PhaseSpaceFormat};
use crate::redistribution;

/// A cell of a converted file has about so many molecules.
const CELL: u64 = 1 << 16;

/// Converts a phase space: the same head, as far as the format has room for it, and the same molecules, bit for bit. Files of rows get them in the
/// order of their ids; files of cells get slabs along x. Files that exist are
/// refused. Either way the result does not depend on the number of ranks. Collective.
pub fn convert(
    comm: &Comm,
    from: (PhaseSpaceFormat, &PhaseSpaceFiles),
    to: (PhaseSpaceFormat, &PhaseSpaceFiles),
) -> Result<()> {
    let input = from.0.open(comm, from.1)?;
    let space = input.space().clone();
    let slabs = space.molecules.div_ceil(CELL).clamp(1, 4096);
    let bad = || {
        Error::new(
            Kind::BadArgument,
            "convert",
            &from.1.header,
            format!("no cells for a box of {:?}", space.length),
        )
    };
    let grid = CellGrid::new(space.length, [slabs, 1, 1]).ok_or_else(bad)?;
    let molecules = redistribution::by_id(comm, &from.1.header, &input.read_share()?)?;
    match to.0 {
        PhaseSpaceFormat::OldStyle | PhaseSpaceFormat::Binary => {
            to.0.write(comm, to.1, &space, &grid, &molecules)
        }
        PhaseSpaceFormat::PnetCdf | PhaseSpaceFormat::MpiIo => {
            let mut molecules = redistribution::by_cell(comm, &from.1.header, &molecules, &grid)?;
            molecules.sort_unstable_by_key(|molecule| (grid.cell_of(molecule.position), molecule.id));
            to.0.write(comm, to.1, &space, &grid, &molecules)
        }
    }
}
