//! Metadata of a file: encoded, and changed by copy-on-write.

pub(crate) mod block_allocator;
pub(crate) mod chunk_index;
pub(crate) mod global_heap;
mod heap_values;
pub(crate) mod message_encode;
pub(crate) mod metadata_load;
pub(crate) mod metadata_store;
pub(crate) mod object_header;
pub(crate) mod superblock;
pub(crate) mod symbol_table;
