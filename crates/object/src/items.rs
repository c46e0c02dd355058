//! What is written and sent: one object, a slice, or whatever an iterator goes through.

use std::borrow::Cow;

use crate::{Encoder, Object, cast};

/// Objects in their encoded form, one after the other.
#[derive(Clone, Debug)]
pub struct Packed<'a> {
    /// Borrowed where the objects lie in memory as in the encoding.
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) count: usize,
    /// Where each object ends, where their sizes differ.
    pub(crate) ends: Vec<u64>,
}

/// Objects to be written or sent: `&[T]`, `&Vec<T>`, `&[T; N]`, [`One`] object, or [`Each`] that an iterator goes through.
///
/// ```
/// use std::collections::BTreeMap;
/// use aqueduct_object::{Each, Items, One, Packed};
///
/// fn bytes<'a>(items: impl Items<'a, f64>) -> usize {
///     items.pack().size()
/// }
/// let map = BTreeMap::from([("a", 1.0), ("b", 2.0)]);
/// assert_eq!(bytes(&[1.0, 2.0, 3.0]), 24);
/// assert_eq!(bytes(&vec![1.0; 5][2..4]), 16);
/// assert_eq!(bytes(One(&1.0)), 8);
/// assert_eq!(bytes(Each(map.values())), 16);
/// ```
pub trait Items<'a, T: Object> {
    /// Their encoded form: without a copy for trivial types that lie one after the other.
    fn pack(self) -> Packed<'a>;

    /// The objects, where they lie one after the other.
    fn slice(&self) -> Option<&'a [T]> {
        None
    }
}

/// One object.
#[derive(Clone, Copy, Debug)]
pub struct One<'a, T>(pub &'a T);

/// All objects that an iterator goes through: a range of any container.
#[derive(Clone, Copy, Debug)]
pub struct Each<I>(pub I);

impl Packed<'_> {
    /// How many objects there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many bytes they have.
    pub fn size(&self) -> usize {
        self.ends.last().map_or(self.bytes.len(), |end| *end as usize)
    }
}

/// Objects of variable size that are not encoded yet: only where each will end.
pub(crate) fn measured<'a, T: Object>(objects: &[T]) -> Packed<'a> {
    let mut end = 0;
    let ends = objects.iter().map(|object| {
        end += object.encoded_size() as u64;
        end
    });
    Packed { bytes: Cow::Borrowed(&[]), count: objects.len(), ends: ends.collect() }
}

impl<'a, T: Object> Items<'a, T> for &'a [T] {
    fn pack(self) -> Packed<'a> {
        match cast::bytes(self) {
            Some(bytes) => Packed { bytes: Cow::Borrowed(bytes), count: self.len(), ends: Vec::new() },
            None => packed(self.iter(), self.iter().map(Object::encoded_size).sum()),
        }
    }

    fn slice(&self) -> Option<&'a [T]> {
        Some(self)
    }
}

impl<'a, T: Object> Items<'a, T> for &'a Vec<T> {
    fn pack(self) -> Packed<'a> {
        self.as_slice().pack()
    }

    fn slice(&self) -> Option<&'a [T]> {
        Some(self)
    }
}

impl<'a, T: Object, const N: usize> Items<'a, T> for &'a [T; N] {
    fn pack(self) -> Packed<'a> {
        self.as_slice().pack()
    }
}

impl<'a, T: Object> Items<'a, T> for One<'a, T> {
    fn pack(self) -> Packed<'a> {
        std::slice::from_ref(self.0).pack()
    }
}

impl<'a, T: Object, I: IntoIterator<Item = &'a T>> Items<'a, T> for Each<I> {
    fn pack(self) -> Packed<'a> {
        let objects = self.0.into_iter();
        let room = T::SIZE.map_or(0, |size| size.saturating_mul(objects.size_hint().0));
        packed(objects, room)
    }
}

/// Objects encoded one by one, in one piece of memory: of `room` bytes, or more if they need it.
fn packed<'a, 't, T: Object>(objects: impl Iterator<Item = &'t T>, room: usize) -> Packed<'a> {
    let (mut count, mut bytes) = (0, Vec::with_capacity(room));
    let mut ends = Vec::with_capacity(if T::SIZE.is_none() { objects.size_hint().0 } else { 0 });
    for object in objects {
        object.encode(&mut Encoder::new(&mut bytes));
        count += 1;
        if T::SIZE.is_none() {
            ends.push(bytes.len() as u64);
        }
    }
    Packed { bytes: Cow::Owned(bytes), count, ends }
}
