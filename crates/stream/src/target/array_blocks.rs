//! Streams as named arrays, for formats that store arrays: which values of a chunk belong to which block. Pure.

use std::ops::Range;

use super::StepBatch;
use super::row_numbering::{RowNumbering, is_recorded};
use crate::declare::declaration::Declaration;
use crate::declare::stream_info::{StreamInfo, StreamRegion};
use crate::value::ValueKind;

/// Values of this rank in one block of an array `V`.
#[derive(Clone, Debug)]
pub(super) struct ArraySegment<V> {
    pub(super) array: V,
    /// The number of dimensions of length 1 before all others.
    pub(super) leading: usize,
    /// The row of the step, for arrays with a dimension of steps.
    pub(super) record: Option<u64>,
    pub(super) kind: ValueKind,
    pub(super) start: Vec<u64>,
    pub(super) shape: Vec<u64>,
}

/// Values of a chunk.
pub(super) struct BlockPortion<'c, V> {
    pub(super) block: ArraySegment<V>,
    pub(super) bytes: &'c [u8],
}

impl<V> ArraySegment<V> {
    /// The block with leading dimensions and the dimension of steps before its own.
    pub(super) fn block(&self) -> (Vec<u64>, Vec<u64>) {
        let leading = std::iter::repeat_n((0, 1), self.leading);
        let (mut start, mut shape): (Vec<u64>, Vec<u64>) =
            leading.chain(self.record.map(|record| (record, 1))).unzip();
        start.extend(&self.start);
        shape.extend(&self.shape);
        (start, shape)
    }
}

/// The blocks of this rank's values of a batch, in their order; the arrays of each stream are those of [`arrays`],
/// none for an empty one.
pub(super) fn array_blocks<V: Copy>(
    declared: &Declaration,
    batch: &StepBatch,
    arrays: &[Vec<Option<V>>],
    rows: RowNumbering,
) -> Vec<ArraySegment<V>> {
    let mut segments = Vec::new();
    for entry in &batch.entries {
        let about = &declared.streams()[entry.stream];
        let (record, leading) = row_of(about, rows, batch.step);
        let mut add = |array: usize, start, shape| {
            if let Some(array) = arrays[entry.stream][array] {
                segments.push(ArraySegment { array, leading, record, kind: about.stored(), start, shape });
            }
        };
        if let StreamRegion::Points(_) = about.region {
            for run in declared.point_runs(entry.stream) {
                add(0, vec![run.start], vec![run.count as u64]);
            }
        }
        let boxes = about.boxes();
        for (number, part) in declared.parts(entry.stream) {
            add(*number, part.relative_to(&boxes[*number]).start, part.count.clone());
        }
    }
    segments
}

/// The block of points of a list that follow one another, as [`array_blocks`] makes it.
#[cfg(feature = "hdf5")]
pub(super) fn point_block(
    about: &StreamInfo,
    rows: RowNumbering,
    step: u64,
    start: u64,
    count: u64,
) -> (Vec<u64>, Vec<u64>) {
    let (record, leading) = row_of(about, rows, step);
    let segment = ArraySegment {
        array: (),
        leading,
        record,
        kind: about.stored(),
        start: vec![start],
        shape: vec![count],
    };
    segment.block()
}

/// The row of a stream in a step, and the number of its leading dimensions.
fn row_of(about: &StreamInfo, rows: RowNumbering, step: u64) -> (Option<u64>, usize) {
    let record = is_recorded(about).then(|| rows.row(about, step));
    // Without a fixed number of rows the steps are the first dimension.
    let is_first = record.is_some() && rows == RowNumbering::EveryStep;
    (record, if is_first { 0 } else { about.storage.leading })
}

/// The parts of a chunk that begins after `done` bytes of the segments.
pub(super) fn block_portions<'c, V: Copy>(
    segments: &[ArraySegment<V>],
    done: u64,
    chunk: &'c [u8],
) -> Vec<BlockPortion<'c, V>> {
    let (mut portions, mut before, mut rest) = (Vec::new(), 0, chunk);
    for segment in segments {
        let width = segment.kind.width();
        let bytes = segment.shape.iter().product::<u64>() * width;
        let first = (done.max(before) - before).min(bytes);
        let here = (bytes - first).min(rest.len() as u64);
        let mut parts = Vec::new();
        blocks(&segment.start, &segment.shape, first / width..(first + here) / width, &mut parts);
        for (start, shape) in parts {
            let length = (shape.iter().product::<u64>() * width) as usize;
            let (bytes, later) = rest.split_at(length);
            rest = later;
            portions.push(BlockPortion { block: ArraySegment { start, shape, ..*segment }, bytes });
        }
        before += bytes;
    }
    portions
}

/// The values of the numbers `range` of a block, in the order of its elements, as blocks.
fn blocks(start: &[u64], shape: &[u64], range: Range<u64>, out: &mut Vec<(Vec<u64>, Vec<u64>)>) {
    let all: u64 = shape.iter().product();
    if range.is_empty() {
        return;
    }
    if range == (0..all) || shape.len() < 2 {
        let mut block = (start.to_vec(), shape.to_vec());
        if let (Some(first), Some(size)) = (block.0.first_mut(), block.1.first_mut())
            && range != (0..all)
        {
            *first += range.start;
            *size = range.end - range.start;
        }
        out.push(block);
        return;
    }
    let slice = all / shape[0];
    // The rest of the first slice, whole slices, and the beginning of the last slice.
    let (first, last) = (range.start.div_ceil(slice), range.end / slice);
    let inside = |number: u64, range: Range<u64>, out: &mut Vec<_>| {
        let mut inner = Vec::new();
        blocks(&start[1..], &shape[1..], range, &mut inner);
        let outer = |(at, size): (Vec<u64>, Vec<u64>)| {
            ([&[start[0] + number], &at[..]].concat(), [&[1], &size[..]].concat())
        };
        out.extend(inner.into_iter().map(outer));
    };
    if first > last {
        return inside(last, range.start - last * slice..range.end - last * slice, out);
    }
    if range.start < first * slice {
        inside(first - 1, range.start - (first - 1) * slice..slice, out);
    }
    if first < last {
        let (mut at, mut size) = (start.to_vec(), shape.to_vec());
        (at[0], size[0]) = (start[0] + first, last - first);
        out.push((at, size));
    }
    inside(last, 0..range.end - last * slice, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_of_a_block_is_divided_into_blocks_in_order() {
        let (start, shape) = ([2, 0, 5], [3, 4, 2]);
        let element = |number: u64| [2 + number / 8, number / 2 % 4, 5 + number % 2];
        for first in 0..=24 {
            for last in first..=24 {
                let mut out = Vec::new();
                blocks(&start, &shape, first..last, &mut out);
                assert!(out.len() <= 5, "{out:?}");
                let mut found = Vec::new();
                for (at, size) in out {
                    for z in at[0]..at[0] + size[0] {
                        for y in at[1]..at[1] + size[1] {
                            found.extend((at[2]..at[2] + size[2]).map(|x| [z, y, x]));
                        }
                    }
                }
                assert_eq!(found, (first..last).map(element).collect::<Vec<_>>(), "{first}..{last}");
            }
        }
    }
}
