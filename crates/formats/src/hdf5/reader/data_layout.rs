//! The messages that say how a dataset is stored: layout, filters and fill value.

use super::byte_cursor::{ByteCursor, Decoded};
use super::dataspace::MOST_DIMENSIONS;
use crate::hdf5::model::chunk_table::ChunkFilter;

/// The most filters of one dataset.
const MOST_FILTERS: usize = 32;

/// Where the elements of a dataset are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataLayout {
    Compact(Vec<u8>),
    Contiguous { address: u64, size: Option<u64> },
    Chunked(ChunkedLayout),
    Virtual,
}

/// Chunks and the index that finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkedLayout {
    pub(crate) chunk: Vec<u64>,
    /// Bytes of an element.
    pub(crate) element: u64,
    pub(crate) index: ChunkIndexKind,
    /// Where the index begins; undefined before the first chunk is written.
    pub(crate) address: u64,
    /// Whether chunks beyond the edge of the dataset are stored without filters.
    pub(crate) plain_edges: bool,
}

/// The kinds of chunk indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkIndexKind {
    BtreeV1,
    /// The address is that of the only chunk: bytes in the file and skipped filters, if it has filters.
    Single(Option<(u64, u32)>),
    /// Chunks follow each other.
    Implicit,
    FixedArray,
    ExtensibleArray,
    BtreeV2,
}

pub(crate) fn decode(mut cursor: ByteCursor<'_>) -> Decoded<DataLayout> {
    let version = cursor.version(1..=5)?;
    if version < 3 {
        return decode_first(cursor);
    }
    match cursor.u8()? {
        0 => {
            let size = cursor.u16()?;
            Ok(DataLayout::Compact(cursor.take(size.into())?.to_vec()))
        }
        1 => Ok(DataLayout::Contiguous { address: cursor.address()?, size: Some(cursor.length()?) }),
        2 if version == 3 => {
            let rank = cursor.u8()? as usize;
            let address = cursor.address()?;
            chunked(lengths(&mut cursor, rank, 4)?, ChunkIndexKind::BtreeV1, address, false)
        }
        2 => decode_chunked(cursor),
        3 => Ok(DataLayout::Virtual),
        class => Err(format!("a layout of class {class}")),
    }
}

fn decode_first(mut cursor: ByteCursor<'_>) -> Decoded<DataLayout> {
    let (rank, class) = (cursor.u8()? as usize, cursor.u8()?);
    cursor.skip(5)?;
    let address = if class == 0 { 0 } else { cursor.address()? };
    let lengths = lengths(&mut cursor, rank, 4)?;
    match class {
        0 => {
            let size = cursor.u32()? as usize;
            Ok(DataLayout::Compact(cursor.take(size)?.to_vec()))
        }
        1 => Ok(DataLayout::Contiguous { address, size: None }),
        2 => chunked(lengths, ChunkIndexKind::BtreeV1, address, false),
        class => Err(format!("a layout of class {class}")),
    }
}

fn decode_chunked(mut cursor: ByteCursor<'_>) -> Decoded<DataLayout> {
    let (flags, rank, bytes) = (cursor.u8()?, cursor.u8()? as usize, cursor.u8()? as usize);
    let lengths = lengths(&mut cursor, rank, bytes)?;
    let index = match cursor.u8()? {
        1 if flags & 2 != 0 => ChunkIndexKind::Single(Some((cursor.length()?, cursor.u32()?))),
        1 => ChunkIndexKind::Single(None),
        2 => ChunkIndexKind::Implicit,
        3 => {
            cursor.skip(1)?;
            ChunkIndexKind::FixedArray
        }
        4 => {
            cursor.skip(5)?;
            ChunkIndexKind::ExtensibleArray
        }
        5 => {
            cursor.skip(6)?;
            ChunkIndexKind::BtreeV2
        }
        kind => return Err(format!("a chunk index of kind {kind}")),
    };
    let address = cursor.address()?;
    chunked(lengths, index, address, flags & 1 != 0)
}

fn lengths(cursor: &mut ByteCursor<'_>, rank: usize, bytes: usize) -> Decoded<Vec<u64>> {
    if rank > MOST_DIMENSIONS + 1 {
        return Err(format!("a layout of {rank} dimensions"));
    }
    (0..rank).map(|_| cursor.uint(bytes)).collect()
}

/// The last length is that of an element.
fn chunked(
    mut lengths: Vec<u64>,
    index: ChunkIndexKind,
    address: u64,
    plain_edges: bool,
) -> Decoded<DataLayout> {
    let element = lengths.pop().ok_or("chunks without dimensions")?;
    if lengths.is_empty() || element == 0 || lengths.contains(&0) {
        return Err(format!("chunks of shape {lengths:?} with elements of {element} bytes"));
    }
    Ok(DataLayout::Chunked(ChunkedLayout { chunk: lengths, element, index, address, plain_edges }))
}

pub(crate) fn decode_filters(mut cursor: ByteCursor<'_>) -> Decoded<Vec<ChunkFilter>> {
    let version = cursor.version(1..=2)?;
    let count = cursor.u8()? as usize;
    if count > MOST_FILTERS {
        return Err(format!("{count} filters"));
    }
    cursor.skip(if version == 1 { 6 } else { 0 })?;
    let mut filters = Vec::new();
    for _ in 0..count {
        let id = cursor.u16()?;
        let name = if version == 1 || id >= 256 { cursor.u16()? as usize } else { 0 };
        cursor.skip(2)?;
        let parameters = cursor.u16()?;
        let name = cursor.take(if version == 1 { name.next_multiple_of(8) } else { name })?;
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        let values = (0..parameters).map(|_| cursor.u32()).collect::<Decoded<Vec<_>>>()?;
        cursor.skip(if version == 1 && parameters % 2 == 1 { 4 } else { 0 })?;
        filters.push(ChunkFilter { id, name, parameters: values });
    }
    Ok(filters)
}

/// The fill value as bytes of the file; none if it is not defined.
pub(crate) fn decode_fill_value(mut cursor: ByteCursor<'_>) -> Decoded<Option<Vec<u8>>> {
    let version = cursor.version(1..=3)?;
    let defined = if version == 3 {
        cursor.u8()? & 0x20 != 0
    } else {
        cursor.skip(2)?;
        cursor.u8()? != 0
    };
    if defined { decode_old_fill_value(cursor).map(Some) } else { Ok(None) }
}

/// A size and so many bytes.
pub(crate) fn decode_old_fill_value(mut cursor: ByteCursor<'_>) -> Decoded<Vec<u8>> {
    let size = cursor.u32()?;
    Ok(cursor.take(size as usize)?.to_vec())
}
