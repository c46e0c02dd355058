//! Conversion of floating-point values while they are packed.

use crate::value::ValueKind;

/// From `f32` to `f64`, or from `f64` to `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatConversion {
    Widen,
    Narrow,
}

impl FloatConversion {
    /// The conversion between these kinds; none if they are equal, or not both floating-point numbers.
    pub(crate) fn between(from: ValueKind, to: ValueKind) -> Option<Self> {
        match (from, to) {
            (ValueKind::F32, ValueKind::F64) => Some(Self::Widen),
            (ValueKind::F64, ValueKind::F32) => Some(Self::Narrow),
            _ => None,
        }
    }

    /// Bytes of a value before and after.
    pub(crate) fn widths(self) -> (u64, u64) {
        match self {
            Self::Widen => (4, 8),
            Self::Narrow => (8, 4),
        }
    }

    /// Converts values, which need not be aligned; `to` has as many as `from`.
    pub(crate) fn convert(self, from: &[u8], to: &mut [u8]) {
        match self {
            Self::Widen => {
                for (from, to) in from.as_chunks::<4>().0.iter().zip(to.as_chunks_mut::<8>().0) {
                    *to = f64::from(f32::from_le_bytes(*from)).to_le_bytes();
                }
            }
            Self::Narrow => {
                for (from, to) in from.as_chunks::<8>().0.iter().zip(to.as_chunks_mut::<4>().0) {
                    *to = (f64::from_le_bytes(*from) as f32).to_le_bytes();
                }
            }
        }
    }
}
