//! The phase-space files of `MarDyn`, in its four formats, read and written by all ranks.
//!
//! | [`PhaseSpaceFormat`] | files | molecules |
//! |---|---|---|
//! | `OldStyle` | one, ASCII | a line each |
//! | `Binary` | header (XML, or ASCII as it once was) and data | rows of 116, 60 or 56 bytes |
//! | `PnetCdf` | ASCII header and netCDF | a variable per cell, 15 doubles each |
//! | `MpiIo` | ASCII header and cells | rows of 116 bytes, cell by cell |
//!
//! ```
//! use aqueduct_checkpoint::mardyn::{Component, PhaseSpaceFiles, PhaseSpaceFormat, PhaseSpace};
//! use aqueduct_checkpoint::{CellGrid, Molecule, SpatialRegion};
//! use aqueduct_comm::Launch;
//!
//! Launch::threads(2).run(|world| {
//!     let space = PhaseSpace::new([2.0; 3], vec![Component::single(1.0, 1.0, 1.0)]);
//!     let mine = [Molecule::new(world.rank() as u64, [world.rank() as f64, 0.5, 0.5], [0.1, 0.0, 0.0])];
//!     let files = PhaseSpaceFiles::one("memfs:two.inp");
//!     // Each rank's half of the box is a cell.
//!     let grid = CellGrid::new(space.length, [2, 1, 1]).expect("a box has a volume");
//!     PhaseSpaceFormat::OldStyle.write(world, &files, &space, &grid, &mine)?;
//!
//!     let input = PhaseSpaceFormat::OldStyle.open(world, &files)?;
//!     assert_eq!(input.space().molecules, 2);
//!     // Another decomposition: rank 0 has everything.
//!     let here = if world.rank() == 0 { input.space().length } else { [0.0; 3] };
//!     let mine = input.read(&SpatialRegion::of(here))?;
//!     assert_eq!(mine.len(), if world.rank() == 0 { 2 } else { 0 });
//!     Ok::<_, aqueduct_checkpoint::Error>(())
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! Values are exact: what is written is read back to the bit, in every format, so that files are converted by reading and writing them.

mod binary;
mod component;
mod convert;
mod digit_parser;
mod mpi_cells;
mod number_text;
mod old_style;
mod phase_space;
mod phase_space_reader;
mod pnetcdf;
mod redistribution;
mod text_header;
mod word_scanner;
mod xml_header;

pub use component::{AxialSite, Charge, Component, LennardJones, Tersoff};
pub use convert::convert;
pub use phase_space::{MoleculeFormat, PhaseSpace, VERSION};
pub use phase_space_reader::PhaseSpaceReader;

use aqueduct_comm::Comm;

use crate::error::{Error, Kind, Result, agree};
use crate::grid::CellGrid;
use crate::molecule::Molecule;
use crate::open_options::ExistingFile;
use crate::region;

/// One of the four formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PhaseSpaceFormat {
    /// One ASCII file.
    OldStyle,
    /// A header and rows of bytes.
    Binary,
    /// A header and a netCDF file with a variable per cell.
    PnetCdf,
    /// A header and a cell file.
    MpiIo,
}

/// The names of the files that a phase space is stored in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseSpaceFiles {
    /// The file that says what the data is; the only one of `OldStyle`.
    pub header: String,
    /// The file with the molecules; not used by `OldStyle`.
    pub data: String,
}

impl PhaseSpaceFiles {
    /// A single file.
    pub fn one(name: impl Into<String>) -> Self {
        Self { header: name.into(), data: String::new() }
    }

    /// A header and its data.
    pub fn two(header: impl Into<String>, data: impl Into<String>) -> Self {
        Self { header: header.into(), data: data.into() }
    }
}

impl PhaseSpaceFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::OldStyle, Self::Binary, Self::PnetCdf, Self::MpiIo];

    /// The name after `phaseSpaceFile` in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::OldStyle => "OldStyle",
            Self::Binary => "Binary",
            Self::PnetCdf => "PnetCDF",
            Self::MpiIo => "MPI-IO",
        }
    }

    /// The name after `output` in a configuration.
    pub fn writer(self) -> &'static str {
        match self {
            Self::OldStyle => "CheckpointWriter",
            Self::Binary => "BinaryCheckpointWriter",
            Self::PnetCdf => "PnetCDFCheckpointWriter",
            Self::MpiIo => "MPI-IOCheckpointWriter",
        }
    }

    /// The format of either name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name || format.writer() == name)
    }

    /// The files that a writer makes for a prefix.
    pub fn files(self, prefix: &str) -> PhaseSpaceFiles {
        match self {
            Self::OldStyle => PhaseSpaceFiles::one(format!("{prefix}.restart.inp")),
            Self::Binary => {
                PhaseSpaceFiles::two(format!("{prefix}.restart.header.xml"), format!("{prefix}.restart.dat"))
            }
            Self::PnetCdf => {
                PhaseSpaceFiles::two(format!("{prefix}.restart"), format!("{prefix}.restart.nc"))
            }
            Self::MpiIo => PhaseSpaceFiles::two(format!("{prefix}.restart"), format!("{prefix}.restart.mpi")),
        }
    }

    /// Writes the molecules of all ranks into new files, and syncs; files that exist are refused. Collective.
    ///
    /// `space` is the same on all ranks; the cells of `grid` are used by the formats
    /// that have cells, of which no two ranks may hold the same.
    ///
    /// Data comes first, the header last: a file that is cut short by a crash is refused by readers.
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

    /// The same as [`write`](Self::write), in place of files of these names, if there are any. After a crash what was there before is gone;
    /// [`Store`](crate::Store) keeps it. Collective.
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

    /// Opens what was written: the head is read and told to all ranks. Collective.
    pub fn open(self, comm: &Comm, files: &PhaseSpaceFiles) -> Result<PhaseSpaceReader> {
        PhaseSpaceReader::open(self, comm, files)
    }

    /// Whether nothing would be lost, and nobody is misled.
    fn check(self, name: &str, space: &PhaseSpace, grid: &CellGrid, molecules: &[Molecule]) -> Result<()> {
        let refuse = |kind, detail: String| Err(Error::new(kind, "write", name, detail));
        if grid.length().map(f64::to_bits) != space.length.map(f64::to_bits) {
            let detail = format!(
                "the grid covers {:?}, the phase space {:?}; give both the same box",
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
                    "molecule {id} is of component {}, counted from 0, of {most}",
                    molecule.component
                );
                return refuse(Kind::BadArgument, detail);
            }
            if !region::inside(molecule.position, space.length) {
                let detail = format!(
                    "molecule {id} at {:?} is outside of the box {:?}",
                    molecule.position, space.length
                );
                return refuse(Kind::BadArgument, detail);
            }
            if self == Self::OldStyle && !molecule.numbers().iter().all(|value| value.is_finite()) {
                let detail = format!("molecule {id} has a number that is not finite, which text cannot hold");
                return refuse(Kind::NotRepresentable, detail);
            }
            if !full && !molecule.is_upright() {
                let detail =
                    format!("rows {} lose how molecule {id} turns; use ICRVQD", space.molecule_format.name());
                return refuse(Kind::NotRepresentable, detail);
            }
            if space.molecule_format == MoleculeFormat::Irv
                && self != Self::PnetCdf
                && self != Self::MpiIo
                && molecule.component != 0
            {
                let detail = format!("rows IRV lose the component of molecule {id}; use ICRV or ICRVQD");
                return refuse(Kind::NotRepresentable, detail);
            }
        }
        Ok(())
    }
}
