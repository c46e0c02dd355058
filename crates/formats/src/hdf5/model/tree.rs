//! The metadata of a file as values: groups, datasets, attributes. Pure.

use std::collections::BTreeMap;

use aqueduct_object::Object;

use super::attribute::Hdf5Attribute;
use super::chunk_table::{ChunkFilter, ChunkTable};
use super::datatype::Datatype;
use super::element_conversion::{ElementConversion, convert_elements};

/// The attribute with the number of complete rows of a dataset; of the root group, whether the file is complete.
pub const COMPLETION_ATTRIBUTE: &str = "aqueduct_complete";

/// The attribute with the dimension whose rows the completion attribute counts, if it is not the first.
pub const ROWS_DIMENSION_ATTRIBUTE: &str = "aqueduct_rows_dimension";

/// The address of what has none.
pub(crate) const UNDEFINED_ADDRESS: u64 = u64::MAX;

/// The limit of a dimension without one.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// All groups and datasets, by their paths; the root is `/`.
pub type ObjectTree = BTreeMap<String, Hdf5Object>;

/// A group or a dataset.
#[derive(Clone, Debug, PartialEq, Object)]
pub struct Hdf5Object {
    /// Its attributes.
    pub attributes: BTreeMap<String, Hdf5Attribute>,
    /// What it holds; none for a group.
    pub dataset: Option<Dataset>,
}

/// An array.
#[derive(Clone, Debug, PartialEq, Object)]
pub struct Dataset {
    /// What its elements are.
    pub datatype: Datatype,
    /// The length of each dimension; none for a single value.
    pub shape: Vec<u64>,
    /// Whether its first dimension can be extended.
    pub extendible: bool,
    /// Where its bytes are.
    pub(crate) storage: Storage,
    /// The fill value of unwritten elements as bytes of the file; none for zeros.
    pub(crate) fill: Vec<u8>,
    /// The largest length of each dimension, [`UNLIMITED`] for no limit; empty if all of them are fixed.
    pub(crate) limits: Vec<u64>,
    /// What is changed in each stored element when it is read.
    pub(crate) conversions: Vec<ElementConversion>,
}

/// Where the bytes of a dataset are.
#[derive(Clone, Debug, PartialEq, Object)]
pub(crate) enum Storage {
    /// In one piece, from this byte of the file on, or [`NOWHERE`] until something is written.
    Contiguous(u64),
    /// In chunks of this shape, at these addresses: the last dimension of chunks side by side. Unwritten ones are [`UNDEFINED_ADDRESS`].
    Chunked(Vec<u64>, Vec<u64>),
    /// In chunks that have filters, or of which the file has only some.
    ChunkTable(ChunkTable),
    /// These bytes of the metadata.
    Compact(Vec<u8>),
    /// Not where they could be accessed, and why.
    Unsupported(String),
}

impl Hdf5Object {
    /// A group without attributes.
    pub(crate) fn group() -> Self {
        Self { attributes: BTreeMap::new(), dataset: None }
    }

    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&Hdf5Attribute> {
        self.attributes.get(name)
    }

    /// The number of complete rows, if the file records it: one row for a scalar, and for the root if the file is complete.
    pub fn complete(&self) -> Option<u64> {
        self.attribute(COMPLETION_ATTRIBUTE)?.values::<u64>()?.first().copied()
    }

    /// The dimension whose complete rows are counted: the first, unless the file records another one.
    pub fn rows_dimension(&self) -> usize {
        let recorded = self.attribute(ROWS_DIMENSION_ATTRIBUTE).and_then(Hdf5Attribute::values::<u64>);
        let recorded = recorded.and_then(|recorded| usize::try_from(*recorded.first()?).ok()).unwrap_or(0);
        let dimensions = self.dataset.as_ref().map_or(0, |dataset| dataset.shape.len());
        if recorded < dimensions { recorded } else { 0 }
    }
}

impl Dataset {
    /// The shape of its chunks, if it has any.
    pub fn chunk(&self) -> Option<&[u64]> {
        match &self.storage {
            Storage::Chunked(chunk, _) => Some(chunk),
            Storage::ChunkTable(table) => Some(&table.chunk),
            _ => None,
        }
    }

    /// The filters of its chunks, in the order in which they were applied.
    pub fn filters(&self) -> &[ChunkFilter] {
        match &self.storage {
            Storage::ChunkTable(table) => &table.filters,
            _ => &[],
        }
    }

    /// Whether it has a fill value other than zeros.
    pub(crate) fn has_fill_value(&self) -> bool {
        !self.fill.is_empty()
    }

    /// The value of elements that were never written, as a program gets it.
    pub fn fill_value(&self) -> Vec<u8> {
        let size = self.datatype.size() as usize;
        let mut value = if self.fill.is_empty() { vec![0; size] } else { self.fill.clone() };
        convert_elements(&self.conversions, size, &mut value);
        value
    }

    /// Whether a dimension can be extended without a limit.
    pub fn is_unlimited(&self, dimension: usize) -> bool {
        self.limits.get(dimension) == Some(&UNLIMITED)
    }

    /// How many rows it has: the length of its first dimension; one for a single value.
    pub fn rows(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// How many elements it has, if that is a number.
    pub fn elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |all, length| all.checked_mul(*length))
    }

    /// The number of bytes of its storage in the file, without unwritten elements.
    pub fn stored(&self) -> u64 {
        self.extents().iter().fold(0, |all, (_, bytes)| all.saturating_add(*bytes))
    }

    /// Bytes of the file that hold its elements: where they begin, and how many.
    pub(crate) fn extents(&self) -> Vec<(u64, u64)> {
        let size = |shape: &[u64]| {
            shape.iter().fold(self.datatype.size(), |bytes, length| bytes.saturating_mul(*length))
        };
        let placed = |addresses: &[u64], bytes: u64| {
            addresses.iter().filter(|at| **at != UNDEFINED_ADDRESS).map(|at| (*at, bytes)).collect()
        };
        match &self.storage {
            Storage::Contiguous(address) => placed(&[*address], size(&self.shape)),
            Storage::Chunked(chunk, addresses) => placed(addresses, size(chunk)),
            Storage::ChunkTable(table) => {
                table.addresses.iter().copied().zip(table.sizes.iter().copied()).collect()
            }
            Storage::Compact(_) | Storage::Unsupported(_) => Vec::new(),
        }
    }

    /// Whether elements need not have bytes in the file: unwritten ones, and those of filtered chunks.
    pub fn is_sparse(&self) -> bool {
        match &self.storage {
            Storage::Contiguous(address) => *address == UNDEFINED_ADDRESS,
            Storage::Chunked(_, addresses) => addresses.contains(&UNDEFINED_ADDRESS),
            Storage::ChunkTable(_) => true,
            Storage::Compact(_) | Storage::Unsupported(_) => false,
        }
    }

    /// Why its elements cannot be accessed here, if they cannot.
    pub(crate) fn unreadable(&self) -> Option<&str> {
        match &self.storage {
            Storage::Unsupported(why) => Some(why),
            _ => None,
        }
    }
}

/// More chunks are not looked up one by one: a file may claim any number of them.
const MOST_CHUNKS: u64 = 1 << 24;

/// The error of too many chunks.
pub(crate) fn too_many(shape: &[u64], chunk: &[u64]) -> Option<String> {
    let count = grid(shape, chunk).into_iter().try_fold(1u64, u64::checked_mul);
    let many = count.is_none_or(|count| count > MOST_CHUNKS);
    many.then(|| {
        format!("{shape:?} in chunks of {chunk:?} are more than {MOST_CHUNKS} of them; make chunks larger")
    })
}

/// How many chunks there are in each dimension.
pub(crate) fn grid(shape: &[u64], chunk: &[u64]) -> Vec<u64> {
    shape.iter().zip(chunk).map(|(length, chunk)| length.div_ceil((*chunk).max(1))).collect()
}

/// The group that an object is in.
pub(crate) fn parent(path: &str) -> Option<&str> {
    if path == "/" {
        return None;
    }
    path.rsplit_once('/').map(|(parent, _)| if parent.is_empty() { "/" } else { parent })
}

/// The normalized path: absolute, without a trailing `/`. None for an invalid path.
pub(crate) fn absolute(path: &str) -> Option<String> {
    let inner = path.trim_matches('/');
    let sound =
        !path.contains('\0') && inner.split('/').all(|name| !name.is_empty() && name != "." && name != "..");
    (inner.is_empty() && !path.contains('\0') || sound).then(|| format!("/{inner}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute() {
        assert_eq!(absolute("a/b").as_deref(), Some("/a/b"));
        assert_eq!(absolute("/").as_deref(), Some("/"));
        assert_eq!(absolute("/a/b/").as_deref(), Some("/a/b"));
        assert_eq!([absolute("a//b"), absolute("a/../b"), absolute("a\0")], [None, None, None]);
        assert_eq!([parent("/a/b"), parent("/a"), parent("/")], [Some("/a"), Some("/"), None]);
    }
}
