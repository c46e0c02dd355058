//! Trajectories: right, the same everywhere, and the same after a restart.

mod formats;
mod liquid;
mod physics;
mod restart;
