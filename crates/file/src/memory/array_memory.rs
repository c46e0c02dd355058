//! The memory of n-dimensional arrays of the crate `ndarray`, contiguous or strided, as the memory side of an access.
//!
//! Values are transferred in logical order: the last axis is the fastest, whatever the strides in memory are.

use aqueduct_comm::Plain;
use ndarray::{ArrayRef, ArrayViewD, Axis, Dimension};

use super::{Sink, Source};
use crate::layout::{Layout, LayoutError, Pattern, Vector};

/// Checks that an array has the shape of the hyperslab that it is written to or read from.
pub fn check_shape(array: &[usize], slab: &[u64]) -> Result<(), String> {
    if array.len() == slab.len() && array.iter().zip(slab).all(|(one, other)| *one as u64 == *other) {
        return Ok(());
    }
    Err(format!(
        "the array in memory has the shape {array:?}, the hyperslab has the shape {slab:?}; they must be equal"
    ))
}

/// Passes the values in logical order. They are copied if their order in memory differs.
pub fn with_values<T: Clone, D: Dimension, R>(array: &ArrayRef<T, D>, write: impl FnOnce(&[T]) -> R) -> R {
    match array.as_slice() {
        Some(values) => write(values),
        None => write(&array.iter().cloned().collect::<Vec<T>>()),
    }
}

/// Passes memory for the values in logical order, and then assigns them to the array if their order in memory differs.
pub fn with_values_mut<T: Clone, D: Dimension, E>(
    array: &mut ArrayRef<T, D>,
    read: impl FnOnce(&mut [T]) -> Result<(), E>,
) -> Result<(), E> {
    if let Some(values) = array.as_slice_mut() {
        return read(values);
    }
    let mut values: Vec<T> = array.iter().cloned().collect();
    read(&mut values)?;
    array.iter_mut().zip(values).for_each(|(element, value)| *element = value);
    Ok(())
}

/// Passes the values as a source. Only an array with gaps in memory is copied, in chunks that fit in the processor's cache.
pub(crate) fn with_source<T: Plain, D: Dimension, R>(
    array: &ArrayRef<T, D>,
    write: impl FnOnce(Source<'_>) -> R,
) -> R {
    if let Some(values) = array.as_slice() {
        return write(values.into());
    }
    if let Some(values) = array.as_slice_memory_order()
        && let Ok(pattern) = memory_pattern(array)
    {
        return write(Source::strided(bytemuck::cast_slice(values), pattern));
    }
    let view = array.view().into_dyn();
    let bytes = (array.len() * size_of::<T>()) as u64;
    write(Source::generated(bytes, &|from, out| copy_values(&view, from as usize, out)))
}

/// Passes the memory of the array as a sink. An array with gaps in memory is read into a buffer and then assigned: the gaps may belong to others.
pub(crate) fn with_sink<T: Plain, D: Dimension, R, E>(
    array: &mut ArrayRef<T, D>,
    read: impl FnOnce(Sink<'_>) -> Result<R, E>,
) -> Result<R, E> {
    if array.is_standard_layout()
        && let Some(values) = array.as_slice_mut()
    {
        return read(values.into());
    }
    let pattern = memory_pattern(array);
    if let Ok(pattern) = pattern
        && let Some(values) = array.as_slice_memory_order_mut()
    {
        return read(Sink::strided(bytemuck::cast_slice_mut(values), pattern));
    }
    let mut values: Vec<T> = array.iter().copied().collect();
    let outcome = read((&mut values).into())?;
    array.iter_mut().zip(values).for_each(|(element, value)| *element = value);
    Ok(outcome)
}

/// The bytes of an array without gaps, in logical order, from its lowest address on.
fn memory_pattern<T, D: Dimension>(array: &ArrayRef<T, D>) -> Result<Pattern, LayoutError> {
    let size = size_of::<T>();
    let mut layout = Layout::bytes(size as u64)?;
    let mut first = 0;
    for (length, stride) in array.shape().iter().zip(array.strides()).rev() {
        let stride = stride * size as isize;
        layout = layout.hvector(Vector { count: *length as u64, block: 1, stride: stride as i64 })?;
        if stride < 0 {
            first += (*length as i64 - 1) * -(stride as i64);
        }
    }
    layout.tiled(1)?.shifted(first)
}

/// Copies bytes of the values in logical order, from byte `from` on.
fn copy_values<T: Plain>(array: &ArrayViewD<'_, T>, from: usize, out: &mut [u8]) {
    let (size, columns) = (size_of::<T>(), array.shape().last().copied().unwrap_or(1));
    let (mut at, mut out) = (from, out);
    while !out.is_empty() {
        let (row, column) = (at / size / columns, at / size % columns);
        let mut rest = row;
        let mut lane = array.view();
        // The index of the row, the last but one axis is the fastest.
        for axis in (0..array.ndim().saturating_sub(1)).rev() {
            let length = array.shape()[axis];
            lane = lane.index_axis_move(Axis(axis), rest % length);
            rest /= length;
        }
        if let Some(values) = lane.as_slice() {
            let bytes = &bytemuck::cast_slice::<T, u8>(values)[at - row * columns * size..];
            let count = bytes.len().min(out.len());
            let (head, tail) = std::mem::take(&mut out).split_at_mut(count);
            head.copy_from_slice(&bytes[..count]);
            (at, out) = (at + count, tail);
            continue;
        }
        for value in lane.iter().skip(column) {
            let skipped = at % size;
            let bytes = &bytemuck::bytes_of(value)[skipped..];
            let count = bytes.len().min(out.len());
            let (head, tail) = std::mem::take(&mut out).split_at_mut(count);
            head.copy_from_slice(&bytes[..count]);
            (at, out) = (at + count, tail);
            if out.is_empty() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array, Array2, s};

    use super::*;

    #[test]
    fn copied_bytes_are_those_of_the_logical_order() {
        let array = Array::from_iter(0..60u32).into_shape_with_order((3, 4, 5)).unwrap();
        for view in [array.slice(s![.., 1..3, ..;2]), array.slice(s![..;-1, .., 1..4])] {
            let values: Vec<u32> = view.iter().copied().collect();
            let expected: &[u8] = bytemuck::cast_slice(&values);
            for start in [0, 1, 7, 20] {
                for length in [0, 1, 5, 17] {
                    let mut out = vec![0; length];
                    copy_values(&view.view().into_dyn(), start, &mut out);
                    assert_eq!(out, expected[start..start + length], "{start} {length}");
                }
            }
        }
    }

    #[test]
    fn arrays_without_gaps_are_not_copied() {
        let mut array = Array2::<u16>::zeros((3, 5));
        let bytes = |source: Source<'_>| (source.size(), format!("{source:?}").contains("generator: None"));
        assert_eq!(with_source(&array, bytes), (30, true));
        assert_eq!(with_source(&array.t(), bytes), (30, true), "transposed");
        assert_eq!(with_source(&array.slice(s![..;-1, ..]), bytes), (30, true), "reversed");
        assert_eq!(with_source(&array.slice(s![.., 1..4]), bytes), (18, false), "with gaps");
        let address = array.as_ptr() as usize;
        let sink = |sink: Sink<'_>| Ok::<_, ()>(format!("{sink:?}").len().min(sink.size() as usize));
        assert_eq!(with_sink(&mut array.view_mut().reversed_axes(), sink), Ok(30));
        assert_eq!(array.as_ptr() as usize, address);
    }
}
