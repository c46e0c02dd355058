//! The datatype message: the type of the elements, and how they differ from those of this machine.

use super::byte_cursor::{ByteCursor, Decoded, bytes_for};
use crate::hdf5::model::datatype::{Datatype, OBJECT_REFERENCE, REFERENCE_SEQUENCES};
use crate::hdf5::model::element_conversion::ElementConversion;

/// Types that are nested deeper are refused.
const DEEPEST: usize = 16;
/// The most conversions of one element: more are refused.
const MOST_CONVERSIONS: usize = 1 << 12;

/// A type, and what is done with each stored element.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredType {
    pub(crate) datatype: Datatype,
    pub(crate) conversions: Vec<ElementConversion>,
}

impl From<Datatype> for StoredType {
    fn from(datatype: Datatype) -> Self {
        Self { datatype, conversions: Vec::new() }
    }
}

impl StoredType {
    fn other(what: impl Into<String>, size: u32) -> Self {
        Datatype::Other(what.into(), size.into()).into()
    }
}

/// Decodes a type; what follows it is left to the cursor.
pub(crate) fn decode(cursor: &mut ByteCursor<'_>) -> Decoded<StoredType> {
    nested(cursor, 0)
}

/// The beginning of each description.
struct TypePrefix {
    version: u8,
    /// The lower 24 bits.
    bits: u32,
    size: u32,
}

fn nested(cursor: &mut ByteCursor<'_>, depth: usize) -> Decoded<StoredType> {
    if depth > DEEPEST {
        return Err(format!("types in types more than {DEEPEST} deep"));
    }
    let first = cursor.u8()?;
    let (class, version) = (first & 15, first >> 4);
    if !(1..=5).contains(&version) {
        return Err(format!("a datatype of version {version}"));
    }
    let prefix = TypePrefix { version, bits: cursor.uint(3)? as u32, size: cursor.u32()? };
    if prefix.size == 0 {
        return Err("elements without a byte".to_owned());
    }
    match class {
        0 => integer(cursor, &prefix),
        1 => float(cursor, &prefix),
        2 => {
            cursor.skip(2)?;
            Ok(StoredType::other("a time", prefix.size))
        }
        3 => Ok(fixed_text(&prefix)),
        4 => bit_field(cursor, &prefix),
        5 => {
            let tag = cursor.take((prefix.bits & 0xff) as usize)?;
            let tag = String::from_utf8_lossy(tag).trim_end_matches('\0').to_owned();
            let name = if tag.is_empty() { "opaque".to_owned() } else { format!("opaque {tag:?}") };
            Ok(Datatype::Opaque(name, prefix.size.into()).into())
        }
        6 => compound(cursor, &prefix, depth),
        7 => Ok(Datatype::Opaque(reference_name(prefix.bits).to_owned(), prefix.size.into()).into()),
        8 => enumeration(cursor, &prefix, depth),
        9 => variable_length(cursor, &prefix, depth),
        10 => array(cursor, &prefix, depth),
        11 => complex(cursor, &prefix, depth),
        class => Err(format!("a datatype of class {class}")),
    }
}

fn reference_name(bits: u32) -> &'static str {
    match bits & 15 {
        1 | 3 => "region reference",
        4 => "attribute reference",
        _ => OBJECT_REFERENCE,
    }
}

fn swap(prefix: &TypePrefix) -> Vec<ElementConversion> {
    let swapped = prefix.bits & 1 != 0 && prefix.size > 1;
    swapped.then(|| ElementConversion::Swap { offset: 0, bytes: prefix.size.into() }).into_iter().collect()
}

fn integer(cursor: &mut ByteCursor<'_>, prefix: &TypePrefix) -> Decoded<StoredType> {
    let (shift, precision) = (u32::from(cursor.u16()?), u32::from(cursor.u16()?));
    let (size, signed) = (prefix.size, prefix.bits & 8 != 0);
    if ![1, 2, 4, 8].contains(&size) {
        return Ok(StoredType::other(format!("an integer of {size} bytes"), size));
    }
    if precision == 0 || shift + precision > 8 * size {
        return Err(format!("{precision} bits from bit {shift} on in an integer of {size} bytes"));
    }
    let mut conversions = swap(prefix);
    if precision < 8 * size {
        conversions.push(ElementConversion::Bits { offset: 0, bytes: size.into(), shift, precision, signed });
    }
    let datatype = if signed { Datatype::Int(size) } else { Datatype::UInt(size) };
    Ok(StoredType { datatype, conversions })
}

fn bit_field(cursor: &mut ByteCursor<'_>, prefix: &TypePrefix) -> Decoded<StoredType> {
    cursor.skip(4)?;
    let datatype = match prefix.size {
        1 | 2 | 4 | 8 => Datatype::UInt(prefix.size),
        size => Datatype::Opaque("bit field".to_owned(), size.into()),
    };
    Ok(StoredType { datatype, conversions: swap(prefix) })
}

fn float(cursor: &mut ByteCursor<'_>, prefix: &TypePrefix) -> Decoded<StoredType> {
    let (shift, precision) = (cursor.u16()?, cursor.u16()?);
    let form = [cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?];
    let bias = cursor.u32()?;
    let sign = prefix.bits >> 8 & 0xff;
    let (wanted, wanted_bias) = match prefix.size {
        2 => ([10, 5, 0, 10], 15),
        4 => ([23, 8, 0, 23], 127),
        8 => ([52, 11, 0, 52], 1023),
        size => return Ok(StoredType::other(format!("a floating-point number of {size} bytes"), size)),
    };
    let whole = shift == 0 && u32::from(precision) == 8 * prefix.size && sign == 8 * prefix.size - 1;
    // The implied leading bit, in IEEE order or its reverse (the order of VAX has bit 6 set too).
    let ieee = prefix.bits & 0x70 == 0x20;
    if !whole || !ieee || form != wanted || bias != wanted_bias {
        let what = format!("a floating-point number of {} bytes in another form than IEEE 754", prefix.size);
        return Ok(StoredType::other(what, prefix.size));
    }
    Ok(StoredType { datatype: Datatype::Float(prefix.size), conversions: swap(prefix) })
}

fn fixed_text(prefix: &TypePrefix) -> StoredType {
    let bytes = u64::from(prefix.size);
    let spaces = (prefix.bits & 15 == 2).then_some(ElementConversion::Spaces { offset: 0, bytes });
    StoredType { datatype: Datatype::Text(bytes), conversions: spaces.into_iter().collect() }
}

fn name(cursor: &mut ByteCursor<'_>, version: u8) -> Decoded<String> {
    let start = cursor.position();
    let text = String::from_utf8_lossy(cursor.terminated()?).into_owned();
    if version < 3 {
        // Filled up to a multiple of eight bytes, from its own beginning.
        let used = cursor.position() - start;
        cursor.skip(used.next_multiple_of(8) - used)?;
    }
    Ok(text)
}

fn compound(cursor: &mut ByteCursor<'_>, prefix: &TypePrefix, depth: usize) -> Decoded<StoredType> {
    let count = prefix.bits & 0xffff;
    let (mut fields, mut conversions) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let name = name(cursor, prefix.version)?;
        let offset = if prefix.version < 3 { 4 } else { bytes_for(prefix.size.into()) };
        let offset = cursor.uint(offset)?;
        let mut dimensions = 1u64;
        if prefix.version == 1 {
            let rank = cursor.u8()?;
            cursor.skip(11)?;
            for dimension in 0..4 {
                let length = cursor.u32()?;
                if dimension < rank {
                    dimensions = dimensions.saturating_mul(length.into());
                }
            }
            dimensions = if rank == 0 { 0 } else { dimensions.max(1) };
        } else {
            dimensions = 0;
        }
        let element = nested(cursor, depth + 1)?;
        let field = if dimensions == 0 { element } else { repeated(element, dimensions)? };
        if offset.checked_add(field.datatype.size()).is_none_or(|end| end > prefix.size.into()) {
            return Err(format!("field {name:?} is outside of a type of {} bytes", prefix.size));
        }
        conversions.extend(field.conversions.iter().map(|conversion| conversion.shifted(offset)));
        if conversions.len() > MOST_CONVERSIONS {
            return Ok(StoredType::other("a compound type of too many converted fields", prefix.size));
        }
        fields.push((name, offset, field.datatype));
    }
    if fields.is_empty() {
        return Err("a compound type without fields".to_owned());
    }
    Ok(StoredType { datatype: Datatype::Compound(prefix.size.into(), fields), conversions })
}

fn enumeration(cursor: &mut ByteCursor<'_>, prefix: &TypePrefix, depth: usize) -> Decoded<StoredType> {
    let count = (prefix.bits & 0xffff) as usize;
    let base = nested(cursor, depth + 1)?;
    let names = (0..count).map(|_| name(cursor, prefix.version)).collect::<Decoded<Vec<_>>>()?;
    let size = base.datatype.size();
    let (Datatype::Int(bytes) | Datatype::UInt(bytes)) = base.datatype else {
        return Err(format!("an enumeration of {}", base.datatype));
    };
    if size != u64::from(prefix.size) {
        return Err(format!("an enumeration of {} bytes in integers of {size}", prefix.size));
    }
    let signed = matches!(base.datatype, Datatype::Int(_));
    let mut members = Vec::new();
    for name in names {
        let mut value = cursor.take(size as usize)?.to_vec();
        crate::hdf5::model::element_conversion::convert_elements(&base.conversions, value.len(), &mut value);
        let mut whole =
            [if signed && value.last().is_some_and(|byte| byte & 0x80 != 0) { 255 } else { 0 }; 8];
        whole[..value.len()].copy_from_slice(&value);
        members.push((name, u64::from_le_bytes(whole)));
    }
    let is_bool = bytes == 1 && members.len() == 2 && {
        let value = |wanted: &str| members.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
        value("FALSE") == Some(0) && value("TRUE") == Some(1)
    };
    let datatype = if is_bool { Datatype::Bool } else { Datatype::Enum(bytes, members) };
    Ok(StoredType { datatype, conversions: base.conversions })
}

fn variable_length(cursor: &mut ByteCursor<'_>, prefix: &TypePrefix, depth: usize) -> Decoded<StoredType> {
    let base = nested(cursor, depth + 1)?;
    if prefix.bits & 15 == 1 && prefix.size == 16 {
        return Ok(Datatype::VlenText.into());
    }
    match &base.datatype {
        Datatype::Opaque(name, _) if name == OBJECT_REFERENCE => {
            Ok(StoredType::other(REFERENCE_SEQUENCES, prefix.size))
        }
        other => Ok(StoredType::other(format!("sequences of variable length of {other}"), prefix.size)),
    }
}

fn array(cursor: &mut ByteCursor<'_>, prefix: &TypePrefix, depth: usize) -> Decoded<StoredType> {
    let rank = cursor.u8()?;
    cursor.skip(if prefix.version < 3 { 3 } else { 0 })?;
    let mut count = 1u64;
    for _ in 0..rank {
        count = count.saturating_mul(cursor.u32()?.into());
    }
    cursor.skip(if prefix.version < 3 { 4 * usize::from(rank) } else { 0 })?;
    let array = repeated(nested(cursor, depth + 1)?, count)?;
    if array.datatype.size() != u64::from(prefix.size) {
        return Err(format!("an array of {} bytes with elements of {}", prefix.size, array.datatype.size()));
    }
    Ok(array)
}

fn complex(cursor: &mut ByteCursor<'_>, prefix: &TypePrefix, depth: usize) -> Decoded<StoredType> {
    let part = nested(cursor, depth + 1)?;
    let size = part.datatype.size();
    if size.saturating_mul(2) != u64::from(prefix.size) {
        return Err(format!("a complex number of {} bytes with parts of {size}", prefix.size));
    }
    let second = part.conversions.iter().map(|conversion| conversion.shifted(size));
    let conversions = part.conversions.iter().cloned().chain(second).collect();
    let fields = vec![("r".to_owned(), 0, part.datatype.clone()), ("i".to_owned(), size, part.datatype)];
    Ok(StoredType { datatype: Datatype::Compound(2 * size, fields), conversions })
}

/// So many elements of the same type in a row.
fn repeated(element: StoredType, count: u64) -> Decoded<StoredType> {
    let size = element.datatype.size();
    let total = size.checked_mul(count).filter(|total| *total <= u32::MAX.into());
    if count == 0 || total.is_none() {
        return Err(format!("an array of {count} elements of {size} bytes"));
    }
    if element.conversions.len() as u64 * count > MOST_CONVERSIONS as u64 {
        let what = format!("an array of {count} converted elements");
        return Ok(StoredType::other(what, (size * count) as u32));
    }
    let conversions = (0..if element.conversions.is_empty() { 0 } else { count })
        .flat_map(|at| element.conversions.iter().map(move |conversion| conversion.shifted(at * size)))
        .collect();
    Ok(StoredType { datatype: Datatype::Array(Box::new(element.datatype), count), conversions })
}
