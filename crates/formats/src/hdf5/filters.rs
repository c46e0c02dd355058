//! Filters of chunks: compression, shuffling, checksums.

mod bit_stream;
pub(crate) mod chunk_decode;
pub(crate) mod chunk_encode;
mod lzf;
mod n_bit;
mod scale_offset;
