//! Objects of a file in memory: groups, datasets, attributes, datatypes, and definitions to be made.

pub(crate) mod attribute;
pub(crate) mod datatype;
pub(crate) mod definition;
pub(crate) mod number;
pub(crate) mod tree;
