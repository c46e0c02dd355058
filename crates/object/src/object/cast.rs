//! Trivial objects as bytes, and bytes as trivial objects.
//!
//! `unsafe` here: it relies on the contract of [`Object`] about trivial types. They have no padding, so all their bytes may be read; every bit
//! pattern is a value, so all their bytes may be written; they own nothing, so overwriting leaks nothing.
#![allow(unsafe_code)]

use std::alloc;

use super::{Category, Object};

/// True if the bytes of values in memory are their encoded form.
pub(crate) const fn is_plain<T: Object>() -> bool {
    cfg!(target_endian = "little") && matches!(T::CATEGORY, Category::Trivial)
}

/// The bytes of trivial values: their encoded form.
#[inline]
pub(crate) fn bytes<T: Object>(values: &[T]) -> Option<&[u8]> {
    if const { !is_plain::<T>() } {
        return None;
    }
    // SAFETY: a trivial type has no padding: all bytes of the slice are initialised.
    Some(unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) })
}

/// The bytes of trivial values, to be overwritten with their encoded form.
#[inline]
pub(crate) fn bytes_mut<T: Object>(values: &mut [T]) -> Option<&mut [u8]> {
    if const { !is_plain::<T>() } {
        return None;
    }
    // SAFETY: as above, and every bit pattern is a value of a trivial type.
    Some(unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) })
}

/// `len` trivial values whose bytes are zero. The allocator may return zeroed pages, which are not written.
#[allow(clippy::same_length_and_capacity, reason = "the memory was allocated for exactly `len` values")]
pub(crate) fn zeroed<T: Object>(len: usize) -> Option<Vec<T>> {
    if const { !is_plain::<T>() } {
        return None;
    }
    let layout = alloc::Layout::array::<T>(len).ok()?;
    if layout.size() == 0 {
        return values(&[], len);
    }
    // SAFETY: the size of the layout is not zero.
    let memory = unsafe { alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        alloc::handle_alloc_error(layout);
    }
    // SAFETY: allocated by the global allocator with the layout of a vector of this capacity; zero is a value of every trivial type.
    Some(unsafe { Vec::from_raw_parts(memory.cast(), len, len) })
}

/// Trivial values from their encoded form.
#[inline]
pub(crate) fn values<T: Object>(encoded: &[u8], len: usize) -> Option<Vec<T>> {
    if const { !is_plain::<T>() } || encoded.len() != len.checked_mul(size_of::<T>())? {
        return None;
    }
    let mut values = Vec::<T>::with_capacity(len);
    // SAFETY: the vector has room for `len` values, which is as many bytes as `encoded` has; every bit pattern is a value.
    unsafe {
        std::ptr::copy_nonoverlapping(encoded.as_ptr(), values.as_mut_ptr().cast(), encoded.len());
        values.set_len(len);
    }
    Some(values)
}

/// One trivial value from its encoded form.
#[inline]
pub(crate) fn value<T: Object>(encoded: &[u8]) -> Option<T> {
    if const { !is_plain::<T>() } || encoded.len() != size_of::<T>() {
        return None;
    }
    // SAFETY: the bytes have the size of the value, and every bit pattern is a value; they need not be aligned.
    Some(unsafe { encoded.as_ptr().cast::<T>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn plain_values_are_their_bytes() {
        let mut values = [0x0102_0304u32, 5];
        assert_eq!(bytes(&values), Some(&[4, 3, 2, 1, 5, 0, 0, 0][..]));
        bytes_mut(&mut values).unwrap()[4] = 7;
        assert_eq!(values[1], 7);
        assert_eq!(super::values::<u32>(&[1, 0, 0, 0, 2, 0, 0, 0], 2), Some(vec![1, 2]));
        assert_eq!(super::values::<u32>(&[1, 0, 0, 0, 2, 0, 0], 2), None);
        assert_eq!(value::<u16>(&[1, 2]), Some(513));
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn zeroed_values_and_values_without_bytes() {
        assert_eq!(zeroed::<f64>(3), Some(vec![0.0; 3]));
        assert_eq!(zeroed::<f64>(0), Some(vec![]));
        assert_eq!(zeroed::<()>(5), Some(vec![(); 5]));
        assert_eq!(zeroed::<f64>(usize::MAX), None);
    }

    #[test]
    fn others_are_not() {
        assert_eq!(bytes(&[true]), None);
        assert_eq!(bytes_mut(&mut ['a']), None);
        assert_eq!(zeroed::<bool>(1), None);
        assert_eq!(value::<bool>(&[1]), None);
    }
}
