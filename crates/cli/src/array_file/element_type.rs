//! Element types of arrays: numbers, and records of numbers.

use aqueduct::object::schema::Type;

/// Evaluates an expression with the number of a given type at the start of some bytes.
macro_rules! by_number {
    ($kind:expr, $bytes:expr, |$number:ident| $made:expr) => {
        by_number!(@$kind, $bytes, $number, $made,
            I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64, Char u8)
    };
    (@$kind:expr, $bytes:expr, $number:ident, $made:expr, $($name:ident $type:ty),*) => {
        match $kind {$(
            NumberType::$name => {
                let mut own = [0; size_of::<$type>()];
                own.copy_from_slice(&$bytes[..size_of::<$type>()]);
                let $number = <$type>::from_le_bytes(own);
                $made
            }
        )*}
    };
}

/// The value of a number: the nearest `f64` and the remainder, so that integers of all sizes are exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NumberValue {
    pub(crate) nearest: f64,
    pub(crate) rest: f64,
}

impl NumberValue {
    fn whole(number: i128) -> Self {
        let nearest = number as f64;
        Self { nearest, rest: (number - nearest as i128) as f64 }
    }

    /// The difference of two values: 0 for equal values, also NaN and infinities; infinite if only one of them is NaN.
    pub(crate) fn distance(self, other: Self) -> f64 {
        let far = ((self.nearest - other.nearest) + (self.rest - other.rest)).abs();
        let same = self.nearest.total_cmp(&other.nearest).is_eq() && self.rest.total_cmp(&other.rest).is_eq();
        if same || (self.nearest.is_nan() && other.nearest.is_nan()) {
            0.0
        } else if far.is_nan() {
            f64::INFINITY
        } else {
            far
        }
    }
}

impl From<f64> for NumberValue {
    fn from(nearest: f64) -> Self {
        Self { nearest, rest: 0.0 }
    }
}

/// A number type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[allow(missing_docs, reason = "named as in Rust")]
pub(crate) enum NumberType {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    /// A character of text, one byte.
    #[value(skip)]
    Char,
}

impl NumberType {
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::I8 | Self::U8 | Self::Char => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// The number at the start of the bytes as text.
    pub(crate) fn text(self, bytes: &[u8]) -> String {
        by_number!(self, bytes, |number| number.to_string())
    }

    /// The number at the start of the bytes as a value.
    #[allow(clippy::cast_lossless, reason = "one expression for all types")]
    fn value(self, bytes: &[u8]) -> NumberValue {
        match self {
            Self::I64 | Self::U64 => by_number!(self, bytes, |number| NumberValue::whole(number as i128)),
            _ => by_number!(self, bytes, |number| NumberValue::from(number as f64)),
        }
    }
}

/// An element with more numbers is treated as bytes, since a damaged file may claim any number.
const MOST_PARTS: usize = 1 << 16;

/// An element type: its size, and the numbers in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ElementType {
    /// Its name in the output.
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Offset, name (empty for a plain number) and type of each number. `None` if the element has other fields.
    pub(crate) parts: Option<Vec<(u64, String, NumberType)>>,
    /// The HDF5 datatype, if it says more than the numbers.
    #[cfg(feature = "hdf5")]
    pub(crate) datatype: Option<aqueduct::hdf5::Datatype>,
}

impl ElementType {
    pub(crate) fn number(number: NumberType) -> Self {
        let name = format!("{number:?}").to_lowercase();
        Self::new(name, number.size(), Some(vec![(0, String::new(), number)]))
    }

    /// An element of this size with these numbers.
    pub(crate) fn new(name: String, size: u64, parts: Option<Vec<(u64, String, NumberType)>>) -> Self {
        Self {
            name,
            size,
            parts,
            #[cfg(feature = "hdf5")]
            datatype: None,
        }
    }

    /// Bytes without known structure.
    pub(crate) fn bytes(name: String, size: u64) -> Self {
        Self::new(name, size, None)
    }

    /// A record of adjacent fields.
    pub(crate) fn record(name: &str, fields: &[(&str, NumberType, u64)]) -> Self {
        let (mut at, mut parts) = (0, Vec::new());
        for (field, number, count) in fields {
            for index in 0..*count {
                let name = if *count == 1 { (*field).to_owned() } else { format!("{field}[{index}]") };
                parts.push((at, name, *number));
                at += number.size();
            }
        }
        Self::new(name.to_owned(), at, Some(parts))
    }

    /// How many numbers of two elements differ.
    pub(crate) fn differences(&self, one: &[u8], other: &[u8]) -> usize {
        let (Some(one), Some(other)) = (self.numbers(one), self.numbers(other)) else {
            return usize::from(one != other);
        };
        one.iter().zip(&other).filter(|(one, other)| one.distance(**other) > 0.0).count()
    }

    /// The number type, if the element is a plain number.
    pub(crate) fn as_number(&self) -> Option<NumberType> {
        match self.parts.as_deref() {
            Some([(0, name, number)]) if name.is_empty() => Some(*number),
            _ => None,
        }
    }

    /// The element of objects in their encoded form.
    pub(crate) fn of_schema(name: String, ty: &Type) -> Self {
        let mut parts = Vec::new();
        let known = collect(ty, 0, "", &mut parts).is_some();
        Self::new(name, ty.size().unwrap_or(0), known.then_some(parts))
    }

    /// The value of each number; `None` if the element has other fields.
    pub(crate) fn numbers(&self, bytes: &[u8]) -> Option<Vec<NumberValue>> {
        let parts = self.parts.as_ref()?;
        let whole = bytes.chunks_exact(self.size.max(1) as usize);
        Some(
            whole
                .flat_map(|one| parts.iter().map(|(at, _, number)| number.value(&one[*at as usize..])))
                .collect(),
        )
    }

    /// Swaps the bytes of each number.
    pub(crate) fn swap(&self, bytes: &mut [u8]) {
        for one in bytes.chunks_exact_mut(self.size.max(1) as usize) {
            for (at, _, number) in self.parts.iter().flatten() {
                one[*at as usize..(*at + number.size()) as usize].reverse();
            }
        }
    }
}

/// Adds a number; `None` if there are too many.
pub(super) fn push(
    parts: &mut Vec<(u64, String, NumberType)>,
    part: (u64, String, NumberType),
) -> Option<()> {
    (parts.len() < MOST_PARTS).then(|| parts.push(part))
}

/// The numbers of a type and its end; `None` if it has other fields.
fn collect(ty: &Type, at: u64, name: &str, parts: &mut Vec<(u64, String, NumberType)>) -> Option<u64> {
    let inner = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    let number = match ty {
        Type::Bool | Type::U8 => NumberType::U8,
        Type::U16 => NumberType::U16,
        Type::U32 | Type::Char => NumberType::U32,
        Type::Enum(_) if ty.size().is_some() => NumberType::U32,
        Type::U64 => NumberType::U64,
        Type::I8 => NumberType::I8,
        Type::I16 => NumberType::I16,
        Type::I32 => NumberType::I32,
        Type::I64 => NumberType::I64,
        Type::F32 => NumberType::F32,
        Type::F64 => NumberType::F64,
        Type::Array { of, .. } if of.size() == Some(0) => return Some(at),
        Type::Array { of, len } => {
            return (0..*len).try_fold(at, |at, index| collect(of, at, &format!("{name}[{index}]"), parts));
        }
        Type::Tuple(of) => {
            return of
                .iter()
                .enumerate()
                .try_fold(at, |at, (index, ty)| collect(ty, at, &inner(&index.to_string()), parts));
        }
        Type::Struct(of) => {
            return of
                .fields
                .iter()
                .try_fold(at, |at, field| collect(&field.ty, at, &inner(&field.name), parts));
        }
        _ => return None,
    };
    push(parts, (at, name.to_owned(), number))?;
    Some(at + number.size())
}
