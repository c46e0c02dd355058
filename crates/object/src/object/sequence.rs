//! Sequences of objects in the encoded form.

use super::{Object, cast};
use crate::codec::{DecodeError, Decoder, Encoder};

impl Encoder<'_> {
    /// Appends values, by one copy if they are trivial.
    #[inline]
    pub fn put_all<T: Object>(&mut self, values: &[T]) {
        match cast::bytes(values) {
            Some(bytes) => self.put(bytes),
            None => values.iter().for_each(|value| value.encode(self)),
        }
    }
}

impl Decoder<'_> {
    /// A length, if that number of elements of `T` can follow.
    #[inline]
    pub fn take_len<T: Object>(&mut self) -> Result<usize, DecodeError> {
        self.take_len_of(T::SIZE)
    }

    /// The next `len` values, by one copy if they are trivial.
    #[inline]
    pub fn take_all<T: Object>(&mut self, len: usize) -> Result<Vec<T>, DecodeError> {
        if const { cast::is_plain::<T>() }
            && let Some(size) = T::SIZE.and_then(|size| size.checked_mul(len))
            && let Some(values) = cast::values(self.take(size)?, len)
        {
            return Ok(values);
        }
        // The capacity is bounded by the number of bytes: a wrong length must not exhaust memory.
        let mut values = Vec::with_capacity(len.min(self.remaining() / size_of::<T>().max(1) + 1));
        self.nested(|input| {
            for _ in 0..len {
                values.push(T::decode(input)?);
            }
            Ok(())
        })?;
        Ok(values)
    }
}
