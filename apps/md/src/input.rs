//! Input: the configuration, and the initial state from files or from a lattice.

pub mod config;
pub mod initial_state;
pub mod lattice_generator;
pub mod units;
