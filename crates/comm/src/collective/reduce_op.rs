//! Number types and the reduction operations on them.

use crate::matching::packet::Plain;
use crate::{Error, Kind, Result};

/// A reduction operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Op {
    /// The sum; integers wrap around.
    Sum = 1,
    /// The minimum; NaN only if all values are NaN.
    Min,
    /// The maximum; NaN only if all values are NaN.
    Max,
    /// Bitwise and, of integers.
    And,
    /// Bitwise or, of integers.
    Or,
}

/// An integer or float type for reductions such as [`Comm::allreduce`](crate::Comm::allreduce).
pub trait Number: Plain + sealed::Sealed {
    /// A code of the type, compared between ranks.
    #[doc(hidden)]
    const CODE: u32;

    /// True if the type supports the operation.
    #[doc(hidden)]
    fn supports(op: Op) -> bool;

    /// `into[i] = into[i] op with[i]`.
    #[doc(hidden)]
    fn fold(op: Op, into: &mut [Self], with: &[Self]);
}

mod sealed {
    pub trait Sealed {}
}

fn each<T: Copy>(into: &mut [T], with: &[T], combine: impl Fn(T, T) -> T) {
    for (into, with) in into.iter_mut().zip(with) {
        *into = combine(*into, *with);
    }
}

macro_rules! integers {
    ($($type:ty = $code:literal),*) => {$(
        impl sealed::Sealed for $type {}
        impl Number for $type {
            const CODE: u32 = $code;

            fn supports(_op: Op) -> bool {
                true
            }

            fn fold(op: Op, into: &mut [Self], with: &[Self]) {
                match op {
                    Op::Sum => each(into, with, Self::wrapping_add),
                    Op::Min => each(into, with, Ord::min),
                    Op::Max => each(into, with, Ord::max),
                    Op::And => each(into, with, |a, b| a & b),
                    Op::Or => each(into, with, |a, b| a | b),
                }
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty = $code:literal),*) => {$(
        impl sealed::Sealed for $type {}
        impl Number for $type {
            const CODE: u32 = $code;

            fn supports(op: Op) -> bool {
                matches!(op, Op::Sum | Op::Min | Op::Max)
            }

            fn fold(op: Op, into: &mut [Self], with: &[Self]) {
                match op {
                    Op::Min => each(into, with, Self::min),
                    Op::Max => each(into, with, Self::max),
                    // Bitwise operations are rejected before any rank reduces.
                    Op::Sum | Op::And | Op::Or => each(into, with, |a, b| a + b),
                }
            }
        }
    )*};
}

integers!(u8 = 1, u16 = 2, u32 = 3, u64 = 4, usize = 5, i8 = 6, i16 = 7, i32 = 8, i64 = 9, isize = 10);
integers!(u128 = 11, i128 = 12);
floats!(f32 = 13, f64 = 14);

/// Fails if the type does not support the operation.
pub(crate) fn check<T: Number>(op: Op, call: &'static str) -> Result<()> {
    if T::supports(op) {
        return Ok(());
    }
    let name = std::any::type_name::<T>();
    Err(Error::new(
        Kind::InvalidArgument,
        call,
        format!("{name} has no bitwise {op:?}; reduce its bits as an integer"),
    ))
}
