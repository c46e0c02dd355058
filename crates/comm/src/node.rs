//! Memory shared by the ranks of a node, and the barrier and collectives in it.

pub(crate) mod futex_barrier;
pub(crate) mod node_cores;
pub(crate) mod node_exchange;
pub(crate) mod shared_block;
pub(crate) mod shared_region;
