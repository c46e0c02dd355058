//! Functions that the binding of the C library lacks: addresses of chunks, fill values, and attributes as bytes.
//!
//! `unsafe` here: calls into the library, with buffers of the size that is passed, under the lock of the binding.
#![allow(unsafe_code)]

use hdf5_metno::{Attribute, Dataset, Datatype, Result};
use hdf5_metno_sys::h5a::{H5Aread, H5Awrite};
use hdf5_metno_sys::h5d::H5Dget_chunk_info_by_coord;
use hdf5_metno_sys::h5p::H5Pget_fill_value;

use crate::hdf5::model::tree::UNDEFINED_ADDRESS;

/// The address of the chunk that begins at these coordinates, and its bytes; [`NOWHERE`] if it has none.
pub(crate) fn chunk(dataset: &Dataset, coordinates: &[u64]) -> Result<(u64, u64)> {
    let (mut mask, mut address, mut size) = (0, UNDEFINED_ADDRESS, 0);
    let outcome = hdf5_metno::sync::sync(|| {
        // SAFETY: the coordinates are as many as the dataset has dimensions, which the caller got from it; the rest are variables of ours.
        unsafe {
            H5Dget_chunk_info_by_coord(
                dataset.id(),
                coordinates.as_ptr(),
                &raw mut mask,
                &raw mut address,
                &raw mut size,
            )
        }
    });
    if outcome < 0 { Err("the place of a chunk is not known".into()) } else { Ok((address, size)) }
}

/// The fill value of a type without pointers; none if it is not defined.
pub(crate) fn fill(dataset: &Dataset, datatype: &Datatype) -> Option<Vec<u8>> {
    let settings = dataset.dcpl().ok()?;
    let mut bytes = vec![0u8; datatype.size()];
    // SAFETY: there is room for an element of this type.
    let outcome = hdf5_metno::sync::sync(|| unsafe {
        H5Pget_fill_value(settings.id(), datatype.id(), bytes.as_mut_ptr().cast())
    });
    (outcome >= 0).then_some(bytes)
}

/// Writes the values of an attribute, as many as it has, of this type.
pub(crate) fn write(attribute: &Attribute, datatype: &Datatype, bytes: &[u8]) -> Result<()> {
    if attribute.size() * datatype.size() != bytes.len() {
        return Err(
            format!("attribute {}: {} bytes are not its values", attribute.name(), bytes.len()).into()
        );
    }
    // SAFETY: the bytes are exactly the attribute's values in this type.
    let outcome =
        hdf5_metno::sync::sync(|| unsafe { H5Awrite(attribute.id(), datatype.id(), bytes.as_ptr().cast()) });
    if outcome < 0 { Err(format!("attribute {} cannot be written", attribute.name()).into()) } else { Ok(()) }
}

/// Reads the values of an attribute, in this type, which holds no pointers.
pub(crate) fn read(attribute: &Attribute, datatype: &Datatype) -> Result<Vec<u8>> {
    let mut bytes = vec![0u8; attribute.size() * datatype.size()];
    // SAFETY: there is room for all its values in this type, and they are bytes.
    let outcome = hdf5_metno::sync::sync(|| unsafe {
        H5Aread(attribute.id(), datatype.id(), bytes.as_mut_ptr().cast())
    });
    if outcome < 0 { Err(format!("attribute {} cannot be read", attribute.name()).into()) } else { Ok(bytes) }
}
