//! A segment of an access: a file offset and memory. Lists of segments are the primitive of this layer.

use std::ffi::OsStr;

use crate::{Error, Kind, Operation, Result};

/// Memory to be written at an offset.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// The bytes to write.
    pub bytes: &'a [u8],
}

/// Memory to be read into from an offset.
#[derive(Debug)]
pub struct SegmentMut<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// The buffer to fill.
    pub bytes: &'a mut [u8],
}

/// The file range of a [`Segment`] or [`SegmentMut`], for planning.
pub trait SegmentRange {
    /// Byte offset in the file.
    fn start(&self) -> u64;

    /// Length in bytes.
    fn size(&self) -> u64;

    /// The offset after the last byte, saturating.
    fn end(&self) -> u64 {
        self.start().saturating_add(self.size())
    }
}

impl<'a> Segment<'a> {
    /// The segment that writes `bytes` at `offset`.
    pub fn new(offset: u64, bytes: &'a [u8]) -> Self {
        Self { offset, bytes }
    }
}

impl<'a> SegmentMut<'a> {
    /// The segment that fills `bytes` from `offset`.
    pub fn new(offset: u64, bytes: &'a mut [u8]) -> Self {
        Self { offset, bytes }
    }
}

impl SegmentRange for Segment<'_> {
    fn start(&self) -> u64 {
        self.offset
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl SegmentRange for SegmentMut<'_> {
    fn start(&self) -> u64 {
        self.offset
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// The number of bytes of a list.
pub fn total(segments: &[Segment<'_>]) -> u64 {
    segments.iter().map(SegmentRange::size).sum()
}

/// The number of bytes of a list to be read.
pub fn total_mut(segments: &[SegmentMut<'_>]) -> u64 {
    segments.iter().map(SegmentRange::size).sum()
}

/// Rejects a list with a segment that begins or ends above `i64::MAX`, the maximum file size.
pub fn check<E: SegmentRange>(segments: &[E], operation: Operation, name: impl AsRef<OsStr>) -> Result<()> {
    match segments.iter().find(|segment| segment.end() > i64::MAX as u64) {
        Some(segment) => Err(Error::new(Kind::InvalidArgument, operation, name).at(segment.start())),
        None => Ok(()),
    }
}

/// What is left of a list to be written when its first `done` bytes are; starts with a segment that is not empty.
pub fn rest<'a>(segments: &[Segment<'a>], done: u64) -> Vec<Segment<'a>> {
    let (index, inside) = locate(segments, done);
    let mut left = segments[index..].to_vec();
    if let Some(first) = left.first_mut() {
        *first = Segment::new(first.offset + inside as u64, &first.bytes[inside..]);
    }
    left
}

/// What is left of a list to be read when its first `done` bytes are; starts with a segment that is not empty.
pub fn rest_mut<'a>(segments: &'a mut [SegmentMut<'_>], done: u64) -> Vec<SegmentMut<'a>> {
    let (index, inside) = locate(segments, done);
    let mut skip = inside;
    let left = segments[index..].iter_mut().map(|segment| {
        let skip = std::mem::take(&mut skip);
        SegmentMut::new(segment.offset + skip as u64, &mut segment.bytes[skip..])
    });
    left.collect()
}

/// The first `bytes` bytes of a list to be written; all of it if it is shorter.
pub fn front<'a>(segments: &[Segment<'a>], bytes: u64) -> Vec<Segment<'a>> {
    let (index, inside) = locate(segments, bytes);
    let mut front = segments[..index].to_vec();
    if inside > 0 {
        front.push(Segment::new(segments[index].offset, &segments[index].bytes[..inside]));
    }
    front
}

/// The first `bytes` bytes of a list to be read; all of it if it is shorter.
pub fn front_mut<'a>(segments: &'a mut [SegmentMut<'_>], bytes: u64) -> Vec<SegmentMut<'a>> {
    let (index, inside) = locate(segments, bytes);
    let (whole, behind) = segments.split_at_mut(index);
    let mut front: Vec<_> =
        whole.iter_mut().map(|segment| SegmentMut::new(segment.offset, segment.bytes)).collect();
    if let Some(cut) = behind.first_mut().filter(|_| inside > 0) {
        front.push(SegmentMut::new(cut.offset, &mut cut.bytes[..inside]));
    }
    front
}

/// The file offset that byte `done` of a list goes to or comes from; the end of the list if there is no such byte.
pub fn offset_of<E: SegmentRange>(segments: &[E], done: u64) -> u64 {
    let (index, inside) = locate(segments, done);
    match segments.get(index) {
        Some(segment) => segment.start() + inside as u64,
        None => segments.last().map_or(0, SegmentRange::end),
    }
}

/// The segment that byte `done` of a list lies in and the place inside it; the number of segments if there is no such byte.
fn locate<E: SegmentRange>(segments: &[E], done: u64) -> (usize, usize) {
    let mut before = 0;
    for (index, segment) in segments.iter().enumerate() {
        if done < before + segment.size() {
            return (index, (done - before) as usize);
        }
        before += segment.size();
    }
    (segments.len(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_begins_inside_a_piece_and_skips_empty_ones() {
        let segments = [Segment::new(10, b"abc"), Segment::new(50, b""), Segment::new(20, b"de")];
        let left = rest(&segments, 1);
        assert_eq!((left.len(), left[0].offset, left[0].bytes), (3, 11, &b"bc"[..]));
        let left = rest(&segments, 3);
        assert_eq!((left.len(), left[0].offset, left[0].bytes), (1, 20, &b"de"[..]));
        assert!(rest(&segments, 5).is_empty());
        assert_eq!(offset_of(&segments, 4), 21);
        assert_eq!(offset_of(&segments, 5), 22);
    }

    #[test]
    fn the_front_ends_inside_a_piece() {
        let segments = [Segment::new(10, b"abc"), Segment::new(50, b""), Segment::new(20, b"de")];
        let shape = |bytes| {
            front(&segments, bytes)
                .iter()
                .map(|segment| (segment.offset, segment.bytes.len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(shape(0), []);
        assert_eq!(shape(2), [(10, 2)]);
        assert_eq!(shape(4), [(10, 3), (50, 0), (20, 1)]);
        assert_eq!(shape(9), [(10, 3), (50, 0), (20, 2)]);
        let (mut a, mut b) = ([0; 3], [0; 2]);
        let mut reads = [SegmentMut::new(10, &mut a), SegmentMut::new(20, &mut b)];
        assert_eq!(total_mut(&front_mut(&mut reads, 4)), 4);
        assert_eq!(total_mut(&front_mut(&mut reads, 9)), 5);
    }

    #[test]
    fn the_rest_of_a_read_is_the_same_memory() {
        let (mut a, mut b) = ([0; 3], [0; 2]);
        let mut segments = [SegmentMut::new(10, &mut a), SegmentMut::new(20, &mut b)];
        let mut left = rest_mut(&mut segments, 2);
        assert_eq!((left.len(), left[0].offset, left[1].offset), (2, 12, 20));
        left[0].bytes.fill(1);
        left[1].bytes.fill(2);
        assert_eq!((a, b), ([0, 0, 1], [2, 2]));
    }

    #[test]
    fn pieces_beyond_the_largest_file_are_refused() {
        let top = i64::MAX as u64;
        assert!(check(&[Segment::new(top - 1, b"a"), Segment::new(top, b"")], Operation::Write, "x").is_ok());
        for offset in [top, top + 1, u64::MAX] {
            let error = check(&[Segment::new(offset, b"a")], Operation::Write, "x").unwrap_err();
            assert_eq!((error.kind(), error.offset()), (Kind::InvalidArgument, Some(offset)));
        }
    }
}
