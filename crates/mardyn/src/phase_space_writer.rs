//! Writing a phase space in any of the formats.

use aqueduct_checkpoint::{CellGrid, ExistingFile, Molecule, SpatialRegion};
use aqueduct_comm::Comm;
use aqueduct_comm::agreement::agree;
use aqueduct_file::{Error, Kind, Result};

use crate::molecule_values::{has_default_orientation, values};
use crate::phase_space::{MoleculeFormat, PhaseSpace};
use crate::phase_space_format::{PhaseSpaceFiles, PhaseSpaceFormat};
use crate::{binary, mpi_cells, old_style, pnetcdf};

impl PhaseSpaceFormat {
    /// Writes the molecules of all ranks into new files and syncs them. An existing file is an error. Collective.
    ///
    /// `space` is the same on all ranks. Formats with cells use the cells of `grid`; no two ranks may hold molecules of the same cell.
    ///
    /// The header is written last, so readers reject a file whose writing was interrupted.
    pub fn write(
        self,
        comm: &Comm,
        files: &PhaseSpaceFiles,
        space: &PhaseSpace,
        grid: &CellGrid,
        molecules: &[Molecule],
    ) -> Result<()> {
        self.write_as(comm, files, (space, grid), molecules, ExistingFile::Refuse)
    }

    /// Like [`write`](Self::write), but replaces existing files. A crash while writing loses the old files; a
    /// [`Store`](aqueduct_checkpoint::Store) keeps the previous checkpoint. Collective.
    pub fn replace(
        self,
        comm: &Comm,
        files: &PhaseSpaceFiles,
        space: &PhaseSpace,
        grid: &CellGrid,
        molecules: &[Molecule],
    ) -> Result<()> {
        self.write_as(comm, files, (space, grid), molecules, ExistingFile::Replace)
    }

    fn write_as(
        self,
        comm: &Comm,
        files: &PhaseSpaceFiles,
        (space, grid): (&PhaseSpace, &CellGrid),
        molecules: &[Molecule],
        existing: ExistingFile,
    ) -> Result<()> {
        let checked = self.check(&files.header, space, grid, molecules);
        agree(comm, "write", &files.header, checked)?;
        match self {
            Self::OldStyle => old_style::write(comm, &files.header, space, molecules, existing),
            Self::Binary => binary::write(comm, files, space, molecules, existing),
            Self::PnetCdf => pnetcdf::write(comm, files, space, grid, molecules, existing),
            Self::MpiIo => mpi_cells::write(comm, files, space, grid, molecules, existing),
        }
    }

    /// Checks that the format can store all molecules.
    fn check(self, name: &str, space: &PhaseSpace, grid: &CellGrid, molecules: &[Molecule]) -> Result<()> {
        let refuse = |kind, detail: String| Err(Error::new(kind, "write", name, detail));
        if grid.length().map(f64::to_bits) != space.length.map(f64::to_bits) {
            let detail = format!(
                "the grid has the box {:?}, the phase space {:?}; use the same box for both",
                grid.length(),
                space.length
            );
            return refuse(Kind::BadArgument, detail);
        }
        let most = if space.components.is_empty() { i32::MAX as u64 } else { space.components.len() as u64 };
        let full =
            matches!(self, Self::PnetCdf | Self::MpiIo) || space.molecule_format == MoleculeFormat::Icrvqd;
        for molecule in molecules {
            let id = molecule.id;
            if molecule.component >= most {
                let detail = format!(
                    "molecule {id} is of component {} (counted from 0), but there are {most} components",
                    molecule.component
                );
                return refuse(Kind::BadArgument, detail);
            }
            if !SpatialRegion::of(space.length).contains_closed(molecule.position) {
                let detail = format!(
                    "molecule {id} at {:?} is outside of the box {:?}",
                    molecule.position, space.length
                );
                return refuse(Kind::BadArgument, detail);
            }
            if self == Self::OldStyle && !values(molecule).iter().all(|value| value.is_finite()) {
                let detail = format!(
                    "molecule {id} has a value that is not finite, which the text format cannot store"
                );
                return refuse(Kind::NotRepresentable, detail);
            }
            if !full && !has_default_orientation(molecule) {
                let detail = format!(
                    "rows of the format {} lose the orientation or angular momentum of molecule {id}; use ICRVQD",
                    space.molecule_format.name()
                );
                return refuse(Kind::NotRepresentable, detail);
            }
            if space.molecule_format == MoleculeFormat::Irv
                && self != Self::PnetCdf
                && self != Self::MpiIo
                && molecule.component != 0
            {
                let detail =
                    format!("rows of the format IRV lose the component of molecule {id}; use ICRV or ICRVQD");
                return refuse(Kind::NotRepresentable, detail);
            }
        }
        Ok(())
    }
}
