//! What is written and sent: one object, a slice, or whatever an iterator goes through.

use std::borrow::Cow;

use crate::codec::Encoder;
use crate::object::{Object, cast};

/// Objects in their encoded form, one after the other.
#[derive(Clone, Debug)]
pub struct EncodedBatch<'a> {
    /// Borrowed where the objects lie in memory as in the encoding.
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) count: usize,
    /// Where each object ends, where their sizes differ.
    pub(crate) ends: Vec<u64>,
}

/// Objects to be written or sent: `&[T]`, `&Vec<T>`, `&[T; N]`, [`Single`] object, or [`FromIter`] that an iterator goes through.
///
/// ```
/// use std::collections::BTreeMap;
/// use aqueduct_object::{FromIter, IntoObjects, Single, EncodedBatch};
///
/// fn bytes<'a>(items: impl IntoObjects<'a, f64>) -> usize {
///     items.encode_batch().size()
/// }
/// let map = BTreeMap::from([("a", 1.0), ("b", 2.0)]);
/// assert_eq!(bytes(&[1.0, 2.0, 3.0]), 24);
/// assert_eq!(bytes(&vec![1.0; 5][2..4]), 16);
/// assert_eq!(bytes(Single(&1.0)), 8);
/// assert_eq!(bytes(FromIter(map.values())), 16);
/// ```
pub trait IntoObjects<'a, T: Object> {
    /// Their encoded form: without a copy for trivial types that lie one after the other.
    fn encode_batch(self) -> EncodedBatch<'a>;

    /// The objects, where they lie one after the other.
    fn slice(&self) -> Option<&'a [T]> {
        None
    }
}

/// One object.
#[derive(Clone, Copy, Debug)]
pub struct Single<'a, T>(pub &'a T);

/// All objects that an iterator goes through: a range of any container.
#[derive(Clone, Copy, Debug)]
pub struct FromIter<I>(pub I);

impl EncodedBatch<'_> {
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
pub(crate) fn measure_batch<'a, T: Object>(objects: &[T]) -> EncodedBatch<'a> {
    let mut end = 0;
    let ends = objects.iter().map(|object| {
        end += object.encoded_size() as u64;
        end
    });
    EncodedBatch { bytes: Cow::Borrowed(&[]), count: objects.len(), ends: ends.collect() }
}

impl<'a, T: Object> IntoObjects<'a, T> for &'a [T] {
    fn encode_batch(self) -> EncodedBatch<'a> {
        match cast::bytes(self) {
            Some(bytes) => EncodedBatch { bytes: Cow::Borrowed(bytes), count: self.len(), ends: Vec::new() },
            None => encode_each(self.iter(), self.iter().map(Object::encoded_size).sum()),
        }
    }

    fn slice(&self) -> Option<&'a [T]> {
        Some(self)
    }
}

impl<'a, T: Object> IntoObjects<'a, T> for &'a Vec<T> {
    fn encode_batch(self) -> EncodedBatch<'a> {
        self.as_slice().encode_batch()
    }

    fn slice(&self) -> Option<&'a [T]> {
        Some(self)
    }
}

impl<'a, T: Object, const N: usize> IntoObjects<'a, T> for &'a [T; N] {
    fn encode_batch(self) -> EncodedBatch<'a> {
        self.as_slice().encode_batch()
    }
}

impl<'a, T: Object> IntoObjects<'a, T> for Single<'a, T> {
    fn encode_batch(self) -> EncodedBatch<'a> {
        std::slice::from_ref(self.0).encode_batch()
    }
}

impl<'a, T: Object, I: IntoIterator<Item = &'a T>> IntoObjects<'a, T> for FromIter<I> {
    fn encode_batch(self) -> EncodedBatch<'a> {
        let objects = self.0.into_iter();
        let room = T::SIZE.map_or(0, |size| size.saturating_mul(objects.size_hint().0));
        encode_each(objects, room)
    }
}

/// Objects encoded one by one, in one piece of memory: of `room` bytes, or more if they need it.
fn encode_each<'a, 't, T: Object>(objects: impl Iterator<Item = &'t T>, room: usize) -> EncodedBatch<'a> {
    let (mut count, mut bytes) = (0, Vec::with_capacity(room));
    let mut ends = Vec::with_capacity(if T::SIZE.is_none() { objects.size_hint().0 } else { 0 });
    for object in objects {
        object.encode(&mut Encoder::new(&mut bytes));
        count += 1;
        if T::SIZE.is_none() {
            ends.push(bytes.len() as u64);
        }
    }
    EncodedBatch { bytes: Cow::Owned(bytes), count, ends }
}
