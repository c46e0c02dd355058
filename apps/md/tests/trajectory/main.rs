//! Trajectories: physics, independence of the decomposition, outputs, restart.

// Results are compared bit by bit.
#![allow(clippy::float_cmp)]

mod formats;
mod liquid;
mod outputs;
mod physics;
mod restart;
