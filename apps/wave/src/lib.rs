//! Ultrasound by the k-space pseudospectral method, after k-Wave: it runs input files of k-Wave unchanged, on any number of ranks (threads or MPI
//! processes), and writes outputs that the tools of k-Wave read. It is an example of input, output, checkpoint and restart with Aqueduct. The
//! command is `wave`.
//!
//! ```
//! use aqueduct::comm::Launch;
//! use aqueduct_wave::run::{RunInput, WaveSettings, run};
//! use aqueduct_wave::scenario::built_in::{Scenario, ScenarioKind, ScenarioOptions};
//!
//! let options = ScenarioOptions { kind: ScenarioKind::Mode, points: [16, 12, 10], steps: 50, ..ScenarioOptions::default() };
//! let settings = WaveSettings::new(RunInput::Scenario(Box::new(Scenario::new(options)?)));
//! let two = Launch::threads(2).run(|world| run::<f32>(world, &settings))?;
//! let error = two[0].exact_error.expect("a standing wave has an exact solution");
//! assert!(error < 5e-5);
//! # anyhow::Ok(())
//! ```
//!
//! # Equal bits
//! Every value takes part in the same one-dimensional transforms, whatever the decomposition ([`transform`]), and a step has no sums over ranks. So
//! results are bitwise the same on any number of ranks, for every decomposition, and after restarts.
//!
//! # Modules
//! Edges between the modules go one way: `run` → [`restart`] → [`scenario`] → [`input`], [`output`] → [`solver`] → [`problem`] → [`transform`] →
//! [`grid`].
//!
//! | | |
//! |---|---|
//! | [`grid`] | the grid, slabs and pencils, wave numbers, the perfectly matched layer |
//! | [`transform`] | Fourier transforms of distributed fields |
//! | [`problem`] | what is simulated |
//! | [`solver`] | operators, sources, a step |
//! | [`input`] | input files of k-Wave |
//! | [`output`] | sampled quantities, the output file of k-Wave, pictures |
//! | [`scenario`] | built-in simulations and their exact solutions |
//! | [`restart`] | checkpoints |

// Results are compared bit by bit.
#![allow(clippy::float_cmp)]

pub mod grid;
pub mod input;
pub mod output;
pub mod problem;
pub mod progress;
pub mod report;
pub mod restart;
pub mod run;
pub mod scenario;
pub mod solver;
pub mod transform;
