//! Changes: what a batch of definitions asks the library to do. Pure.

use aqueduct_object::Object;

use super::attribute::Hdf5Attribute;
use super::chunk_table::ChunkFilter;
use super::datatype::Datatype;

/// One definition.
#[derive(Clone, Debug, PartialEq, Object)]
pub(crate) enum Hdf5Definition {
    Group(String),
    Dataset(String, NewDataset),
    /// So many rows.
    Extend(String, u64),
    Attribute(String, String, Hdf5Attribute),
}

impl Hdf5Definition {
    /// The object that it defines or changes.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Group(path)
            | Self::Dataset(path, _)
            | Self::Extend(path, _)
            | Self::Attribute(path, ..) => path,
        }
    }
}

/// A dataset to be made.
#[derive(Clone, Debug, PartialEq, Object)]
pub(crate) struct NewDataset {
    pub(crate) datatype: Datatype,
    pub(crate) shape: Vec<u64>,
    pub(crate) extendible: bool,
    pub(crate) chunk: Option<Vec<u64>>,
    pub(crate) filters: Vec<ChunkFilter>,
    /// The fill value; empty for zeros.
    pub(crate) fill: Vec<u8>,
    /// Whether it never has a place in the file: a dataset without values.
    pub(crate) unallocated: bool,
}

/// Where a dataset is.
#[derive(Clone, Debug, PartialEq, Object)]
pub(crate) struct DatasetAddresses {
    pub(crate) path: String,
    /// How many addresses were known before.
    pub(crate) known: u64,
    /// Of the following chunks, or of all of it.
    pub(crate) addresses: Vec<u64>,
}
