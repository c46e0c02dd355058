//! The dataspace message: the shape of a dataset or attribute.

use super::byte_cursor::{ByteCursor, Decoded};
use crate::hdf5::model::tree::UNLIMITED;

/// The most dimensions.
pub(crate) const MOST_DIMENSIONS: usize = 32;

/// A shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dataspace {
    /// Whether there are no elements at all, not even a single one.
    pub(crate) null: bool,
    pub(crate) shape: Vec<u64>,
    /// The largest length of each dimension; empty if it is the present one.
    pub(crate) limits: Vec<u64>,
}

impl Dataspace {
    /// How many elements there are, if that is a number.
    pub(crate) fn elements(&self) -> Option<u64> {
        if self.null {
            Some(0)
        } else {
            self.shape.iter().try_fold(1u64, |all, length| all.checked_mul(*length))
        }
    }
}

pub(crate) fn decode(mut cursor: ByteCursor<'_>) -> Decoded<Dataspace> {
    let version = cursor.version(1..=2)?;
    let (rank, flags) = (cursor.u8()? as usize, cursor.u8()?);
    if rank > MOST_DIMENSIONS {
        return Err(format!("{rank} dimensions"));
    }
    let kind = cursor.u8()?;
    cursor.skip(if version == 1 { 4 } else { 0 })?;
    let mut lengths = || (0..rank).map(|_| cursor.length()).collect::<Decoded<Vec<u64>>>();
    let shape = lengths()?;
    let mut limits = if flags & 1 != 0 { lengths()? } else { Vec::new() };
    let unlimited = u64::MAX >> (64 - 8 * cursor.sizes().length);
    limits.iter_mut().filter(|limit| **limit == unlimited).for_each(|limit| *limit = UNLIMITED);
    if limits.iter().zip(&shape).any(|(limit, length)| limit < length) {
        return Err(format!("a shape of {shape:?} with limits of {limits:?}"));
    }
    if limits == shape {
        limits.clear();
    }
    Ok(Dataspace { null: version == 2 && kind == 2, shape, limits })
}
