//! How a stream is stored in files of arrays (HDF5, netCDF): names, dimensions, attributes, chunks.

use serde::{Deserialize, Serialize};

use crate::declare::stream::Stream;

/// How a stream is stored in files of arrays; stream files do not use it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArrayStorage {
    /// The path of each array of the stream, one for each box; empty for the default names.
    pub paths: Vec<String>,
    /// The number of dimensions of length 1 before all others.
    pub leading: usize,
    /// Attributes of each array of the stream.
    pub attributes: Vec<(String, StreamAttribute)>,
    /// The shape of the chunks of HDF5, in all dimensions of the dataset.
    pub chunk: Option<Vec<u64>>,
    /// The level of the compression by deflate in HDF5.
    pub deflate: Option<u32>,
}

/// The value of an attribute of an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamAttribute {
    /// Text of variable length.
    Text(String),
    /// Text of fixed length, in HDF5; in netCDF all text has a fixed length.
    FixedText(String),
    /// Natural numbers.
    Unsigned(Vec<u64>),
    /// Integers.
    Signed(Vec<i64>),
    /// Real numbers.
    Real(Vec<f64>),
}

impl StreamAttribute {
    /// Text of fixed length.
    pub fn fixed(text: impl Into<String>) -> Self {
        Self::FixedText(text.into())
    }
}

macro_rules! attribute_from {
    ($($from:ty => $value:ident => $to:expr),* $(,)?) => {$(
        impl From<$from> for StreamAttribute {
            fn from($value: $from) -> Self {
                $to
            }
        }
    )*};
}

attribute_from! {
    &str => text => Self::Text(text.to_owned()),
    String => text => Self::Text(text),
    u64 => number => Self::Unsigned(vec![number]),
    i64 => number => Self::Signed(vec![number]),
    f64 => number => Self::Real(vec![number]),
    Vec<u64> => numbers => Self::Unsigned(numbers),
    Vec<i64> => numbers => Self::Signed(numbers),
    Vec<f64> => numbers => Self::Real(numbers),
}

impl ArrayStorage {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Why it does not suit a stream of this number of arrays; none if it does.
    pub(crate) fn objection(&self, arrays: usize) -> Option<String> {
        if !self.paths.is_empty() && self.paths.len() != arrays {
            let paths = self.paths.len();
            return Some(format!("{paths} paths for {arrays} arrays; give one for each box, in their order"));
        }
        self.deflate
            .filter(|level| *level > 9)
            .map(|level| format!("deflate has the levels 0 to 9, not {level}"))
    }
}

/// How the stream is stored in files of arrays.
impl Stream {
    /// The path of the array in HDF5, such as `/p/1`; of several boxes, one for each. Groups are made as needed. In netCDF
    /// the name is the path with `.` between its parts. Without it, an array has the name of its stream, and boxes their
    /// number behind that.
    ///
    /// The numbers of [points](Stream::points) are stored beside arrays with default names only.
    #[must_use]
    pub fn paths<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.storage.paths = paths.into_iter().map(Into::into).collect();
        self
    }

    /// So many dimensions of length 1 before all others, the steps included: some file formats fix the number of
    /// dimensions. If the stream is stored in several steps, the number of steps has to be known
    /// ([`Options::steps`](crate::Options::steps)). In netCDF, where the dimension of steps is the first, only arrays that
    /// are stored once have them.
    #[must_use]
    pub fn leading_ones(mut self, dimensions: usize) -> Self {
        self.storage.leading = dimensions;
        self
    }

    /// Adds an attribute to each array of the stream.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<StreamAttribute>) -> Self {
        self.storage.attributes.push((name.into(), value.into()));
        self
    }

    /// The shape of the chunks of HDF5, in all dimensions of the dataset: leading ones, steps, and those of the array.
    #[must_use]
    pub fn chunk(mut self, shape: impl Into<Vec<u64>>) -> Self {
        self.storage.chunk = Some(shape.into());
        self
    }

    /// Compresses the chunks of HDF5 by shuffle and deflate with a level from 0 to 9; each chunk by a rank that writes a
    /// part of it. A chunk that several steps fill is written again in each of them.
    #[must_use]
    pub fn deflate(mut self, level: u32) -> Self {
        self.storage.deflate = Some(level);
        self
    }
}
