//! Kinds of values in streams.

use aqueduct_comm::Plain;
use serde::{Deserialize, Serialize};

/// A kind of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "they are the language's own names")]
pub enum ValueKind {
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
    /// IEEE 754 binary16.
    F16,
    /// One byte, 0 or 1.
    Bool,
    /// Two `f32`: the real and the imaginary part.
    Complex64,
    /// Two `f64`: the real and the imaginary part.
    Complex128,
}

impl ValueKind {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F32,
        Self::F64,
        Self::F16,
        Self::Bool,
        Self::Complex64,
        Self::Complex128,
    ];

    /// Whether values are complex numbers.
    pub fn is_complex(self) -> bool {
        matches!(self, Self::Complex64 | Self::Complex128)
    }

    /// Bytes of a value.
    pub fn width(self) -> u64 {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::Complex64 => 8,
            Self::Complex128 => 16,
        }
    }
}

/// A number that streams can store.
#[diagnostic::on_unimplemented(
    message = "streams have no kind for arrays of `{Self}`",
    note = "streams of complex numbers, f16 and bool are added by `Streams::add_kind` and put as bytes; others are streams of objects"
)]
pub trait StreamValue: Plain + sealed::SealedStreamValue {
    /// The kind of this type.
    const KIND: ValueKind;

    #[doc(hidden)]
    fn widened(self) -> f64;
    #[doc(hidden)]
    #[must_use]
    fn greater(self, other: Self) -> Self;
    #[doc(hidden)]
    #[must_use]
    fn lesser(self, other: Self) -> Self;
}

mod sealed {
    pub trait SealedStreamValue {}
}

macro_rules! values {
    ($max:path, $min:path; $($type:ty = $kind:ident),*) => {$(
        impl sealed::SealedStreamValue for $type {}
        impl StreamValue for $type {
            const KIND: ValueKind = ValueKind::$kind;

            #[allow(clippy::cast_lossless, reason = "one line for all kinds")]
            fn widened(self) -> f64 {
                self as f64
            }

            fn greater(self, other: Self) -> Self {
                $max(self, other)
            }

            fn lesser(self, other: Self) -> Self {
                $min(self, other)
            }
        }
    )*};
}

values!(Ord::max, Ord::min; i8 = I8, i16 = I16, i32 = I32, i64 = I64, u8 = U8, u16 = U16, u32 = U32, u64 = U64);
values!(f32::max, f32::min; f32 = F32);
values!(f64::max, f64::min; f64 = F64);

/// Calls a generic function for the type of a kind: that of the parts of a complex number, unsigned integers for `F16` and
/// `Bool`.
macro_rules! by_kind {
    ($kind:expr, $function:ident($($argument:expr),*)) => {
        match $kind {
            $crate::value::ValueKind::I8 => $function::<i8>($($argument),*),
            $crate::value::ValueKind::I16 => $function::<i16>($($argument),*),
            $crate::value::ValueKind::I32 => $function::<i32>($($argument),*),
            $crate::value::ValueKind::I64 => $function::<i64>($($argument),*),
            $crate::value::ValueKind::U8 | $crate::value::ValueKind::Bool => $function::<u8>($($argument),*),
            $crate::value::ValueKind::U16 | $crate::value::ValueKind::F16 => $function::<u16>($($argument),*),
            $crate::value::ValueKind::U32 => $function::<u32>($($argument),*),
            $crate::value::ValueKind::U64 => $function::<u64>($($argument),*),
            $crate::value::ValueKind::F32 | $crate::value::ValueKind::Complex64 => {
                $function::<f32>($($argument),*)
            }
            $crate::value::ValueKind::F64 | $crate::value::ValueKind::Complex128 => {
                $function::<f64>($($argument),*)
            }
        }
    };
}

pub(crate) use by_kind;

#[cfg(test)]
mod tests {
    use super::*;

    fn width_of<T: StreamValue>() -> (ValueKind, u64) {
        (T::KIND, size_of::<T>() as u64)
    }

    #[test]
    fn kinds_widths_and_types_agree() {
        use ValueKind::*;
        for kind in [I8, I16, I32, I64, U8, U16, U32, U64, F32, F64] {
            assert_eq!(by_kind!(kind, width_of()), (kind, kind.width()));
        }
        for kind in ValueKind::ALL {
            let (_, part) = by_kind!(kind, width_of());
            assert_eq!(kind.width(), if kind.is_complex() { 2 * part } else { part }, "{kind:?}");
        }
        assert!(!f64::NAN.greater(1.0).is_nan() && !2.0f64.lesser(f64::NAN).is_nan());
    }
}
