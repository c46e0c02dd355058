//! Benchmarks of applications: each starts the program of an application as a user would.

pub(crate) mod motif;
mod speedup_plot;
pub(crate) mod wave;
mod wave_plot;
