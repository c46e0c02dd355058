//! Values of a program on their way to and from the bytes of a file, which are big-endian.

use std::ops::Range;

use bytemuck::Pod;

use super::byteswap;
use super::nc_type::NcType;

/// A number that variables hold: `i8` to `u64`, `f32`, `f64`.
#[diagnostic::on_unimplemented(
    message = "netCDF has no type for `{Self}`",
    note = "store complex numbers as a variable with a last dimension of 2, f16 as f32, bool as i8"
)]
pub trait NetcdfValue: Pod + PartialEq + std::fmt::Debug + Send + Sync + sealed::SealedNetcdfValue {
    /// The types that are stored from it and read into it, the usual one first.
    const TYPES: &'static [NcType];

    /// Swaps its bytes between the order of the machine and that of files.
    #[doc(hidden)]
    #[must_use]
    fn swapped(self) -> Self;

    /// Wraps values for an attribute.
    #[doc(hidden)]
    fn wrap(values: Vec<Self>) -> Values;
}

mod sealed {
    pub trait SealedNetcdfValue {}
}

macro_rules! values {
    ($($type:ty: $variant:ident = $($kind:ident)|+;)*) => {
        $(impl sealed::SealedNetcdfValue for $type {}
        impl NetcdfValue for $type {
            const TYPES: &'static [NcType] = &[$(NcType::$kind),+];

            fn swapped(self) -> Self {
                Self::from_ne_bytes(self.to_be_bytes())
            }

            fn wrap(values: Vec<Self>) -> Values {
                Values::$variant(values)
            }
        })*
    };
}

values! {
    i8: Byte = Byte;
    u8: UByte = UByte | Char;
    i16: Short = Short;
    u16: UShort = UShort;
    i32: Int = Int;
    u32: UInt = UInt;
    i64: Int64 = Int64;
    u64: UInt64 = UInt64;
    f32: Float = Float;
    f64: Double = Double;
}

/// Values in memory: their bytes, and how many each has.
#[derive(Clone, Copy)]
pub(crate) struct RawValues<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl<'a, T: NetcdfValue> From<&'a [T]> for RawValues<'a> {
    fn from(values: &'a [T]) -> Self {
        Self { bytes: bytemuck::cast_slice(values), width: size_of::<T>() }
    }
}

impl<'a> RawValues<'a> {
    /// Values of `width` bytes each, in the byte order of the machine; they need not be aligned.
    pub(crate) fn of_width(bytes: &'a [u8], width: usize) -> Self {
        Self { bytes, width }
    }
}

impl RawValues<'_> {
    /// Writes some of the bytes that the values have in a file; `out` has exactly their size.
    pub(crate) fn store(self, bytes: Range<usize>, out: &mut [u8]) {
        let width = self.width;
        // Of values, whole ones.
        let (first, last) = (bytes.start.div_ceil(width), bytes.end / width);
        if first > last {
            return self.store_some(last, bytes.start % width, out);
        }
        let (head, rest) = out.split_at_mut(first * width - bytes.start);
        let (body, tail) = rest.split_at_mut((last - first) * width);
        self.store_some(first.saturating_sub(1), width - head.len(), head);
        byteswap::copy(width, &self.bytes[first * width..last * width], body);
        self.store_some(last, 0, tail);
    }

    /// Writes some of the bytes of one value.
    fn store_some(self, value: usize, from: usize, out: &mut [u8]) {
        if !out.is_empty() {
            let mut stored = [0; 8];
            let stored = &mut stored[..self.width];
            byteswap::copy(self.width, &self.bytes[value * self.width..][..self.width], stored);
            out.copy_from_slice(&stored[from..from + out.len()]);
        }
    }
}

/// Memory for values: their bytes, and how many each has.
pub(crate) struct RawValuesMut<'a> {
    bytes: &'a mut [u8],
    width: usize,
}

impl<'a, T: NetcdfValue> From<&'a mut [T]> for RawValuesMut<'a> {
    fn from(values: &'a mut [T]) -> Self {
        Self { bytes: bytemuck::cast_slice_mut(values), width: size_of::<T>() }
    }
}

impl<'a> RawValuesMut<'a> {
    /// As [`RawValues::of_width`].
    pub(crate) fn of_width(bytes: &'a mut [u8], width: usize) -> Self {
        Self { bytes, width }
    }
}

impl RawValuesMut<'_> {
    /// Reads the values that have these bytes in a file, whole ones.
    pub(crate) fn load(&mut self, bytes: Range<usize>, from: &[u8]) {
        byteswap::copy(self.width, from, &mut self.bytes[bytes]);
    }
}

/// Writes values as they lie in a file; `out` has exactly their size.
pub(crate) fn store<T: NetcdfValue>(values: &[T], out: &mut [u8]) {
    byteswap::copy(size_of::<T>(), bytemuck::cast_slice(values), out);
}

/// Reads values as they lie in a file; `bytes` has exactly their size.
pub(crate) fn load<T: NetcdfValue>(bytes: &[u8], values: &mut [T]) {
    byteswap::copy(size_of::<T>(), bytes, bytemuck::cast_slice_mut(values));
}

/// Brings values whose bytes were read as they lie in a file into the order of the machine.
pub(crate) fn swap_in_place<T: NetcdfValue>(values: &mut [T]) {
    if size_of::<T>() > 1 && cfg!(target_endian = "little") {
        values.iter_mut().for_each(|value| *value = value.swapped());
    }
}

/// The values of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "they are the types of the format")]
pub enum Values {
    Byte(Vec<i8>),
    /// Text, without an encoding of its own; today that is UTF-8.
    Char(Vec<u8>),
    Short(Vec<i16>),
    Int(Vec<i32>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    UByte(Vec<u8>),
    UShort(Vec<u16>),
    UInt(Vec<u32>),
    Int64(Vec<i64>),
    UInt64(Vec<u64>),
}

/// The same expression for the values of any type.
macro_rules! each {
    ($values:expr, $list:ident => $result:expr) => {
        match $values {
            Values::Byte($list) => $result,
            Values::Char($list) => $result,
            Values::Short($list) => $result,
            Values::Int($list) => $result,
            Values::Float($list) => $result,
            Values::Double($list) => $result,
            Values::UByte($list) => $result,
            Values::UShort($list) => $result,
            Values::UInt($list) => $result,
            Values::Int64($list) => $result,
            Values::UInt64($list) => $result,
        }
    };
}

impl Values {
    /// Their type.
    pub fn kind(&self) -> NcType {
        match self {
            Self::Byte(_) => NcType::Byte,
            Self::Char(_) => NcType::Char,
            Self::Short(_) => NcType::Short,
            Self::Int(_) => NcType::Int,
            Self::Float(_) => NcType::Float,
            Self::Double(_) => NcType::Double,
            Self::UByte(_) => NcType::UByte,
            Self::UShort(_) => NcType::UShort,
            Self::UInt(_) => NcType::UInt,
            Self::Int64(_) => NcType::Int64,
            Self::UInt64(_) => NcType::UInt64,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        each!(self, list => list.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As text, if it is that: `char`, in UTF-8; NULs at the end, which some writers leave, do not belong to it.
    pub fn text(&self) -> Option<&str> {
        let Self::Char(bytes) = self else { return None };
        std::str::from_utf8(bytes).ok().map(|text| text.trim_end_matches('\0'))
    }

    /// As numbers, the nearest `f64` of each; none for text.
    pub fn numbers(&self) -> Option<Vec<f64>> {
        Some(match self {
            Self::Char(_) => return None,
            Self::Byte(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::Short(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::Int(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::Float(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::Double(list) => list.clone(),
            Self::UByte(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::UShort(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::UInt(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::Int64(list) => list.iter().map(|value| *value as f64).collect(),
            Self::UInt64(list) => list.iter().map(|value| *value as f64).collect(),
        })
    }

    /// As they lie in a file, without padding.
    pub(crate) fn stored(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len() * self.kind().size() as usize];
        each!(self, list => store(list, &mut bytes));
        bytes
    }

    /// The values of this type that lie in `bytes`, a whole number of them.
    pub(crate) fn loaded(kind: NcType, bytes: &[u8]) -> Self {
        fn list<T: NetcdfValue>(bytes: &[u8]) -> Vec<T> {
            let mut values = vec![T::zeroed(); bytes.len() / size_of::<T>()];
            load(bytes, &mut values);
            values
        }
        match kind {
            NcType::Byte => Self::Byte(list(bytes)),
            NcType::Char => Self::Char(list(bytes)),
            NcType::Short => Self::Short(list(bytes)),
            NcType::Int => Self::Int(list(bytes)),
            NcType::Float => Self::Float(list(bytes)),
            NcType::Double => Self::Double(list(bytes)),
            NcType::UByte => Self::UByte(list(bytes)),
            NcType::UShort => Self::UShort(list(bytes)),
            NcType::UInt => Self::UInt(list(bytes)),
            NcType::Int64 => Self::Int64(list(bytes)),
            NcType::UInt64 => Self::UInt64(list(bytes)),
        }
    }
}

impl From<&str> for Values {
    fn from(text: &str) -> Self {
        Self::Char(text.as_bytes().to_vec())
    }
}

impl From<String> for Values {
    fn from(text: String) -> Self {
        Self::Char(text.into_bytes())
    }
}

impl<T: NetcdfValue> From<T> for Values {
    fn from(value: T) -> Self {
        T::wrap(vec![value])
    }
}

impl<T: NetcdfValue> From<&[T]> for Values {
    fn from(values: &[T]) -> Self {
        T::wrap(values.to_vec())
    }
}

impl<T: NetcdfValue, const N: usize> From<[T; N]> for Values {
    fn from(values: [T; N]) -> Self {
        T::wrap(values.to_vec())
    }
}

impl<T: NetcdfValue> From<Vec<T>> for Values {
    fn from(values: Vec<T>) -> Self {
        T::wrap(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_the_bytes_are_those_of_all() {
        let values: Vec<f64> = (0..5).map(|at| f64::from(at) * 1.7 + 0.3).collect();
        let mut all = vec![0; 40];
        store(&values, &mut all);
        for start in 0..=40 {
            for end in start..=40 {
                let mut some = vec![0; end - start];
                RawValues::from(&values[..]).store(start..end, &mut some);
                assert_eq!(some, all[start..end], "{start}..{end}");
            }
        }
    }
}
