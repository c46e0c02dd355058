//! Access to the values of datasets: selections, queues, storage addresses, variable-length strings.

pub(crate) mod access;
pub(crate) mod queue;
pub(crate) mod read_queue;
pub(crate) mod storage_map;
pub(crate) mod vlen_strings;
