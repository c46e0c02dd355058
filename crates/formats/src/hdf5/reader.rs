//! Reading metadata by the HDF5 file format specification, versions 1 to 4: superblocks, object headers, groups, attributes, chunk indexes.
//!
//! Nothing here trusts the file: every access is inside a block that was read, every block is inside the file, and the number of bytes that
//! are decoded is limited by the length of the file.

mod attribute_decode;
mod btree_v1;
mod btree_v2;
mod byte_cursor;
pub(crate) mod checksum;
mod chunk_index;
mod data_layout;
mod dataspace;
mod datatype_decode;
mod extensible_array;
mod fixed_array;
mod fractal_heap;
mod global_heap;
mod group_links;
pub(crate) mod metadata_source;
mod object_header;
pub(crate) mod object_tree;
mod shared_message;
mod superblock;
