//! The included files of the write buffer.

#[path = "../../file/src/write_buffer/footprint.rs"]
pub(crate) mod footprint;
#[path = "../../file/src/write_buffer/pending_slots.rs"]
pub(crate) mod pending_slots;
#[path = "../../file/src/write_buffer/pending_table.rs"]
pub(crate) mod pending_table;
