//! Forces and energies: the Lennard-Jones potential, linked cells, order-independent sums.

pub mod energy;
pub mod exact_sum;
pub mod linked_cells;
pub mod pair_forces;
pub mod potential;
pub mod species;
