//! Random values of the types of Rust and its standard library.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use aqueduct_object::Object;
use proptest::collection::vec;
use proptest::prelude::*;

/// The maximum length of lists; nested lists multiply.
const LENGTH: std::ops::Range<usize> = 0..4;

/// An object with random values.
pub(crate) trait Random: Object + Clone + std::fmt::Debug + PartialEq {
    fn random() -> BoxedStrategy<Self>;
}

macro_rules! primitives {
    ($($name:ty),*) => {$(
        impl Random for $name {
            fn random() -> BoxedStrategy<Self> {
                any::<$name>().boxed()
            }
        }
    )*};
}

primitives!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, bool, char, String, ());

macro_rules! tuples {
    ($(($($name:ident),*))*) => {$(
        impl<$($name: Random),*> Random for ($($name,)*) {
            fn random() -> BoxedStrategy<Self> {
                ($($name::random(),)*).boxed()
            }
        }
    )*};
}

tuples!((A)(A, B)(A, B, C)(A, B, C, D)(A, B, C, D, E)(A, B, C, D, E, F));

macro_rules! holders {
    ($($holder:ident)*) => {$(
        impl<T: Random> Random for $holder<T> {
            fn random() -> BoxedStrategy<Self> {
                T::random().prop_map($holder::new).boxed()
            }
        }
    )*};
}

holders!(Box Rc Arc);

impl<T: Random, const N: usize> Random for [T; N] {
    fn random() -> BoxedStrategy<Self> {
        vec(T::random(), N).prop_map(|list| list.try_into().expect("as many as asked for")).boxed()
    }
}

impl<T: Random> Random for Option<T> {
    fn random() -> BoxedStrategy<Self> {
        prop::option::of(T::random()).boxed()
    }
}

impl<T: Random> Random for Vec<T> {
    fn random() -> BoxedStrategy<Self> {
        vec(T::random(), LENGTH).boxed()
    }
}

impl<T: Random> Random for PhantomData<T> {
    fn random() -> BoxedStrategy<Self> {
        Just(PhantomData).boxed()
    }
}

macro_rules! collections {
    ($([$($generics:tt)*] $name:ty, $item:expr;)*) => {$(
        impl<$($generics)*> Random for $name {
            fn random() -> BoxedStrategy<Self> {
                vec($item, LENGTH).prop_map(|list| list.into_iter().collect()).boxed()
            }
        }
    )*};
}

collections! {
    [T: Random] VecDeque<T>, T::random();
    [T: Random + Ord] BTreeSet<T>, T::random();
    [T: Random + Eq + Hash] HashSet<T>, T::random();
    [K: Random + Ord, V: Random] BTreeMap<K, V>, (K::random(), V::random());
    [K: Random + Eq + Hash, V: Random] HashMap<K, V>, (K::random(), V::random());
}
