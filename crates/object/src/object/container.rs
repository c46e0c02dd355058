//! Text, lists, sets and maps: their length, then their elements.
//!
//! `unsafe` here: implementations of an unsafe trait, none of them of a trivial type.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::hash::{BuildHasher, Hash};

use super::{Category, Object, SchemaBuilder};
use crate::codec::{DecodeError, Decoder, Encoder};
use crate::schema::Type;

/// Bytes of a length.
const LEN: usize = 8;

// SAFETY: never trivial.
unsafe impl Object for String {
    const CATEGORY: Category = Category::Variable;
    const SIZE: Option<usize> = None;

    fn describe(_builder: &mut SchemaBuilder) -> Type {
        Type::Text
    }

    #[inline]
    fn encoded_size(&self) -> usize {
        LEN + self.len()
    }

    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        out.put_len(self.len());
        out.put(self.as_bytes());
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let len = input.take_len::<u8>()?;
        let start = input.position();
        let text = str::from_utf8(input.take(len)?);
        let bad = |error: std::str::Utf8Error| {
            DecodeError::new("the text is not UTF-8", start + error.valid_up_to())
        };
        text.map(str::to_owned).map_err(bad)
    }
}

// SAFETY: never trivial.
unsafe impl<T: Object> Object for Vec<T> {
    const CATEGORY: Category = Category::Variable;
    const SIZE: Option<usize> = None;

    fn describe(builder: &mut SchemaBuilder) -> Type {
        Type::List(Box::new(builder.describe::<T>()))
    }

    #[inline]
    fn encoded_size(&self) -> usize {
        LEN + size_of_all(self.iter(), self.len())
    }

    #[inline]
    fn encode(&self, out: &mut Encoder<'_>) {
        out.put_len(self.len());
        out.put_all(self);
    }

    #[inline]
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let len = input.take_len::<T>()?;
        input.take_all(len)
    }
}

// SAFETY: never trivial.
unsafe impl<T: Object> Object for VecDeque<T> {
    const CATEGORY: Category = Category::Variable;
    const SIZE: Option<usize> = None;

    fn describe(builder: &mut SchemaBuilder) -> Type {
        Type::List(Box::new(builder.describe::<T>()))
    }

    fn encoded_size(&self) -> usize {
        LEN + size_of_all(self.iter(), self.len())
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        let (front, back) = self.as_slices();
        out.put_len(self.len());
        out.put_all(front);
        out.put_all(back);
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Vec::decode(input).map(Self::from)
    }
}

/// Containers with the encoded form of a vector: the elements in the order of iteration.
macro_rules! lists {
    ($([$($bound:path)?] $type:ty),+) => {$(
        // SAFETY: never trivial.
        unsafe impl<T: Object $(+ $bound)?> Object for $type {
            const CATEGORY: Category = Category::Variable;
            const SIZE: Option<usize> = None;

            fn describe(builder: &mut SchemaBuilder) -> Type {
                Type::List(Box::new(builder.describe::<T>()))
            }

            fn encoded_size(&self) -> usize {
                LEN + size_of_all(self.iter(), self.len())
            }

            fn encode(&self, out: &mut Encoder<'_>) {
                out.put_len(self.len());
                self.iter().for_each(|value| value.encode(out));
            }

            fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                let len = input.take_len::<T>()?;
                Ok(input.take_all::<T>(len)?.into_iter().collect())
            }
        }
    )+};
}

// A heap keeps its elements in any order, so two equal heaps may have different encoded forms.
lists!([] LinkedList<T>, [Ord] BinaryHeap<T>);

/// Containers that are encoded as an owned one is.
macro_rules! as_owned {
    ($([$($generic:ident: $bound:path)?] $type:ty, $owned:ty);+) => {$(
        // SAFETY: never trivial.
        unsafe impl<$($generic: Object + $bound)?> Object for $type {
            const CATEGORY: Category = Category::Variable;
            const SIZE: Option<usize> = None;

            fn describe(builder: &mut SchemaBuilder) -> Type {
                builder.describe::<$owned>()
            }

            #[inline]
            fn encoded_size(&self) -> usize {
                LEN + (**self).size_of_elements()
            }

            #[inline]
            fn encode(&self, out: &mut Encoder<'_>) {
                out.put_len(self.len());
                (**self).put_elements(out);
            }

            #[inline]
            fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                <$owned>::decode(input).map(Self::from)
            }
        }
    )+};
}

/// The elements of a slice, or the bytes of a text.
trait SliceElements {
    fn size_of_elements(&self) -> usize;
    fn put_elements(&self, out: &mut Encoder<'_>);
}

impl<T: Object> SliceElements for [T] {
    fn size_of_elements(&self) -> usize {
        size_of_all(self.iter(), self.len())
    }

    fn put_elements(&self, out: &mut Encoder<'_>) {
        out.put_all(self);
    }
}

impl SliceElements for str {
    fn size_of_elements(&self) -> usize {
        self.len()
    }

    fn put_elements(&self, out: &mut Encoder<'_>) {
        out.put(self.as_bytes());
    }
}

as_owned!([T: Sized] Box<[T]>, Vec<T>; [] Box<str>, String; [T: Clone] Cow<'static, [T]>, Vec<T>; [] Cow<'static, str>, String);

/// Bytes of the elements.
fn size_of_all<'t, T: Object>(values: impl Iterator<Item = &'t T>, len: usize) -> usize {
    match T::SIZE {
        Some(size) => size * len,
        None => values.map(T::encoded_size).sum(),
    }
}

macro_rules! sets {
    ($($type:ident $($hasher:ident)?: $($bound:path),+);*) => {$(
        // SAFETY: never trivial.
        unsafe impl<T: Object $(+ $bound)+ $(, $hasher: BuildHasher + Default + 'static)?> Object for $type<T $(, $hasher)?> {
            const CATEGORY: Category = Category::Variable;
            const SIZE: Option<usize> = None;

            fn describe(builder: &mut SchemaBuilder) -> Type {
                Type::Set(Box::new(builder.describe::<T>()))
            }

            fn encoded_size(&self) -> usize {
                LEN + size_of_all(self.iter(), self.len())
            }

            fn encode(&self, out: &mut Encoder<'_>) {
                out.put_len(self.len());
                self.iter().for_each(|value| value.encode(out));
            }

            fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                let len = input.take_len::<T>()?;
                Ok(input.take_all(len)?.into_iter().collect())
            }
        }
    )*};
}

sets!(BTreeSet: Ord; HashSet S: Eq, Hash);

macro_rules! maps {
    ($($type:ident $($hasher:ident)?: $($bound:path),+);*) => {$(
        // SAFETY: never trivial.
        unsafe impl<K: Object $(+ $bound)+, V: Object $(, $hasher: BuildHasher + Default + 'static)?> Object
            for $type<K, V $(, $hasher)?>
        {
            const CATEGORY: Category = Category::Variable;
            const SIZE: Option<usize> = None;

            fn describe(builder: &mut SchemaBuilder) -> Type {
                Type::Map { key: Box::new(builder.describe::<K>()), value: Box::new(builder.describe::<V>()) }
            }

            fn encoded_size(&self) -> usize {
                LEN + size_of_all(self.keys(), self.len()) + size_of_all(self.values(), self.len())
            }

            fn encode(&self, out: &mut Encoder<'_>) {
                out.put_len(self.len());
                for (key, value) in self {
                    key.encode(out);
                    value.encode(out);
                }
            }

            fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                let len = input.take_len::<(K, V)>()?;
                Ok(input.take_all::<(K, V)>(len)?.into_iter().collect())
            }
        }
    )*};
}

maps!(BTreeMap: Ord; HashMap S: Eq, Hash);
