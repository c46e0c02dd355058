//! Checkpoint and restart, and the end of a run before its last step.

pub mod checkpointer;
pub mod stop_condition;
pub mod wall_time;
