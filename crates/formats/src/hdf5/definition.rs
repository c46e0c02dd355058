//! Changes: what a batch of definitions asks the library to do. Pure.

use aqueduct_object::Object;

use super::attribute::Hdf5Attribute;
use super::datatype::Datatype;

/// One definition.
#[derive(Clone, Debug, PartialEq, Object)]
pub(super) enum Hdf5Definition {
    Group(String),
    Dataset(String, NewDataset),
    /// So many rows.
    Extend(String, u64),
    Attribute(String, String, Hdf5Attribute),
}

/// A dataset to be made.
#[derive(Clone, Debug, PartialEq, Object)]
pub(super) struct NewDataset {
    pub(super) datatype: Datatype,
    pub(super) shape: Vec<u64>,
    pub(super) extendible: bool,
    pub(super) chunk: Option<Vec<u64>>,
}

/// Where the library has put a dataset.
#[derive(Clone, Debug, PartialEq, Object)]
pub(super) struct DatasetAddresses {
    pub(super) path: String,
    /// How many addresses were known before.
    pub(super) known: u64,
    /// Of the chunks behind them, or of all of it.
    pub(super) addresses: Vec<u64>,
}
