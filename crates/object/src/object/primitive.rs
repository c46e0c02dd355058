//! Numbers, `bool`, `char`, `()`.
//!
//! `unsafe` here: implementations guarantee the contract of [`Object`] about trivial types.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::{Category, Object, SchemaBuilder};
use crate::codec::{DecodeError, Decoder, Encoder};
#[cfg(feature = "num-complex")]
use crate::schema::Field;
use crate::schema::Type;

macro_rules! numbers {
    ($($type:ty = $kind:ident),*) => {$(
        // SAFETY: numbers have no padding, and every bit pattern is a value.
        unsafe impl Object for $type {
            const CATEGORY: Category = Category::Trivial;
            const SIZE: Option<usize> = Some(size_of::<$type>());

            fn describe(_builder: &mut SchemaBuilder) -> Type {
                Type::$kind
            }

            #[inline]
            fn encoded_size(&self) -> usize {
                size_of::<$type>()
            }

            #[inline]
            fn encode(&self, out: &mut Encoder<'_>) {
                out.put(&self.to_le_bytes());
            }

            #[inline]
            fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                Ok(<$type>::from_le_bytes(input.take_array()?))
            }
        }
    )*};
}

numbers!(u8 = U8, u16 = U16, u32 = U32, u64 = U64, u128 = U128);
numbers!(i8 = I8, i16 = I16, i32 = I32, i64 = I64, i128 = I128, f32 = F32, f64 = F64);
#[cfg(feature = "half")]
numbers!(half::f16 = F16);

/// Stored as a structure of the fields `r` and `i`: the compound type that h5py reads and writes as complex numbers.
#[cfg(feature = "num-complex")]
macro_rules! complex_numbers {
    ($($part:ty),*) => {$(
        // SAFETY: two numbers in this order without padding (`repr(C)`), of which every bit pattern is a value.
        unsafe impl Object for num_complex::Complex<$part> {
            const CATEGORY: Category = Category::Trivial;
            const SIZE: Option<usize> = Some(2 * size_of::<$part>());

            fn describe(builder: &mut SchemaBuilder) -> Type {
                let part = |builder: &mut SchemaBuilder, name| Field::new(name, builder.describe::<$part>());
                builder.structure::<Self>("Complex", |builder| vec![part(builder, "r"), part(builder, "i")], &[])
            }

            #[inline]
            fn encoded_size(&self) -> usize {
                2 * size_of::<$part>()
            }

            #[inline]
            fn encode(&self, out: &mut Encoder<'_>) {
                self.re.encode(out);
                self.im.encode(out);
            }

            #[inline]
            fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                Ok(Self { re: Object::decode(input)?, im: Object::decode(input)? })
            }
        }
    )*};
}

#[cfg(feature = "num-complex")]
complex_numbers!(f32, f64);

/// Types that are stored as another type, not all of whose values are valid.
macro_rules! converted {
    ($($type:ty as $stored:ty, $category:expr, $describe:expr, $encode:expr, $decode:expr, $refused:expr);*) => {$(
        // SAFETY: trivial only if the bytes in memory are the stored ones.
        unsafe impl Object for $type {
            const CATEGORY: Category = $category;
            const SIZE: Option<usize> = Some(size_of::<$stored>());

            fn describe(_builder: &mut SchemaBuilder) -> Type {
                $describe
            }

            #[inline]
            fn encoded_size(&self) -> usize {
                size_of::<$stored>()
            }

            #[inline]
            fn encode(&self, out: &mut Encoder<'_>) {
                let stored: $stored = $encode(*self);
                stored.encode(out);
            }

            #[inline]
            fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                let start = input.position();
                let stored = <$stored as Object>::decode(input)?;
                let refused = || DecodeError::new(format!("{stored} is {}", $refused), start);
                $decode(stored).ok_or_else(refused)
            }
        }
    )*};
}

/// The category of `usize`, which is stored in 64 bits.
const WIDE: Category = if size_of::<usize>() == 8 { Category::Trivial } else { Category::Constant };

converted! {
    usize as u64, WIDE, Type::U64, |value| value as u64, |stored| usize::try_from(stored).ok(), "too large for this machine's usize";
    isize as i64, WIDE, Type::I64, |value| value as i64, |stored| isize::try_from(stored).ok(), "too large for this machine's isize";
    bool as u8, Category::Constant, Type::Bool, u8::from,
        |stored| match stored { 0 => Some(false), 1 => Some(true), _ => None }, "not a bool (0 or 1)";
    char as u32, Category::Constant, Type::Char, u32::from, char::from_u32, "not a Unicode character"
}

macro_rules! empty {
    ([$($generic:ident)?] $type:ty = $value:expr) => {
        // SAFETY: it has no bytes.
        unsafe impl<$($generic: ?Sized + 'static)?> Object for $type {
            const CATEGORY: Category = Category::Trivial;
            const SIZE: Option<usize> = Some(0);

            fn describe(_builder: &mut SchemaBuilder) -> Type {
                Type::Unit
            }

            fn encoded_size(&self) -> usize {
                0
            }

            fn encode(&self, _out: &mut Encoder<'_>) {}

            fn decode(_input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                Ok($value)
            }
        }
    };
}

empty!([]() = ());
empty!([T] PhantomData<T> = PhantomData);
