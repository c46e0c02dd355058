//! Benchmarks of applications.

pub(crate) mod fmm;
pub(crate) mod motif;
mod speedup_plot;
pub(crate) mod sph;
pub(crate) mod wave;
mod wave_plot;
