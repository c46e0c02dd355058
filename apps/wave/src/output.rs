//! Sampled quantities and the output file of k-Wave.

pub mod accumulators;
pub mod kwave_output;
pub mod mask_layout;
pub mod picture;
pub mod quantities;
pub mod recorder;
pub mod sample_stream;
pub mod saved_array;
