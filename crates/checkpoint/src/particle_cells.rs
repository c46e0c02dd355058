//! Cell files: the particles of all ranks in one file, cell by cell.
//!
//! The domain is divided into equal cells ([`CellGrid`]). All particles of a cell are on one rank; their order inside a cell is not
//! defined. A reader on any number of ranks reads only the cells that its box overlaps.
//!
//! ```
//! use aqueduct_checkpoint::{CellGrid, Molecule, SpatialRegion, particle_cells};
//! use aqueduct_comm::Launch;
//!
//! Launch::threads(4).run(|world| {
//!     // Four slabs, one per rank.
//!     let grid = CellGrid::new([4.0, 1.0, 1.0], [4, 1, 1]).expect("a box has a volume");
//!     let x = world.rank() as f64 + 0.5;
//!     particle_cells::write(world, "memfs:slabs.cells", &grid, &[Molecule::new(world.rank() as u64, [x, 0.5, 0.5], [0.0; 3])])?;
//!
//!     let file = particle_cells::CellFile::<Molecule>::open(world, "memfs:slabs.cells")?;
//!     let mine = file.read(&SpatialRegion::new([1.0, 0.0, 0.0], [3.0, 1.0, 1.0]))?;
//!     assert_eq!(mine.iter().map(|molecule| molecule.id).collect::<Vec<_>>(), [1, 2]);
//!     Ok::<_, aqueduct_checkpoint::Error>(())
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! `docs/format-cells.md` specifies the format.

mod cell_file;
pub mod cell_offsets;
mod cell_table;
pub(crate) mod particle_order;
pub(crate) mod row_checksums;

pub(crate) use cell_file::write_rows;
pub use cell_file::{CellFile, CellSummary, replace, summary, verify, write};
pub use particle_order::{CellRun, ParticleOrder};

#[cfg(doc)]
use crate::CellGrid;
