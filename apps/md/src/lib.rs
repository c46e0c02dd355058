//! Lennard-Jones molecular dynamics after `MarDyn`.

pub mod brick;
pub mod cells;
pub mod config;
pub mod decomposition;
pub mod energy;
pub mod exact;
pub mod exchange;
pub mod force;
pub mod grid;
pub mod halo;
pub mod origin;
pub mod output;
pub mod plot;
pub mod potential;
pub mod progress;
pub mod row;
pub mod run;
pub mod saver;
pub mod simulation;
pub mod species;
pub mod start;
