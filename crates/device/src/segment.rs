//! A piece of an access: where in the file, and which memory. Lists of pieces are the primitive of this layer.

use std::ffi::OsStr;

use crate::{Error, Kind, Operation, Result};

/// Memory to be written at a place in the file.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// What to write there.
    pub bytes: &'a [u8],
}

/// Memory to be filled from a place in the file.
#[derive(Debug)]
pub struct SegmentMut<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// Where to put what is read there.
    pub bytes: &'a mut [u8],
}

/// What [`Segment`] and [`SegmentMut`] have in common: the place in the file. Code that only plans is written against this.
pub trait SegmentRange {
    /// Byte offset in the file.
    fn start(&self) -> u64;

    /// Length in bytes.
    fn size(&self) -> u64;

    /// The offset behind the last byte; saturates where there is none.
    fn end(&self) -> u64 {
        self.start().saturating_add(self.size())
    }
}

impl<'a> Segment<'a> {
    /// The piece that writes `bytes` at `offset`.
    pub fn new(offset: u64, bytes: &'a [u8]) -> Self {
        Self { offset, bytes }
    }
}

impl<'a> SegmentMut<'a> {
    /// The piece that fills `bytes` from `offset`.
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
pub fn total(pieces: &[Segment<'_>]) -> u64 {
    pieces.iter().map(SegmentRange::size).sum()
}

/// The number of bytes of a list to be read.
pub fn total_mut(pieces: &[SegmentMut<'_>]) -> u64 {
    pieces.iter().map(SegmentRange::size).sum()
}

/// Refuses a list with a piece that begins or ends above `i64::MAX`, the end of what any file can hold.
pub fn check<E: SegmentRange>(pieces: &[E], operation: Operation, name: impl AsRef<OsStr>) -> Result<()> {
    match pieces.iter().find(|piece| piece.end() > i64::MAX as u64) {
        Some(piece) => Err(Error::new(Kind::InvalidArgument, operation, name).at(piece.start())),
        None => Ok(()),
    }
}

/// What is left of a list to be written when its first `done` bytes are; starts with a piece that is not empty.
pub fn rest<'a>(pieces: &[Segment<'a>], done: u64) -> Vec<Segment<'a>> {
    let (index, inside) = locate(pieces, done);
    let mut left = pieces[index..].to_vec();
    if let Some(first) = left.first_mut() {
        *first = Segment::new(first.offset + inside as u64, &first.bytes[inside..]);
    }
    left
}

/// What is left of a list to be read when its first `done` bytes are; starts with a piece that is not empty.
pub fn rest_mut<'a>(pieces: &'a mut [SegmentMut<'_>], done: u64) -> Vec<SegmentMut<'a>> {
    let (index, inside) = locate(pieces, done);
    let mut skip = inside;
    let left = pieces[index..].iter_mut().map(|piece| {
        let skip = std::mem::take(&mut skip);
        SegmentMut::new(piece.offset + skip as u64, &mut piece.bytes[skip..])
    });
    left.collect()
}

/// The first `bytes` bytes of a list to be written; all of it if it is shorter.
pub fn front<'a>(pieces: &[Segment<'a>], bytes: u64) -> Vec<Segment<'a>> {
    let (index, inside) = locate(pieces, bytes);
    let mut front = pieces[..index].to_vec();
    if inside > 0 {
        front.push(Segment::new(pieces[index].offset, &pieces[index].bytes[..inside]));
    }
    front
}

/// The first `bytes` bytes of a list to be read; all of it if it is shorter.
pub fn front_mut<'a>(pieces: &'a mut [SegmentMut<'_>], bytes: u64) -> Vec<SegmentMut<'a>> {
    let (index, inside) = locate(pieces, bytes);
    let (whole, behind) = pieces.split_at_mut(index);
    let mut front: Vec<_> =
        whole.iter_mut().map(|piece| SegmentMut::new(piece.offset, piece.bytes)).collect();
    if let Some(cut) = behind.first_mut().filter(|_| inside > 0) {
        front.push(SegmentMut::new(cut.offset, &mut cut.bytes[..inside]));
    }
    front
}

/// The file offset that byte `done` of a list goes to or comes from; the end of the list if there is no such byte.
pub fn offset_of<E: SegmentRange>(pieces: &[E], done: u64) -> u64 {
    let (index, inside) = locate(pieces, done);
    match pieces.get(index) {
        Some(piece) => piece.start() + inside as u64,
        None => pieces.last().map_or(0, SegmentRange::end),
    }
}

/// The piece that byte `done` of a list lies in and the place inside it; the number of pieces if there is no such byte.
fn locate<E: SegmentRange>(pieces: &[E], done: u64) -> (usize, usize) {
    let mut before = 0;
    for (index, piece) in pieces.iter().enumerate() {
        if done < before + piece.size() {
            return (index, (done - before) as usize);
        }
        before += piece.size();
    }
    (pieces.len(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_begins_inside_a_piece_and_skips_empty_ones() {
        let pieces = [Segment::new(10, b"abc"), Segment::new(50, b""), Segment::new(20, b"de")];
        let left = rest(&pieces, 1);
        assert_eq!((left.len(), left[0].offset, left[0].bytes), (3, 11, &b"bc"[..]));
        let left = rest(&pieces, 3);
        assert_eq!((left.len(), left[0].offset, left[0].bytes), (1, 20, &b"de"[..]));
        assert!(rest(&pieces, 5).is_empty());
        assert_eq!(offset_of(&pieces, 4), 21);
        assert_eq!(offset_of(&pieces, 5), 22);
    }

    #[test]
    fn the_front_ends_inside_a_piece() {
        let pieces = [Segment::new(10, b"abc"), Segment::new(50, b""), Segment::new(20, b"de")];
        let shape = |bytes| {
            front(&pieces, bytes).iter().map(|piece| (piece.offset, piece.bytes.len())).collect::<Vec<_>>()
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
        let mut pieces = [SegmentMut::new(10, &mut a), SegmentMut::new(20, &mut b)];
        let mut left = rest_mut(&mut pieces, 2);
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
