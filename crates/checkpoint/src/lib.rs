//! Checkpoint and restart: atomically committed checkpoints, and files of particles sorted by cell.
//!
//! | | |
//! |---|---|
//! | [`Store`] | a folder of checkpoints: generations of named parts of all ranks, restored on any number of ranks |
//! | [`particle_cells`] | particles in one file, cell by cell: a rank reads the cells its box overlaps |
//! | [`Interval`] | the checkpoint interval that costs the least time |

mod error;
mod existing_file;
mod grid;
mod interval;
mod molecule;
pub mod particle_cells;
mod region;
mod store;

pub use error::{Error, Kind, Result};
pub use existing_file::ExistingFile;
pub use grid::CellGrid;
pub use interval::Interval;
pub use molecule::{Molecule, Particle};
pub use region::SpatialRegion;
pub use store::{ArrayBlock, Checkpoint, Generation, PartSummary, Retention, SkippedGeneration, Store};
