//! A field over points or particles.

use std::borrow::Cow;

use aqueduct_object::{Object, encode_all};

use crate::error::{Error, Kind, Result};
use crate::hdf5::Datatype;

/// A field over points or particles: its name, and the values of this rank.
///
/// A vector or tensor is an array, for example `[f32; 3]`.
#[derive(Clone, Debug)]
pub struct PointField<'a> {
    name: &'a str,
    count: u64,
    /// The type of an element, or why it has none in HDF5.
    datatype: std::result::Result<Datatype, String>,
    bytes: Cow<'a, [u8]>,
}

/// The elements of a field: numbers, or several for each point.
#[derive(Clone, Debug)]
pub(crate) struct FieldElements<'f> {
    pub(crate) datatype: Datatype,
    /// How many numbers a point has, if it has an array.
    pub(crate) components: Option<u64>,
    pub(crate) bytes: &'f [u8],
}

impl<'a> PointField<'a> {
    /// A field of this name; one value for each point of this rank.
    pub fn new<T: Object>(name: &'a str, values: &'a [T]) -> Self {
        let (count, datatype) = (values.len() as u64, Datatype::of::<T>());
        Self { name, count, datatype, bytes: encode_all(values) }
    }

    /// A field of numbers, or of arrays of numbers, that are known at run time only: the values of this rank in little-endian bytes.
    pub fn of_bytes(name: &'a str, datatype: Datatype, bytes: &'a [u8]) -> Self {
        let count = (bytes.len() as u64).checked_div(datatype.size()).unwrap_or(0);
        Self { name, count, datatype: Ok(datatype), bytes: Cow::Borrowed(bytes) }
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The elements, if they are numbers.
    pub(crate) fn elements(&self, file: &str) -> Result<FieldElements<'_>> {
        let bad = |what: String| {
            let detail = format!("field {:?}: {what}", self.name);
            Error::new(Kind::WrongType, "write", file, detail)
        };
        if self.name.is_empty() || self.name.contains('/') {
            return Err(bad("its name is empty or has a slash".to_owned()));
        }
        let (datatype, components) = match self.datatype.clone().map_err(bad)? {
            Datatype::Array(of, count) => (*of, Some(count)),
            scalar => (scalar, None),
        };
        match datatype {
            Datatype::Int(_) | Datatype::UInt(_) | Datatype::Float(_) => {
                Ok(FieldElements { datatype, components, bytes: &self.bytes })
            }
            other => Err(bad(format!("{other} is no number; write numbers or arrays of numbers"))),
        }
    }
}
