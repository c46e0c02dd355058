//! Access to the values of datasets: selections, queues, storage addresses, variable-length strings.

pub(crate) mod access;
pub(crate) mod chunk_lookup;
pub(crate) mod chunk_prefetch;
pub(crate) mod fill_write;
pub(crate) mod filtered_write;
pub(crate) mod packed_chunk;
pub(crate) mod queue;
pub(crate) mod read_queue;
pub(crate) mod storage_map;
pub(crate) mod vlen_strings;
pub(crate) mod write_request;
