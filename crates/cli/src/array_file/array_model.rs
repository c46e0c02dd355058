//! The contents of a file of any format: arrays with named dimensions and typed attributes.

use std::ops::Range;

use aqueduct::formats::Hyperslab;

use super::{ElementType, NumberType};

/// The size in bytes of a part that is processed at once.
const PORTION: u64 = 4 << 20;
/// The largest part, if it holds whole chunks.
const LARGEST_PORTION: u64 = 32 << 20;
/// The number of variable-size elements that are read at once.
const ELEMENTS_AT_ONCE: u64 = 1024;

/// A named dimension that arrays share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedDimension {
    pub(crate) name: String,
    pub(crate) length: u64,
    /// Whether it grows with the file.
    pub(crate) grows: bool,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(not(feature = "hdf5"), allow(dead_code, reason = "lists of texts and references come from HDF5"))]
pub(crate) enum AttributeValue {
    Text(String),
    Texts(Vec<String>),
    /// Numbers of this type and shape (`None` for a scalar), little-endian.
    Numbers(NumberType, Vec<u64>, Vec<u8>),
    /// Values of types that only HDF5 has: fixed-length strings, records, enumerations.
    #[cfg(feature = "hdf5")]
    Hdf5(aqueduct::hdf5::Hdf5Attribute),
    /// Values that cannot be copied, such as references, as a description.
    Foreign(String),
}

/// An attribute of a file, a group or an array.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedAttribute {
    pub(crate) name: String,
    pub(crate) value: AttributeValue,
}

impl NamedAttribute {
    pub(crate) fn new(name: impl Into<String>, value: AttributeValue) -> Self {
        Self { name: name.into(), value }
    }
}

impl AttributeValue {
    /// The value in a form that does not depend on the format: a list of one number is that number, a fixed-length string is text.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let count = |shape: &[u64]| shape.iter().product::<u64>();
        match (self.plain(), other.plain()) {
            (Self::Numbers(kind, shape, bytes), Self::Numbers(other_kind, other_shape, other_bytes)) => {
                let same_shape = shape == other_shape || (count(&shape) == 1 && count(&other_shape) == 1);
                kind == other_kind && same_shape && same_numbers(kind, &bytes, &other_bytes)
            }
            (one, other) => one == other,
        }
    }

    #[cfg(feature = "hdf5")]
    fn plain(&self) -> Self {
        match self {
            Self::Hdf5(aqueduct::hdf5::Hdf5Attribute::FixedText(text)) => {
                Self::Text(text.clone()).plain_text()
            }
            other => other.plain_text(),
        }
    }

    #[cfg(not(feature = "hdf5"))]
    fn plain(&self) -> Self {
        self.plain_text()
    }

    /// Removes zeros at the end, which some writers leave.
    fn plain_text(&self) -> Self {
        match self {
            Self::Text(text) => Self::Text(text.trim_end_matches('\0').to_owned()),
            other => other.clone(),
        }
    }
}

/// NaN equals NaN with any bits.
fn same_numbers(kind: NumberType, one: &[u8], other: &[u8]) -> bool {
    let element = ElementType::number(kind);
    one == other || (one.len() == other.len() && element.differences(one, other) == 0)
}

impl std::fmt::Display for AttributeValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text.trim_end_matches('\0')),
            Self::Texts(texts) => f.write_str(&texts.join(", ")),
            Self::Numbers(number, _, bytes) => {
                let numbers: Vec<String> =
                    bytes.chunks_exact(number.size() as usize).map(|bytes| number.text(bytes)).collect();
                f.write_str(&numbers.join(" "))
            }
            #[cfg(feature = "hdf5")]
            Self::Hdf5(value) => match value {
                aqueduct::hdf5::Hdf5Attribute::FixedText(text) => f.write_str(text),
                aqueduct::hdf5::Hdf5Attribute::Values(ty, ..) => match value.numbers() {
                    Some(numbers) => {
                        f.write_str(&numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
                    }
                    None => write!(f, "({ty})"),
                },
                other => write!(f, "({other:?})"),
            },
            Self::Foreign(what) => write!(f, "({what})"),
        }
    }
}

/// An array of a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    /// Its path: `/group/name` in HDF5, else a name.
    pub(crate) name: String,
    pub(crate) element: ElementType,
    pub(crate) shape: Vec<u64>,
    /// The name of each dimension; empty if the file has no names.
    pub(crate) dimensions: Vec<String>,
    /// Whether its first dimension grows with the file (steps).
    pub(crate) grows: bool,
    /// The number of complete rows, if the file has this information.
    pub(crate) complete: Option<u64>,
    pub(crate) attributes: Vec<NamedAttribute>,
    /// How an HDF5 file stores it.
    #[cfg(feature = "hdf5")]
    pub(crate) storage: Option<aqueduct::hdf5::Hdf5DatasetOptions>,
}

/// A part of an array that is one contiguous run of its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArrayPart {
    pub(crate) slab: Hyperslab,
    /// The index of its first element in the array, and the number of its elements.
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl ArrayPart {
    /// The range of its elements in the array.
    pub(crate) fn elements(&self) -> Range<u64> {
        self.first..self.first.saturating_add(self.count)
    }
}

impl Array {
    /// An array without names, attributes and steps.
    pub(crate) fn new(name: impl Into<String>, element: ElementType, shape: Vec<u64>) -> Self {
        Self {
            name: name.into(),
            element,
            shape,
            dimensions: Vec::new(),
            grows: false,
            complete: None,
            attributes: Vec::new(),
            #[cfg(feature = "hdf5")]
            storage: None,
        }
    }

    /// The bytes of the attribute `_FillValue`, if it is a number of the array's type.
    pub(crate) fn fill_value(&self) -> Option<&[u8]> {
        let attribute = self.attributes.iter().find(|attribute| attribute.name == "_FillValue")?;
        match &attribute.value {
            AttributeValue::Numbers(kind, _, bytes) if self.element.as_number() == Some(*kind) => {
                bytes.get(..kind.size() as usize)
            }
            _ => None,
        }
    }

    /// The number of rows: the length of its first dimension, 1 for a scalar.
    pub(crate) fn rows(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// The number of elements in a row.
    pub(crate) fn row_elements(&self) -> u64 {
        self.shape.iter().skip(1).fold(1, |all, length| all.saturating_mul(*length))
    }

    /// The size of a row in bytes.
    pub(crate) fn row(&self) -> u64 {
        self.row_elements().saturating_mul(self.element.size)
    }

    /// Whether its first dimension counts steps.
    pub(crate) fn has_steps(&self) -> bool {
        self.shape.len() > 1 || self.grows
    }

    /// Some rows in parts of limited size, in the order of their elements.
    pub(crate) fn parts_of_rows(&self, rows: Range<u64>) -> impl Iterator<Item = ArrayPart> + use<> {
        let mut some = self.clone();
        let count = rows.end.saturating_sub(rows.start);
        if let Some(length) = some.shape.first_mut() {
            *length = count;
        }
        let before = rows.start.saturating_mul(self.row_elements());
        let parts = some.parts().take(if count == 0 { 0 } else { usize::MAX });
        parts.map(move |mut part| {
            if let Some(start) = part.slab.start.first_mut() {
                *start += rows.start;
            }
            part.first = part.first.saturating_add(before);
            part
        })
    }

    /// The last element as a part; none of an empty array.
    pub(crate) fn last_element(&self) -> Option<ArrayPart> {
        let all = self.shape.iter().try_fold(1u64, |all, length| all.checked_mul(*length))?;
        let start = self.shape.iter().map(|length| length.checked_sub(1)).collect::<Option<Vec<u64>>>()?;
        let slab = Hyperslab { count: vec![1; start.len()], start };
        Some(ArrayPart { slab, first: all.checked_sub(1)?, count: 1 })
    }

    /// The whole array in parts of limited size, in the order of its elements. A part is some whole rows, or a part of one row.
    pub(crate) fn parts(&self) -> impl Iterator<Item = ArrayPart> + use<> {
        self.parts_at(self.cut(PORTION))
    }

    /// Like [`parts`](Self::parts), each of whole chunks of this shape, which [`suitable_chunk`](Self::suitable_chunk) returned.
    pub(crate) fn parts_of_chunks(&self, chunk: &[u64]) -> impl Iterator<Item = ArrayPart> + use<> {
        let (cut, step) = self.cut(self.portion_for(chunk));
        let length = chunk.get(cut).copied().unwrap_or(1).max(1);
        self.parts_at((cut, if step < length { step } else { step / length * length }))
    }

    /// The chunk closest to `chunk` of which parts of limited size can have whole ones.
    pub(crate) fn suitable_chunk(&self, chunk: &[u64]) -> Vec<u64> {
        let (cut, step) = self.cut(self.portion_for(chunk));
        let length = |(at, length): (usize, &u64)| match at.cmp(&cut) {
            std::cmp::Ordering::Less => 1,
            std::cmp::Ordering::Equal => (*length).min(step),
            std::cmp::Ordering::Greater => *length,
        };
        chunk.iter().enumerate().map(length).collect()
    }

    /// The size of parts of an array that has these chunks.
    fn portion_for(&self, chunk: &[u64]) -> u64 {
        let rows = chunk.first().copied().unwrap_or(1);
        rows.saturating_mul(self.row()).clamp(PORTION, LARGEST_PORTION)
    }

    /// The first dimension of which one index fits into a part of so many bytes, and how many of its indexes do.
    fn cut(&self, portion: u64) -> (usize, u64) {
        let shape = &self.shape;
        let inner = |from: usize| shape[from..].iter().fold(1u64, |all, length| all.saturating_mul(*length));
        let most = portion.checked_div(self.element.size).map_or(ELEMENTS_AT_ONCE, |most| most.max(1));
        let cut = (0..shape.len()).find(|at| inner(at + 1) <= most).unwrap_or(0);
        (cut, (most / inner((cut + 1).min(shape.len())).max(1)).max(1))
    }

    /// Parts of `step` indexes of the dimension `cut`.
    fn parts_at(&self, (cut, step): (usize, u64)) -> impl Iterator<Item = ArrayPart> + use<> {
        let shape = self.shape.clone();
        let inner = |from: usize| shape[from..].iter().fold(1u64, |all, length| all.saturating_mul(*length));
        // Rows without elements have no data, whatever their number.
        let empty = shape.contains(&0);
        let length = shape.get(cut).copied().unwrap_or(1);
        let outer = shape.iter().take(cut).fold(1u64, |all, length| all.saturating_mul(*length));
        let outer = if empty { 0 } else { outer };
        let each = inner((cut + 1).min(shape.len()));
        let part = move |outer: u64, from: u64| {
            let until = from.saturating_add(step).min(length);
            let mut slab = Hyperslab::whole(&shape[..]);
            let mut rest = outer;
            for at in (0..cut).rev() {
                (slab.start[at], slab.count[at]) = (rest % shape[at], 1);
                rest /= shape[at];
            }
            if cut < shape.len() {
                (slab.start[cut], slab.count[cut]) = (from, until - from);
            }
            let first = outer.saturating_mul(length).saturating_add(from).saturating_mul(each);
            ArrayPart { slab, first, count: (until - from).saturating_mul(each) }
        };
        let pieces = length.div_ceil(step);
        (0..outer).flat_map(move |outer| {
            let part = part.clone();
            (0..pieces).map(move |piece| part(outer, piece * step))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[u64], number: NumberType) -> Array {
        Array::new("a", ElementType::number(number), shape.to_vec())
    }

    #[test]
    fn parts_are_bounded_and_cover_every_element_once() {
        let million = 1 << 20;
        for shape in [
            &[][..],
            &[7],
            &[3, 5],
            &[3 * million],
            &[2, 3 * million],
            &[3, 2, million + 1, 2],
            &[5, 1, 700, 900],
            &[0, 4],
            &[4, 0],
        ] {
            let array = array(shape, NumberType::F64);
            let mut next = 0;
            for part in array.parts() {
                assert_eq!(part.first, next, "{shape:?}");
                assert!(part.count * 8 <= PORTION, "{shape:?}: {part:?}");
                assert_eq!(part.slab.volume(), Some(part.count), "{shape:?}: {part:?}");
                let row = array.row_elements().max(1);
                assert!(
                    part.first % row == 0 && part.count % row == 0
                        || part.first / row == (part.first + part.count - 1) / row,
                    "{shape:?}: {part:?} must be whole rows or a part of one row"
                );
                next += part.count;
            }
            assert_eq!(next, shape.iter().product::<u64>(), "{shape:?}");
        }
    }

    #[test]
    fn parts_have_whole_chunks() {
        for (shape, chunk) in [
            (&[3000u64, 700][..], &[64u64, 100][..]),
            (&[40, 700, 900], &[10, 64, 64]),
            (&[5, 3 << 20], &[5, 1 << 20]),
            (&[1 << 23], &[1000]),
            (&[7, 9, 1 << 19], &[7, 9, 10]),
        ] {
            let array = array(shape, NumberType::F64);
            let chunk = array.suitable_chunk(chunk);
            let mut next = 0;
            for part in array.parts_of_chunks(&chunk) {
                assert_eq!(part.first, next, "{shape:?}");
                assert!(part.count * 8 <= LARGEST_PORTION, "{shape:?}: {part:?}");
                for (at, length) in chunk.iter().enumerate() {
                    let end = part.slab.start[at] + part.slab.count[at];
                    assert_eq!(part.slab.start[at] % length, 0, "{shape:?} {chunk:?}: {part:?}");
                    assert!(end % length == 0 || end == shape[at], "{shape:?} {chunk:?}: {part:?}");
                }
                next += part.count;
            }
            assert_eq!(next, shape.iter().product::<u64>(), "{shape:?}");
        }
    }

    #[test]
    fn some_rows_are_covered_once() {
        for shape in [&[7][..], &[5, 3], &[3, 3 << 20], &[4, 2, 700, 900]] {
            let array = array(shape, NumberType::F64);
            let mut next = array.row_elements();
            for part in array.parts_of_rows(1..3) {
                assert_eq!(part.first, next, "{shape:?}");
                let at = part.slab.start[0] * array.row_elements();
                assert!(at <= part.first && part.first < at + array.row_elements(), "{shape:?}: {part:?}");
                next += part.count;
            }
            assert_eq!(next, 3 * array.row_elements(), "{shape:?}");
            assert_eq!(array.parts_of_rows(2..2).count(), 0);
        }
        assert_eq!(array(&[], NumberType::F64).parts_of_rows(0..1).count(), 1);
        assert_eq!(array(&[], NumberType::F64).parts_of_rows(1..1).count(), 0);
    }

    #[test]
    fn overflowing_lengths_do_not_panic() {
        for shape in [&[1 << 63, 1 << 63][..], &[u64::MAX], &[1 << 62, 0, u64::MAX]] {
            let _ = array(shape, NumberType::F64).parts().next();
        }
    }

    #[test]
    fn a_number_equals_a_list_of_it_and_nan_equals_nan() {
        let numbers = |shape: &[u64], values: &[f64]| {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            AttributeValue::Numbers(NumberType::F64, shape.to_vec(), bytes)
        };
        assert!(numbers(&[], &[1.0]).is_same(&numbers(&[1], &[1.0])));
        assert!(numbers(&[], &[f64::NAN]).is_same(&numbers(&[], &[-f64::NAN])));
        assert!(!numbers(&[], &[1.0]).is_same(&numbers(&[], &[2.0])));
        assert!(!numbers(&[], &[1.0]).is_same(&AttributeValue::Text("1".into())));
    }
}
