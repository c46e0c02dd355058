//! Coming back: checkpoints that are committed all or nothing, cell files, and the phase-space files of `MarDyn`.
//!
//! | | |
//! |---|---|
//! | [`Store`] | a folder of checkpoints: generations of named parts of all ranks, restored on any number of ranks |
//! | [`cells`] | particles in one file, cell by cell: a rank reads the cells its box overlaps |
//! | [`mardyn`] | the four formats of `MarDyn` |
//! | [`Interval`] | how often a checkpoint pays |

pub mod cells;
mod error;
mod grid;
mod interval;
pub mod mardyn;
mod molecule;
mod opening;
mod region;
mod store;

pub use error::{Error, Kind, Result};
pub use grid::Grid;
pub use interval::Interval;
pub use molecule::{Molecule, Particle};
pub use region::Region;
pub use store::{Block, Checkpoint, Generation, Keep, PartSummary, PassedOver, Store};
