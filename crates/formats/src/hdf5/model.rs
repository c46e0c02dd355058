//! Objects of a file in memory: groups, datasets, attributes, datatypes, and definitions to be made.

pub(crate) mod attribute;
pub(crate) mod chunk_location;
pub(crate) mod chunk_table;
pub(crate) mod dataset_options;
pub(crate) mod datatype;
pub(crate) mod definition;
pub(crate) mod element_conversion;
pub(crate) mod link;
pub(crate) mod number;
pub(crate) mod tree;
