//! Smoothed particle hydrodynamics after `sph2000`: a jet of diesel into a chamber of air, decomposed among ranks (threads or MPI
//! processes). It compares five ways of output with Aqueduct, and restarts on any number of ranks. The command is `sph`.
//!
//! ```
//! use aqueduct::comm::Launch;
//! use aqueduct_sph::config::Config;
//! use aqueduct_sph::run::{SphSettings, run};
//!
//! let config = Config::parse("jet", "cells 8 6 6\nnozzle 1.5  # radius in units of the spacing")?;
//! let settings = SphSettings::new(config, 5);
//! let two = Launch::threads(2).run(|world| run(world, &settings))?;
//! let three = Launch::threads(3).run(|world| run(world, &settings))?;
//! assert_eq!(two[0].totals.speed, three[0].totals.speed); // bit by bit
//! # anyhow::Ok(())
//! ```
//!
//! # Reproducible trajectories
//! Cells are those of the whole box, and the sums of a particle over its neighbours are in the order of cells and ids
//! ([`neighbour_list`]); both sides of a pair are computed. So a trajectory is bitwise the same on any number of ranks and for every
//! decomposition, also after a restart. Times steps are agreed on by one maximum.
//!
//! # Modules
//! Edges between the modules go one way: `run` → [`restart`] → [`output`] → [`record`], [`simulation`] → [`right_hand_side`], [`scene`] →
//! [`exchange`] → [`particle_set`].
//!
//! | | |
//! |---|---|
//! | [`config`] | the configuration |
//! | [`kernel`], [`integrator`], [`fluid`] | five kernels, six integrators, equations of state. Pure |
//! | [`quantity`], [`particle_set`] | the quantities of a particle; the particles of a rank |
//! | [`neighbour_list`], [`right_hand_side`] | pairs of particles; density, pressure, viscous stress |
//! | [`scene`] | initial states, walls, nozzle |
//! | [`exchange`], [`simulation`] | messages between ranks; a time step, load balancing |
//! | [`record`], [`output`], [`restart`] | particles as objects; five ways of output; restart |
//! | [`viewers`], [`times`] | a slice as PNG, VTKHDF; the times of a run |

// Results are compared bit by bit.
#![allow(clippy::float_cmp)]
// Formulas have the names of their sources.
#![allow(clippy::many_single_char_names)]

pub mod config;
pub mod exchange;
pub mod fluid;
pub mod integrator;
pub mod kernel;
pub mod neighbour_list;
pub mod output;
pub mod particle_set;
pub mod quantity;
pub mod record;
pub mod restart;
pub mod right_hand_side;
pub mod run;
pub mod scene;
pub mod simulation;
pub mod times;
pub mod viewers;
