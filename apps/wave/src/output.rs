//! Sampled quantities as streams, and the output file.

pub mod output_file;
pub mod output_memory;
pub mod picture;
pub mod quantities;
pub mod quantity_streams;
pub mod recorder;
