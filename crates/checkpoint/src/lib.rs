//! Coming back: checkpoints that are committed all or nothing, cell files, and the phase-space files of `MarDyn`.
//!
//! | | |
//! |---|---|
//! | [`Store`] | a folder of checkpoints: generations of named parts of all ranks, restored on any number of ranks |
//! | [`particle_cells`] | particles in one file, cell by cell: a rank reads the cells its box overlaps |
//! | [`mardyn`] | the four formats of `MarDyn` |
//! | [`Interval`] | how often a checkpoint pays |

mod error;
mod grid;
mod interval;
pub mod mardyn;
mod molecule;
mod open_options;
pub mod particle_cells;
mod region;
mod store;

pub use error::{Error, Kind, Result};
pub use grid::CellGrid;
pub use interval::Interval;
pub use molecule::{Molecule, Particle};
pub use region::SpatialRegion;
pub use store::{ArrayBlock, Checkpoint, Generation, PartSummary, Retention, SkippedGeneration, Store};
