//! Writing: the program, its I/O thread or a remote writer; buffers, progress and the mode.

pub(crate) mod buffer_limits;
pub(crate) mod chunk_spill;
pub(crate) mod double_buffer;
pub(crate) mod free_cores;
pub(crate) mod io_thread;
pub(crate) mod mode_policy;
pub(crate) mod progress;
pub(crate) mod stall_limit;
pub(crate) mod thread_affinity;
pub(crate) mod writer;
