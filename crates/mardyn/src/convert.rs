//! Conversion from one format to another.

use aqueduct_checkpoint::CellGrid;
use aqueduct_comm::Comm;
use aqueduct_file::{Error, Kind, Result};

use crate::phase_space_format::{PhaseSpaceFiles, PhaseSpaceFormat};
use crate::redistribution;

/// The approximate number of molecules in a cell of a converted file.
const CELL: u64 = 1 << 16;

/// Converts a phase space: the same header, as far as the format can store it, and bitwise the same molecules. Files of rows have them
/// in the order of their ids; files of cells have slabs along x. The result does not depend on the number of ranks. An existing
/// output file is an error. Collective.
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
            format!("a box of {:?} cannot be divided into cells", space.length),
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
