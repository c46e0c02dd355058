//! Lennard-Jones molecular dynamics after `MarDyn`.

pub mod brick;
pub mod cells;
pub mod decomposition;
pub mod energy;
pub mod exact;
pub mod exchange;
pub mod force;
pub mod grid;
pub mod halo;
pub mod molecule;
pub mod potential;
pub mod simulation;
pub mod start;
