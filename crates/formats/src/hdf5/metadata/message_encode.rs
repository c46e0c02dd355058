//! Messages of object headers in the earliest version of the format that has them: shapes, types, attributes, layouts, filters. Pure.
//!
//! See the [format specification](https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html), section IV.A.

use super::object_header::{HeapValue, StoredMessage, message_kind};
use crate::hdf5::filters::chunk_encode::filter_id;
use crate::hdf5::model::attribute::Hdf5Attribute;
use crate::hdf5::model::chunk_table::ChunkFilter;
use crate::hdf5::model::datatype::Datatype;

/// The most dimensions of the format.
const DIMENSIONS: usize = 32;
/// The length of a dimension without a limit.
const UNLIMITED: u64 = u64::MAX;
/// Bytes of a variable-length element: its length, the address of a heap, a number in it.
const VLEN_SIZE: usize = 16;

pub(crate) fn put_words<const N: usize>(out: &mut Vec<u8>, words: [u64; N]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

pub(crate) fn pad(out: &mut Vec<u8>, unit: usize) {
    out.resize(out.len().next_multiple_of(unit), 0);
}

/// A shape; the first dimension may be extended.
pub(crate) fn dataspace(shape: &[u64], extendible: bool) -> Result<Vec<u8>, String> {
    if shape.len() > DIMENSIONS {
        return Err(format!("{} dimensions; the format has {DIMENSIONS}", shape.len()));
    }
    let mut out = vec![1, shape.len() as u8, u8::from(!shape.is_empty()), 0, 0, 0, 0, 0];
    shape.iter().for_each(|length| put_words(&mut out, [*length]));
    for (at, length) in shape.iter().enumerate() {
        put_words(&mut out, [if at == 0 && extendible { UNLIMITED } else { *length }]);
    }
    Ok(out)
}

/// The first eight bytes of a type.
fn type_head(class: u8, bits: [u8; 3], size: u64) -> Result<Vec<u8>, String> {
    let size = u32::try_from(size).map_err(|_| format!("a type of {size} bytes; the format has 4 GiB"))?;
    let mut out = vec![class];
    out.extend_from_slice(&bits);
    out.extend_from_slice(&size.to_le_bytes());
    Ok(out)
}

fn integer(size: u32, signed: bool) -> Result<Vec<u8>, String> {
    if !matches!(size, 1 | 2 | 4 | 8) {
        return Err(format!("an integer of {size} bytes"));
    }
    let mut out = type_head(0x10, [if signed { 8 } else { 0 }, 0, 0], size.into())?;
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&(8 * size as u16).to_le_bytes());
    Ok(out)
}

fn float(size: u32) -> Result<Vec<u8>, String> {
    // The sign bit; the offset and the bits of exponent and mantissa; the exponent bias.
    let (sign, form): (u8, [u8; 8]) = match size {
        2 => (15, [10, 5, 0, 10, 15, 0, 0, 0]),
        4 => (31, [23, 8, 0, 23, 127, 0, 0, 0]),
        8 => (63, [52, 11, 0, 52, 0xFF, 3, 0, 0]),
        _ => return Err(format!("a floating-point number of {size} bytes")),
    };
    let mut out = type_head(0x11, [0x20, sign, 0], size.into())?;
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&(8 * size as u16).to_le_bytes());
    out.extend_from_slice(&form);
    Ok(out)
}

fn name(out: &mut Vec<u8>, name: &str) {
    let length = (name.len() + 1).next_multiple_of(8);
    let end = out.len() + length;
    out.extend_from_slice(name.as_bytes());
    out.resize(end, 0);
}

fn enumeration(base: &[u8], size: u32, members: &[(String, u64)]) -> Result<Vec<u8>, String> {
    let count = u16::try_from(members.len()).map_err(|_| "an enum of more than 65535 names".to_owned())?;
    let [low, high] = count.to_le_bytes();
    let mut out = type_head(0x18, [low, high, 0], size.into())?;
    out.extend_from_slice(base);
    members.iter().for_each(|(member, _)| name(&mut out, member));
    members.iter().for_each(|(_, value)| out.extend_from_slice(&value.to_le_bytes()[..size as usize]));
    Ok(out)
}

/// Variable-length text in UTF-8.
fn vlen_text() -> Result<Vec<u8>, String> {
    let mut out = type_head(0x19, [1, 1, 0], VLEN_SIZE as u64)?;
    out.extend_from_slice(&integer(1, false)?);
    Ok(out)
}

/// The type of elements.
pub(crate) fn datatype(ty: &Datatype) -> Result<Vec<u8>, String> {
    match ty {
        Datatype::Int(size) => integer(*size, true),
        Datatype::UInt(size) => integer(*size, false),
        Datatype::Float(size) => float(*size),
        Datatype::Bool => {
            let members = [("FALSE".to_owned(), 0), ("TRUE".to_owned(), 1)];
            enumeration(&integer(1, true)?, 1, &members)
        }
        Datatype::Enum(size, members) => enumeration(&integer(*size, false)?, *size, members),
        Datatype::Compound(size, fields) => {
            let count = u16::try_from(fields.len()).map_err(|_| "more than 65535 fields".to_owned())?;
            let [low, high] = count.to_le_bytes();
            let mut out = type_head(0x26, [low, high, 0], *size)?;
            for (field, offset, ty) in fields {
                name(&mut out, field);
                out.extend_from_slice(&(*offset as u32).to_le_bytes());
                out.extend_from_slice(&datatype(ty)?);
            }
            Ok(out)
        }
        Datatype::Array(of, count) => {
            let length = u32::try_from(*count).map_err(|_| format!("an array of {count} elements"))?;
            let mut out = type_head(0x2A, [0, 0, 0], ty.size())?;
            out.extend_from_slice(&[1, 0, 0, 0]);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&datatype(of)?);
            Ok(out)
        }
        // Padded with zeros, in UTF-8.
        Datatype::Text(size) => type_head(0x13, [0x11, 0, 0], *size),
        Datatype::VlenText => vlen_text(),
        Datatype::Opaque(name, _) | Datatype::Other(name, _) => Err(format!("{name} is not written")),
    }
}

/// An attribute: its name, encoded type, encoded shape and values. `heap` has the values that are stored in a heap, with offsets in `values`.
pub(crate) fn attribute_of(
    name: &str,
    ty: &[u8],
    space: &[u8],
    values: &[u8],
    heap: Vec<HeapValue>,
) -> Result<StoredMessage, String> {
    let name_bytes = [name.as_bytes(), &[0]].concat();
    let ascii = name.is_ascii();
    // Version 3 has the character set of the name, and no padding.
    let mut out = vec![if ascii { 1 } else { 3 }, 0];
    for part in [&name_bytes[..], ty, space] {
        let length = u16::try_from(part.len()).map_err(|_| format!("attribute {name:?} is too long"))?;
        out.extend_from_slice(&length.to_le_bytes());
    }
    if !ascii {
        out.push(1);
    }
    for part in [&name_bytes[..], ty, space] {
        out.extend_from_slice(part);
        if ascii {
            pad(&mut out, 8);
        }
    }
    let values_at = out.len();
    out.extend_from_slice(values);
    let heap = heap.into_iter().map(|value| HeapValue { at: value.at + values_at, ..value }).collect();
    Ok(StoredMessage { heap, ..StoredMessage::new(message_kind::ATTRIBUTE, 0, out) })
}

/// An attribute of a group or dataset.
pub(crate) fn attribute(name: &str, value: &Hdf5Attribute) -> Result<StoredMessage, String> {
    let texts = |texts: &[&String]| -> (Vec<u8>, Vec<HeapValue>) {
        let mut values = vec![0; texts.len() * VLEN_SIZE];
        let mut heap = Vec::new();
        for (number, text) in texts.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            let at = number * VLEN_SIZE;
            values[at..at + 4].copy_from_slice(&(text.len() as u32).to_le_bytes());
            heap.push(HeapValue { at, bytes: text.as_bytes().to_vec(), references: Vec::new() });
        }
        (values, heap)
    };
    match value {
        Hdf5Attribute::Text(text) => {
            let (values, heap) = texts(&[text]);
            attribute_of(name, &vlen_text()?, &dataspace(&[], false)?, &values, heap)
        }
        Hdf5Attribute::Texts(all) => {
            let (values, heap) = texts(&all.iter().collect::<Vec<_>>());
            attribute_of(name, &vlen_text()?, &dataspace(&[all.len() as u64], false)?, &values, heap)
        }
        Hdf5Attribute::FixedText(text) => {
            let size = text.len().max(1);
            let mut values = text.clone().into_bytes();
            values.resize(size, 0);
            let mut ty = datatype(&Datatype::Text(size as u64))?;
            if text.ends_with('\0') {
                // Terminated by a zero, in ASCII: the HDF5 library takes no other text for the class of a dimension scale.
                ty[1] = 0;
            }
            attribute_of(name, &ty, &dataspace(&[], false)?, &values, Vec::new())
        }
        Hdf5Attribute::Values(ty, shape, values) => {
            attribute_of(name, &datatype(ty)?, &dataspace(shape, false)?, values, Vec::new())
        }
        Hdf5Attribute::References(lists) => references(name, lists),
        Hdf5Attribute::ScaleUses(uses) => scale_uses(name, uses),
        Hdf5Attribute::Other(what) => Err(format!("attribute {name:?}: {what} is not written")),
    }
}

/// Lists of references to objects. The addresses follow.
fn references(name: &str, lists: &[Vec<String>]) -> Result<StoredMessage, String> {
    let mut ty = type_head(0x19, [0; 3], VLEN_SIZE as u64)?;
    ty.extend_from_slice(&type_head(0x17, [0; 3], 8)?);
    let mut values = vec![0; lists.len() * VLEN_SIZE];
    let mut heap = Vec::new();
    for (number, list) in lists.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
        let at = number * VLEN_SIZE;
        values[at..at + 4].copy_from_slice(&(list.len() as u32).to_le_bytes());
        heap.push(HeapValue { at, bytes: Vec::new(), references: list.clone() });
    }
    attribute_of(name, &ty, &dataspace(&[lists.len() as u64], false)?, &values, heap)
}

/// The datasets that use a dimension scale, and for which of their dimensions, as the HDF5 library stores them. The addresses follow.
fn scale_uses(attribute: &str, uses: &[(String, u32)]) -> Result<StoredMessage, String> {
    const USE_SIZE: usize = 16;
    let mut ty = type_head(0x16, [2, 0, 0], USE_SIZE as u64)?;
    for (member, offset, inner) in
        [("dataset", 0u32, type_head(0x17, [0; 3], 8)?), ("dimension", 8, integer(4, false)?)]
    {
        name(&mut ty, member);
        ty.extend_from_slice(&offset.to_le_bytes());
        // No dimensions, in the form of version 1.
        ty.extend_from_slice(&[0; 28]);
        ty.extend_from_slice(&inner);
    }
    let mut values = vec![0; uses.len() * USE_SIZE];
    for (value, (_, dimension)) in values.chunks_exact_mut(USE_SIZE).zip(uses) {
        value[8..12].copy_from_slice(&dimension.to_le_bytes());
    }
    let space = dataspace(&[uses.len() as u64], false)?;
    let mut message = attribute_of(attribute, &ty, &space, &values, Vec::new())?;
    let first = message.data.len() - values.len();
    let places = uses.iter().enumerate().map(|(number, (path, _))| (first + number * USE_SIZE, path.clone()));
    message.references = places.collect();
    Ok(message)
}

/// The fill value; none for zeros. Space is allocated from the beginning, or chunk by chunk, and is not filled by readers that write.
pub(crate) fn fill_value(early: bool, value: &[u8]) -> Vec<u8> {
    let mut out = if early { vec![2, 1, 1, 1] } else { vec![2, 3, 2, 1] };
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(value);
    out
}

/// The layout of a dataset in one piece.
pub(crate) fn contiguous_layout(address: u64, bytes: u64) -> Vec<u8> {
    let mut out = vec![3, 1];
    put_words(&mut out, [address, bytes]);
    out
}

/// The layout of a dataset in chunks; `index` is the root of the tree of chunks.
pub(crate) fn chunked_layout(index: u64, chunk: &[u64], element: u64) -> Vec<u8> {
    let mut out = vec![3, 2, chunk.len() as u8 + 1];
    put_words(&mut out, [index]);
    chunk.iter().chain([&element]).for_each(|length| out.extend_from_slice(&(*length as u32).to_le_bytes()));
    out
}

/// The filters of chunks. All but the checksum may be skipped for a chunk.
pub(crate) fn filter_pipeline(filters: &[ChunkFilter]) -> Vec<u8> {
    let mut out = vec![1, filters.len() as u8, 0, 0, 0, 0, 0, 0];
    for filter in filters {
        let name_length = (filter.name.len() + 1).next_multiple_of(8) as u16;
        let optional = u16::from(filter.id != filter_id::FLETCHER32);
        for number in [filter.id, name_length, optional, filter.parameters.len() as u16] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        name(&mut out, &filter.name);
        filter.parameters.iter().for_each(|parameter| out.extend_from_slice(&parameter.to_le_bytes()));
        if !filter.parameters.len().is_multiple_of(2) {
            out.extend_from_slice(&[0; 4]);
        }
    }
    out
}
