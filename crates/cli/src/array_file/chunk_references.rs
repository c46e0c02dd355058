//! Where the bytes of an array are in files, for readers that fetch them without this program.

use std::ffi::{OsStr, OsString};

use super::Array;

/// The largest chunk of adjacent elements in bytes.
const LARGEST_CHUNK: u64 = 64 << 20;

/// A filter of chunks that other readers know too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "hdf5"), allow(dead_code, reason = "chunks with filters come from HDF5"))]
pub(crate) enum ChunkCodec {
    /// With its level.
    Deflate(u32),
    Zstd(u32),
    /// With the size of an element.
    Shuffle(u64),
    Fletcher32,
}

/// Where a chunk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkReference {
    /// Its index in the grid of chunks.
    pub(crate) index: Vec<u64>,
    pub(crate) file: OsString,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// The chunks of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkReferences {
    /// The shape of a chunk; those at the end of a dimension have it too.
    pub(crate) chunk: Vec<u64>,
    pub(crate) is_big_endian: bool,
    /// In the order in which they were applied.
    pub(crate) codecs: Vec<ChunkCodec>,
    pub(crate) chunks: Vec<ChunkReference>,
    /// The value of elements whose chunk is not stored, if there may be such.
    pub(crate) fill: Option<Vec<u8>>,
}

impl ChunkReferences {
    /// Little-endian chunks without filters.
    pub(crate) fn plain(chunk: Vec<u64>, chunks: Vec<ChunkReference>) -> Self {
        Self { chunk, is_big_endian: false, codecs: Vec::new(), chunks, fill: None }
    }

    /// Adjacent elements of a file from an offset on, in chunks of whole rows. The number of rows is a multiple of that of a chunk, since
    /// there are no bytes after the last row.
    pub(crate) fn adjacent(array: &Array, file: &OsStr, offset: u64) -> Self {
        let (rows, row) = (array.rows(), array.row());
        let most = (LARGEST_CHUNK / row.max(1)).clamp(1, rows.max(1));
        let rows_of_chunk = (1..=most).rev().find(|count| rows.is_multiple_of(*count)).unwrap_or(1);
        let mut chunk = array.shape.clone();
        if let Some(length) = chunk.first_mut() {
            *length = rows_of_chunk;
        }
        let bytes = rows_of_chunk * row;
        let count = if array.shape.contains(&0) { 0 } else { rows / rows_of_chunk };
        let reference = |number: u64| {
            let mut index = vec![0; array.shape.len()];
            if let Some(first) = index.first_mut() {
                *first = number;
            }
            ChunkReference { index, file: file.to_owned(), offset: offset + number * bytes, bytes }
        };
        Self::plain(chunk, (0..count).map(reference).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ElementType, NumberType};
    use super::*;

    #[test]
    fn adjacent_chunks_cover_the_array() {
        for (shape, chunk, count) in [
            (&[6, 2][..], &[6, 2][..], 1),
            (&[], &[], 1),
            (&[0, 3], &[1, 3], 0),
            (&[6, 4 << 20], &[2, 4 << 20], 3),
            (&[7, 4 << 20], &[1, 4 << 20], 7),
        ] {
            let array = Array::new("a", ElementType::number(NumberType::F64), shape.to_vec());
            let found = ChunkReferences::adjacent(&array, OsStr::new("f"), 100);
            assert_eq!((&found.chunk[..], found.chunks.len()), (chunk, count), "{shape:?}");
            let bytes: u64 = found.chunks.iter().map(|chunk| chunk.bytes).sum();
            assert_eq!(bytes, 8 * shape.iter().product::<u64>(), "{shape:?}");
            assert!(found.chunks.first().is_none_or(|chunk| chunk.offset == 100));
        }
    }
}
