//! Fourier transforms of fields that are distributed among ranks.
//!
//! Every value takes part in the same one-dimensional transforms of the same lengths, in the order x, y, z, whatever the decomposition: results
//! are equal to the bit on any number of ranks.

mod exchange;
mod layout;
mod line_transforms;
pub mod real;
pub mod spectral_transform;
