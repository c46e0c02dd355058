//! The phase-space files of `MarDyn`, in its four formats, read and written by all ranks.
//!
//! | [`PhaseSpaceFormat`] | files | molecules |
//! |---|---|---|
//! | `OldStyle` | one, ASCII | a line each |
//! | `Binary` | header (XML, or ASCII in old versions) and data | rows of 116, 60 or 56 bytes |
//! | `PnetCdf` | ASCII header and netCDF | a variable per cell, 15 doubles each |
//! | `MpiIo` | ASCII header and cells | rows of 116 bytes, cell by cell |
//!
//! ```
//! use aqueduct_checkpoint::{CellGrid, Molecule, SpatialRegion};
//! use aqueduct_comm::Launch;
//! use aqueduct_mardyn::{MoleculeComponent, PhaseSpace, PhaseSpaceFiles, PhaseSpaceFormat};
//!
//! Launch::threads(2).run(|world| {
//!     let space = PhaseSpace::new([2.0; 3], vec![MoleculeComponent::single(1.0, 1.0, 1.0)]);
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
//!     Ok::<_, aqueduct_mardyn::Error>(())
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! Values are exact: every format returns the bits that were written, so a conversion between formats loses nothing.

mod binary;
mod cell_counts;
mod component;
mod convert;
mod digit_parser;
mod header_file;
mod molecule_values;
mod mpi_cells;
mod number_text;
mod old_style;
mod phase_space;
mod phase_space_format;
mod phase_space_reader;
mod phase_space_writer;
mod pnetcdf;
mod redistribution;
mod text_header;
mod word_scanner;
mod xml_header;

pub use aqueduct_checkpoint::{CellGrid, Molecule, SpatialRegion};
pub use aqueduct_file::{Error, Kind, Result};
pub use component::{AxialSite, Charge, LennardJones, MoleculeComponent, Tersoff};
pub use convert::convert;
pub use phase_space::{MoleculeFormat, PhaseSpace, VERSION};
pub use phase_space_format::{PhaseSpaceFiles, PhaseSpaceFormat};
pub use phase_space_reader::PhaseSpaceReader;
