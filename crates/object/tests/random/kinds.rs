//! Derived types of all kinds, and their random values.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use aqueduct_object::Object;
use proptest::prelude::*;
use proptest::strategy::Union;

use crate::values::Random;

macro_rules! structures {
    ($($(#[$attribute:meta])* $name:ident { $($(#[$field_attribute:meta])* $field:ident: $ty:ty),* $(,)? })*) => {$(
        #[derive(Object, Clone, Debug, PartialEq)]
        $(#[$attribute])*
        pub(crate) struct $name { $($(#[$field_attribute])* $field: $ty),* }

        impl Random for $name {
            fn random() -> BoxedStrategy<Self> {
                ($(<$ty>::random(),)*).prop_map(|($($field,)*)| Self { $($field),* }).boxed()
            }
        }
    )*};
}

macro_rules! tuples {
    ($($name:ident($($part:ident: $ty:ty),*);)*) => {$(
        #[derive(Object, Clone, Debug, PartialEq)]
        pub(crate) struct $name($($ty),*);

        impl Random for $name {
            fn random() -> BoxedStrategy<Self> {
                ($(<$ty>::random(),)*).prop_map(|($($part,)*)| Self($($part),*)).boxed()
            }
        }
    )*};
}

macro_rules! choices {
    ($($name:ident {
        $($variant:ident $(($($part:ident: $ty:ty),*))? $({ $($field:ident: $field_ty:ty),* })?),* $(,)?
    })*) => {$(
        #[derive(Object, Clone, Debug, PartialEq)]
        pub(crate) enum $name { $($variant $(($($ty),*))? $({ $($field: $field_ty),* })?),* }

        impl Random for $name {
            fn random() -> BoxedStrategy<Self> {
                let variants = vec![$(
                    (Just(()), $($(<$ty>::random(),)*)? $($(<$field_ty>::random(),)*)?)
                        .prop_map(|(_, $($($part,)*)? $($($field,)*)?)| {
                            Self::$variant $(($($part),*))? $({ $($field),* })?
                        })
                        .boxed(),
                )*];
                Union::new(variants).boxed()
            }
        }
    )*};
}

structures! {
    Point { x: f64, y: f64 }
    Grid { cells: [[f32; 3]; 2], level: u32, side: u32 }
    Padded { tag: u8, value: f64 }
    Reordered { a: u8, b: u64, c: u16 }
    Flags { on: bool, letter: char, states: [bool; 3] }
    Wide { large: u128, signed: i128, size: usize, distance: isize }
    Integers { a: i8, b: i16, c: i32, d: i64 }
    Held { boxed: Box<u16>, shared: Arc<f32>, counted: Rc<i64> }
    Marked { value: u32, marker: PhantomData<Rc<String>>, nothing: () }
    Outer { before: Padded, point: Point, flags: Flags, colour: Colour }
    Measured { #[object(unit = "Pa")] pressure: f64, #[object(rename = "t", unit = "K")] temperature: f32 }
    #[object(rename = "another")]
    Renamed { r#type: u8, values: [u16; 2] }
    Named { id: u64, name: String }
    Path { id: u32, corners: Vec<[f32; 2]> }
    Maybe { first: Option<u64>, second: Option<Option<bool>>, third: Option<String> }
    Deep { lists: Vec<Vec<Vec<u8>>>, texts: Vec<String> }
    Queue { waiting: VecDeque<(u16, char)>, done: Vec<Point> }
    Ordered { ages: BTreeMap<String, u8>, seen: BTreeSet<i32> }
    Hashed { ages: HashMap<u64, Option<String>>, seen: HashSet<char> }
    Nested { maps: BTreeMap<u8, BTreeMap<u8, Vec<u16>>>, sets: BTreeSet<(u8, String)> }
    Shapes { list: Vec<Shape>, one: Shape, colours: [Colour; 2] }
    Pointers { list: Arc<Vec<u32>>, text: Box<String>, other: Rc<Option<Point>> }
    Units { many: Vec<()>, marker: PhantomData<f64>, tail: u8 }
    Forest { trees: Vec<Tree>, by_name: BTreeMap<String, Tree> }
    Mixed { outer: Outer, named: Named, pair: (Pair, Maybe), long: [Event; 2] }
}

tuples! {
    Pair(a: u32, b: [u16; 2]);
    Alone(value: f64);
    Text(text: String);
    Both(point: Point, shape: Shape);
    Six(a: u8, b: (i16, bool), c: Vec<u8>, d: Option<char>, e: [Alone; 2], f: Box<Pair>);
}

choices! {
    Colour { Red, Green, Blue }
    Shape { Empty, Circle(centre: Point, radius: f64), Polygon { corners: Vec<Point>, closed: bool } }
    Event { Start { at: u64 }, Message(text: String, from: Option<u32>), Stop }
    Single { Only(value: u16) }
    Tower { Ground(colour: Colour), Floor { shape: Shape, event: Event }, Roof(list: Vec<Shape>) }
}

/// A tree contains itself.
#[derive(Object, Clone, Debug, PartialEq)]
pub(crate) struct Tree {
    value: i16,
    children: Vec<Tree>,
    next: Option<Box<Tree>>,
}

impl Random for Tree {
    fn random() -> BoxedStrategy<Self> {
        let leaf = any::<i16>().prop_map(|value| Tree { value, children: vec![], next: None });
        let grown = |inner: BoxedStrategy<Tree>| {
            let next = prop::option::of(inner.clone().prop_map(Box::new));
            let parts = (any::<i16>(), prop::collection::vec(inner, 0..3), next);
            parts.prop_map(|(value, children, next)| Tree { value, children, next })
        };
        leaf.prop_recursive(3, 12, 3, grown).boxed()
    }
}

/// Types and lengths as parameters.
#[derive(Object, Clone, Debug, PartialEq)]
pub(crate) struct Generic<T, U, const N: usize> {
    values: [T; N],
    other: U,
}

impl<T: Random, U: Random, const N: usize> Random for Generic<T, U, N> {
    fn random() -> BoxedStrategy<Self> {
        (<[T; N]>::random(), U::random()).prop_map(|(values, other)| Self { values, other }).boxed()
    }
}

choices! {
    // One enum of all kinds, so that each object of a file may be of another kind, and compiling takes seconds and not minutes.
    Any {
        Point(object: Point), Grid(object: Grid), Padded(object: Padded), Reordered(object: Reordered),
        Flags(object: Flags), Wide(object: Wide), Integers(object: Integers), Held(object: Held),
        Marked(object: Marked), Outer(object: Outer), Measured(object: Measured), Renamed(object: Renamed),
        Named(object: Named), Path(object: Path), Maybe(object: Maybe), Deep(object: Deep), Queue(object: Queue),
        Ordered(object: Ordered), Hashed(object: Hashed), Nested(object: Nested), Shapes(object: Shapes),
        Pointers(object: Pointers), Units(object: Units), Forest(object: Forest), Mixed(object: Mixed),
        Pair(object: Pair), Alone(object: Alone), Text(object: Text), Both(object: Both), Six(object: Six),
        Colour(object: Colour), Shape(object: Shape), Event(object: Event), Single(object: Single),
        Tower(object: Tower), Tree(object: Tree), GenericNumbers(object: Generic<f64, u64, 3>),
        GenericPadded(object: Generic<Padded, bool, 2>), GenericShapes(object: Generic<Shape, Vec<Colour>, 2>),
    }
}
