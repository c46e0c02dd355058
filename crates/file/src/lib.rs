//! What access means: all of MPI-IO as an idiomatic interface over ranks and devices.
//!
//! Its ground is the [`layout`]: which bytes, in which order, of what kind.

pub mod layout;
