//! The finite mass method ([Gauger, Leinen, Yserentant 2000](https://doi.org/10.1137/S0036142999352564)): a gas is divided into packets of fixed mass that move,
//! deform and overlap. Packets interact through global fields at quadrature points. It is an example of input and output of objects with Aqueduct: every rank
//! has all packets, and each is stored once. The command is `fmm`.
//!
//! ```
//! use aqueduct::comm::Launch;
//! use aqueduct_fmm::config::FmmConfig;
//! use aqueduct_fmm::run::{FmmSettings, run};
//!
//! let config = FmmConfig::parse("few", "packets 60\nrelay 5")?;
//! let settings = FmmSettings::new(config, 10);
//! let two = Launch::threads(2).run(|world| run(world, &settings))?;
//! let three = Launch::threads(3).run(|world| run(world, &settings))?;
//! assert_eq!(two[0].kinetic.to_bits(), three[0].kinetic.to_bits()); // bit by bit
//! # anyhow::Ok(())
//! ```
//!
//! # Modules
//! Edges between the modules go one way: [`run`] → [`packet_output`] → [`packet_stream`] → [`packet_file`]; [`run`] → [`picture`], [`scene`], [`config`] →
//! [`simulation`] → [`forces`] → [`quadrature`], [`exact_sum`] → [`packet`] → [`shape`], [`matrix`].

pub mod config;
pub mod exact_sum;
pub mod forces;
pub mod matrix;
pub mod packet;
pub mod packet_file;
pub mod packet_output;
pub mod packet_stream;
pub mod picture;
pub mod quadrature;
pub mod run;
pub mod scene;
pub mod shape;
pub mod simulation;
