//! Lennard-Jones molecular dynamics after `MarDyn`: linked cells, leapfrog integration, a periodic box that is decomposed among ranks
//! (threads or MPI processes). It is an example of input, output, checkpoint and restart with Aqueduct. The command is `md`.
//!
//! ```
//! use aqueduct::comm::Launch;
//! use aqueduct_md::input::config::Config;
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
//! assert_eq!(two[0], three[0]); // the same energies, bit by bit
//! # anyhow::Ok(())
//! ```
//!
//! # Reproducible trajectories
//! The forces on a molecule are summed in an order that does not depend on the decomposition ([`force`]), energies are summed exactly
//! ([`exact_sum`](force::exact_sum)), and cells are those of the whole box ([`grid`](decomposition::grid)). So a trajectory is bitwise
//! the same on any number of ranks and for every decomposition, also after a restart.
//!
//! # Modules
//! Edges between the modules go one way: `run` → [`restart`] → [`output`] → [`input`] → [`simulation`] → [`force`] → [`decomposition`].
//!
//! | | |
//! |---|---|
//! | [`decomposition`] | cells of the box, regular and k-d decomposition, ghost cells |
//! | [`force`] | the Lennard-Jones potential, linked cells, forces, energies |
//! | [`simulation`] | a time step; the exchange of molecules between ranks |
//! | [`input`] | configuration; initial state from the formats of `MarDyn` or from a lattice |
//! | [`output`] | phase spaces, tables, plots, XYZ, POV, VIS, H5MD |
//! | [`restart`] | checkpoints; the end of a run by a signal or a time limit |
//!
//! Only molecules of a single Lennard-Jones centre move. Other molecules are read and written unchanged, and exert no forces.

// Results are compared bit by bit.
#![allow(clippy::float_cmp)]

pub mod force;
pub mod input;
pub mod output;
pub mod progress;
pub mod restart;
pub mod run;
pub mod simulation;

pub use aqueduct_decomposition as decomposition;
