//! Lennard-Jones molecular dynamics after `MarDyn`: linked cells, leapfrog, a periodic box, dealt out to ranks that are threads or MPI
//! processes; what it shows is its input and output. The command is `md`; this is what it is made of.
//!
//! ```
//! use aqueduct::comm::Launch;
//! use aqueduct_md::config::Config;
//! use aqueduct_md::run::{RunSettings, run};
//!
//! let config = Config::parse("argon", "MDProjectConfig
//!     timestepLength 0.004
//!     cutoffRadius 2.5
//!     phaseSpaceFile Generator fcc 500 0.8442 1.44  # lattice, molecules, density, temperature
//!     parallelization KDDecomposition")?;
//! let job = RunSettings::new(config, 10);
//! let two = Launch::threads(2).run(|world| run(world, &job))?;
//! let three = Launch::threads(3).run(|world| run(world, &job))?;
//! assert_eq!(two[0], three[0]); // the same energies, to the bit
//! # anyhow::Ok(())
//! ```
//!
//! # One trajectory
//! The forces on a molecule are summed in an order that does not depend on who sums them ([`force`]), energies are summed exactly
//! ([`exact_sum`]), and cells are those of the whole box ([`grid`]). So a trajectory is the same, to the bit, on any number of ranks and for
//! every decomposition; and a run that comes back from a checkpoint, wherever, goes on as if nothing had been.
//!
//! # The way of a step
//! [`simulation`] kicks and drifts; [`exchange`] brings molecules that have left to their new ranks, and copies of those near a border to
//! the neighbours that [`halo`] has planned; [`linked_cells`] sorts them and [`force`] finds the forces. [`decomposition`] says who has which cells: equal
//! boxes, or a k-d tree that follows the load.
//!
//! # Input and output
//! [`config`] has the lines of the configuration; [`initial_state`] reads the four formats of `MarDyn` or makes a lattice of its own ([`lattice_generator`]);
//! [`output`] writes them, tables, plots and XYZ; [`checkpointer`] keeps the checkpoints that a run comes back to.
//!
//! Molecules of a single Lennard-Jones centre move. Others are carried through input and output unchanged: they neither move nor act.

// The same to the bit is what is promised, so numbers are compared like that.
#![allow(clippy::float_cmp)]

pub mod cell_box;
pub mod checkpointer;
pub mod config;
pub mod decomposition;
pub mod energy;
pub mod exact_sum;
pub mod exchange;
pub mod force;
pub mod grid;
pub mod halo;
pub mod initial_state;
pub mod lattice_generator;
pub mod linked_cells;
pub mod output;
pub mod plot;
pub mod potential;
pub mod progress;
pub mod result_row;
pub mod run;
pub mod simulation;
pub mod species;
pub mod stop_condition;
pub mod units;
pub mod wall_time;
