//! Trajectories: right, the same everywhere, and the same after a restart.

// The same to the bit is what is promised.
#![allow(clippy::float_cmp)]

mod formats;
mod liquid;
mod outputs;
mod physics;
mod restart;
