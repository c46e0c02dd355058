//! The k-space pseudospectral method: operators, sources, a step.
//!
//! B. E. Treeby, J. Jaros, A. P. Rendell, B. T. Cox: *Modeling nonlinear ultrasound propagation in heterogeneous media with power law absorption
//! using a k-space pseudospectral method*, J. Acoust. Soc. Am. 131 (2012), <https://doi.org/10.1121/1.4712021>.

pub mod medium_rows;
pub mod memory_estimate;
pub mod operators;
pub mod source_injection;
pub mod time_step;
