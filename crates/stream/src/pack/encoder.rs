//! Objects of a rank, encoded on demand: they need no memory of their size.

use std::borrow::Cow;
use std::fmt;

use aqueduct_file::layout::Pattern;
use aqueduct_object::{Category, Encoder, Object, encode_all};

/// Bytes that are encoded at a time at least: they fit the first-level cache.
const PART: usize = 4096;

/// Bytes that are encoded on demand, from front to back.
pub(crate) trait StreamEncoder {
    /// The number of all bytes.
    fn size(&self) -> u64;

    /// Encodes the next bytes into `out`, which is not longer than the rest.
    fn fill(&mut self, out: &mut [u8]) -> Result<(), EncodedSizeError>;
}

/// The data of a rank for a stream.
pub(crate) enum StepInput<'d> {
    /// Values as they are in memory.
    Values(&'d [u8]),
    /// The sampled values of the stream, where a pattern of the program's own finds them in memory.
    Placed(&'d [u8], Pattern),
    /// The sampled values of the stream, gathered from memory.
    Gathered(Vec<u8>),
    /// Objects whose encoding differs from their form in memory.
    Encoded(Box<dyn StreamEncoder + 'd>),
}

impl<'d> StepInput<'d> {
    /// Objects; as values, if their encoding is their form in memory.
    pub(crate) fn objects<T: Object>(objects: &'d [T]) -> Self {
        if T::CATEGORY == Category::Trivial
            && let Cow::Borrowed(bytes) = encode_all(objects)
        {
            return Self::Values(bytes);
        }
        Self::Encoded(Box::new(ObjectEncoder::new(objects)))
    }
}

/// `encoded_size` of a type does not match its encoding.
#[derive(Clone, Debug)]
pub(crate) struct EncodedSizeError(String);

impl fmt::Display for EncodedSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::encoded_size() disagrees with its encode(); fix the implementation of Object", self.0)
    }
}

/// Encodes objects one after the other.
pub(crate) struct ObjectEncoder<'d, T> {
    values: &'d [T],
    size: u64,
    /// The number of encoded objects.
    next: usize,
    /// The encoding of the last ones, and how many bytes of it were used.
    encoded: Vec<u8>,
    at: usize,
}

impl<'d, T: Object> ObjectEncoder<'d, T> {
    pub(crate) fn new(objects: &'d [T]) -> Self {
        let each = |object: &T| object.encoded_size() as u64;
        let size = match T::SIZE {
            Some(size) => size as u64 * objects.len() as u64,
            None => objects.iter().map(each).sum(),
        };
        Self { values: objects, size, next: 0, encoded: Vec::new(), at: 0 }
    }

    /// Encodes the next objects.
    fn encode(&mut self) -> Result<(), EncodedSizeError> {
        self.encoded.clear();
        self.at = 0;
        let mut expected = 0;
        while let (Some(object), true) = (self.values.get(self.next), self.encoded.len() < PART) {
            object.encode(&mut Encoder::new(&mut self.encoded));
            expected += object.encoded_size();
            self.next += 1;
        }
        if self.encoded.len() != expected || expected == 0 {
            return Err(EncodedSizeError(T::schema().name()));
        }
        Ok(())
    }
}

impl<T: Object> StreamEncoder for ObjectEncoder<'_, T> {
    fn size(&self) -> u64 {
        self.size
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<(), EncodedSizeError> {
        let mut rest = out;
        while !rest.is_empty() {
            if self.at == self.encoded.len() {
                self.encode()?;
            }
            let bytes = rest.len().min(self.encoded.len() - self.at);
            let (now, later) = rest.split_at_mut(bytes);
            now.copy_from_slice(&self.encoded[self.at..self.at + bytes]);
            self.at += bytes;
            rest = later;
        }
        Ok(())
    }
}

/// Encodes the lengths of objects, 8 bytes each.
pub(crate) struct LengthEncoder<'d, T> {
    objects: &'d [T],
    next: usize,
}

impl<'d, T: Object> LengthEncoder<'d, T> {
    pub(crate) fn new(objects: &'d [T]) -> Self {
        Self { objects, next: 0 }
    }
}

impl<T: Object> StreamEncoder for LengthEncoder<'_, T> {
    fn size(&self) -> u64 {
        8 * self.objects.len() as u64
    }

    /// Chunks hold whole values.
    fn fill(&mut self, out: &mut [u8]) -> Result<(), EncodedSizeError> {
        for (place, object) in out.as_chunks_mut::<8>().0.iter_mut().zip(&self.objects[self.next..]) {
            *place = (object.encoded_size() as u64).to_le_bytes();
            self.next += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_encoded_in_portions_of_any_size() {
        let texts: Vec<String> = (0..300).map(|at| "x".repeat(at * at % 1000)).collect();
        let expected = aqueduct_object::encode_all(&texts);
        for portion in [1, 7, 8, 4096, 100_000, expected.len()] {
            let mut objects = ObjectEncoder::new(&texts);
            assert_eq!(objects.size(), expected.len() as u64);
            let mut found = vec![0; expected.len()];
            found.chunks_mut(portion).for_each(|part| objects.fill(part).unwrap());
            assert!(found == *expected, "{portion}");
        }
        let mut lengths = LengthEncoder::new(&texts);
        let mut found = vec![0; 2400];
        found.chunks_mut(24).for_each(|part| lengths.fill(part).unwrap());
        let expected = texts.iter().flat_map(|text| (8 + text.len() as u64).to_le_bytes());
        assert!(lengths.size() == 2400 && expected.eq(found));
    }
}
