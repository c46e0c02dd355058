//! Arrays, tuples, options, and pointers, which are stored as their values.
//!
//! `unsafe` here: implementations guarantee the contract of [`Object`] about trivial types.
#![allow(unsafe_code)]

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::category::{Category, fold};
use super::{Object, SchemaBuilder, cast};
use crate::codec::{DecodeError, Decoder, Encoder};
use crate::schema::{Field, Type};

// SAFETY: elements of an array have no padding between them.
unsafe impl<T: Object, const N: usize> Object for [T; N] {
    const CATEGORY: Category = match T::CATEGORY {
        // Without elements the size is constant.
        Category::Variable if N == 0 => Category::Constant,
        category => category,
    };
    const SIZE: Option<usize> = match T::SIZE {
        Some(size) => Some(size * N),
        None if N == 0 => Some(0),
        None => None,
    };

    fn describe(builder: &mut SchemaBuilder) -> Type {
        Type::Array { of: Box::new(builder.describe::<T>()), len: N as u64 }
    }

    #[inline]
    fn encoded_size(&self) -> usize {
        Self::SIZE.unwrap_or_else(|| self.iter().map(T::encoded_size).sum())
    }

    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        out.put_all(self);
    }

    #[inline]
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        if const { cast::is_plain::<T>() } {
            let bytes = input.take(size_of::<Self>())?;
            return cast::value(bytes).ok_or_else(|| input.error("the array has another size"));
        }
        let values = input.take_all::<T>(N)?;
        values.try_into().map_err(|_| input.error("the array has another length"))
    }
}

macro_rules! tuples {
    ($($name:ident $place:tt),+) => {
        // SAFETY: trivial only if the constant shows that there is no padding and no other order.
        unsafe impl<$($name: Object),+> Object for ($($name,)+) {
            const SIZE: Option<usize> = fold::size(&[$($name::SIZE),+]);
            const CATEGORY: Category = fold::category(
                &[$(fold::part::<$name>(std::mem::offset_of!(Self, $place))),+],
                size_of::<Self>(),
                false,
            );

            fn describe(builder: &mut SchemaBuilder) -> Type {
                Type::Tuple(vec![$(builder.describe::<$name>()),+])
            }

            #[inline]
            fn encoded_size(&self) -> usize {
                0 $(+ self.$place.encoded_size())+
            }

            #[inline]
            fn encode(&self, out: &mut Encoder<'_>) {
                $(self.$place.encode(out);)+
            }

            #[inline]
            fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                Ok(($($name::decode(input).map_err(|error| error.inside(stringify!($place)))?,)+))
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

// SAFETY: never trivial.
unsafe impl<T: Object> Object for Option<T> {
    const CATEGORY: Category = Category::Variable;
    const SIZE: Option<usize> = None;

    fn describe(builder: &mut SchemaBuilder) -> Type {
        Type::Option(Box::new(builder.describe::<T>()))
    }

    #[inline]
    fn encoded_size(&self) -> usize {
        1 + self.as_ref().map_or(0, T::encoded_size)
    }

    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }

    #[inline]
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(if bool::decode(input)? { Some(T::decode(input)?) } else { None })
    }
}

macro_rules! pointers {
    ($($type:ident),*) => {$(
        // SAFETY: never trivial.
        unsafe impl<T: Object> Object for $type<T> {
            const SIZE: Option<usize> = T::SIZE;
            const CATEGORY: Category = match T::SIZE {
                Some(_) => Category::Constant,
                None => Category::Variable,
            };

            fn describe(builder: &mut SchemaBuilder) -> Type {
                builder.describe::<T>()
            }

            #[inline]
            fn encoded_size(&self) -> usize {
                (**self).encoded_size()
            }

            #[inline]
            fn encode(&self, out: &mut Encoder<'_>) {
                (**self).encode(out);
            }

            #[inline]
            fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                input.nested(T::decode).map($type::new)
            }
        }
    )*};
}

pointers!(Box, Rc, Arc);

// SAFETY: trivial only if the constant shows that there is no padding and no other order.
unsafe impl<T: Object> Object for Range<T> {
    const SIZE: Option<usize> = fold::size(&[T::SIZE, T::SIZE]);
    const CATEGORY: Category = fold::category(
        &[
            fold::part::<T>(std::mem::offset_of!(Self, start)),
            fold::part::<T>(std::mem::offset_of!(Self, end)),
        ],
        size_of::<Self>(),
        false,
    );

    fn describe(builder: &mut SchemaBuilder) -> Type {
        let part = |builder: &mut SchemaBuilder, name| Field::new(name, builder.describe::<T>());
        builder.structure::<Self>("Range", |builder| vec![part(builder, "start"), part(builder, "end")], &[])
    }

    #[inline]
    fn encoded_size(&self) -> usize {
        self.start.encoded_size() + self.end.encoded_size()
    }

    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        self.start.encode(out);
        self.end.encode(out);
    }

    #[inline]
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let start = T::decode(input).map_err(|error| error.inside("start"))?;
        Ok(start..T::decode(input).map_err(|error| error.inside("end"))?)
    }
}

// SAFETY: never trivial.
unsafe impl Object for Duration {
    const SIZE: Option<usize> = Some(12);
    const CATEGORY: Category = Category::Constant;

    fn describe(builder: &mut SchemaBuilder) -> Type {
        let fields = |_: &mut SchemaBuilder| {
            vec![
                Field::new("seconds", Type::U64).with_unit("s"),
                Field::new("nanoseconds", Type::U32).with_unit("ns"),
            ]
        };
        builder.structure::<Self>("Duration", fields, &[])
    }

    fn encoded_size(&self) -> usize {
        12
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        self.as_secs().encode(out);
        self.subsec_nanos().encode(out);
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (seconds, start) = (u64::decode(input)?, input.position());
        let nanoseconds = u32::decode(input)?;
        if nanoseconds >= 1_000_000_000 {
            let what = format!("{nanoseconds} is not a fraction of a second in nanoseconds");
            return Err(DecodeError::new(what, start));
        }
        Ok(Self::new(seconds, nanoseconds))
    }
}
