//! Objects to be written or sent: one object, a slice, or the items of an iterator.

use std::borrow::Cow;

use crate::codec::Encoder;
use crate::object::{Object, cast};

/// The encoded form of objects, without gaps.
#[derive(Clone, Debug)]
pub struct EncodedBatch<'a> {
    /// Borrowed if the objects are trivial.
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) count: usize,
    /// The end of each object, if their sizes differ.
    pub(crate) ends: Vec<u64>,
}

/// Objects to be written or sent: `&[T]`, `&Vec<T>`, `&[T; N]`, [`Single`] object, or [`FromIter`] of an iterator.
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
    /// Their encoded form; borrowed for slices of trivial types.
    fn encode_batch(self) -> EncodedBatch<'a>;

    /// The objects, if they are a slice.
    fn slice(&self) -> Option<&'a [T]> {
        None
    }
}

/// One object.
#[derive(Clone, Copy, Debug)]
pub struct Single<'a, T>(pub &'a T);

/// All objects of an iterator, for example over a range of a container.
#[derive(Clone, Copy, Debug)]
pub struct FromIter<I>(pub I);

impl EncodedBatch<'_> {
    /// The number of objects.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of bytes.
    pub fn size(&self) -> usize {
        self.ends.last().map_or(self.bytes.len(), |end| *end as usize)
    }
}

/// The ends of objects of variable size, which are encoded later.
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

    fn slice(&self) -> Option<&'a [T]> {
        Some(self.as_slice())
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

/// Encodes objects one by one into one buffer with an initial capacity of `room` bytes.
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

/// Fills `out` with the encoded form of objects of constant size, from byte `from` of all of them on. Objects are encoded in small groups, which stay in
/// the processor's cache.
pub(crate) fn encode_range<T: Object>(objects: &[T], from: u64, out: &mut [u8]) {
    const GROUP: usize = 32 << 10;
    let Some(size) = T::SIZE.filter(|size| *size > 0) else { return };
    let (first, mut skipped, mut filled) = (from as usize / size, from as usize % size, 0);
    let mut encoded = Vec::with_capacity(size.max(GROUP));
    for group in objects.get(first..).unwrap_or_default().chunks((GROUP / size).max(1)) {
        if filled == out.len() {
            return;
        }
        let missing = (skipped + out.len() - filled).div_ceil(size).min(group.len());
        encoded.clear();
        Encoder::new(&mut encoded).put_all(&group[..missing]);
        let bytes = encoded.get(skipped..).unwrap_or_default();
        let len = bytes.len().min(out.len() - filled);
        out[filled..filled + len].copy_from_slice(&bytes[..len]);
        (filled, skipped) = (filled + len, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_of_objects_of_constant_size_has_the_bytes_of_all() {
        // Groups of 32 KiB have 6553 objects of 5 bytes.
        let objects: Vec<(bool, u32)> =
            (0..14_000).map(|number: u32| (number.is_multiple_of(3), number)).collect();
        let expected = objects.encode_batch().bytes;
        let len = expected.len();
        for from in (0..12).chain([32_763, 32_764, 32_765, 65_529, 65_530, 65_531, len - 7, len - 1, len]) {
            for count in [0, 1, 4, 5, 6, 11, 32_765, 40_000] {
                let end = (from + count).min(len);
                let mut found = vec![0xff; end - from];
                encode_range(&objects, from as u64, &mut found);
                assert!(found == expected[from..end], "{count} bytes from {from} on");
            }
        }
    }
}
