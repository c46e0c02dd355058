//! Packing: reductions, values and encoded objects in buffers of limited size, and their checksum.

pub(crate) mod accumulator;
pub(crate) mod chunk_bounds;
pub(crate) mod conversion;
pub(crate) mod encoder;
pub(crate) mod packer;
pub(crate) mod step_checksum;
