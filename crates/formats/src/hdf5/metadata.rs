//! Metadata of a file: written without libhdf5 where possible, otherwise by libhdf5 in a copy; committed by ordered writes.

pub(crate) mod byte_image;
pub(crate) mod ffi;
pub(crate) mod libhdf5;
pub(crate) mod metadata_cow;
pub(crate) mod metadata_file;
pub(crate) mod metadata_graph;
pub(crate) mod metadata_writer;
pub(crate) mod ordered_writes;
pub(crate) mod scratch_dir;
