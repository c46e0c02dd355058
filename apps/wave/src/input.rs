//! Input files of k-Wave.

pub mod kwave_file;
pub mod kwave_problem;
mod source_lists;
