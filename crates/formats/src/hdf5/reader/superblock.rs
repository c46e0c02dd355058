//! The superblock: versions, sizes of addresses, and where the root group is.

use super::byte_cursor::{ByteCursor, Decoded, FieldSizes};
use super::checksum::checked;
use super::metadata_source::{MetadataSource, within};
use crate::hdf5::model::tree::UNDEFINED_ADDRESS;

/// The first bytes of every HDF5 file.
pub(crate) const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// What a superblock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) version: u8,
    /// Where addresses count from: the position of the superblock, after a user block.
    pub(crate) base: u64,
    pub(crate) sizes: FieldSizes,
    /// The length of the whole file, with the user block.
    pub(crate) end: u64,
    /// The object header of the root group.
    pub(crate) root: u64,
    /// The object header of the superblock extension, or undefined.
    pub(crate) extension: u64,
}

/// Finds the superblock and reads it.
pub(crate) fn read(source: &mut MetadataSource<'_>) -> Decoded<Superblock> {
    let length = source.file_length();
    if length == 0 {
        return Err("it is empty: a program ended before it had created it".to_owned());
    }
    let mut base = 0;
    while source.up_to(base, 8)? != SIGNATURE {
        base = if base == 0 { 512 } else { base * 2 };
        if base >= length {
            return Err("it has no HDF5 signature: is it an HDF5 file, and all of it?".to_owned());
        }
    }
    let bytes = source.up_to(base, 128)?;
    let found = within("superblock", base, decode(&bytes, base))?;
    if found.end > length {
        return Err(format!("it is truncated: its metadata says {} bytes, it has {length}", found.end));
    }
    source.set_geometry(base, found.sizes);
    Ok(found)
}

fn decode(bytes: &[u8], base: u64) -> Decoded<Superblock> {
    let mut cursor = ByteCursor::new(bytes, FieldSizes { offset: 8, length: 8 });
    cursor.skip(8)?;
    let version = cursor.version(0..=3)?;
    if version < 2 { decode_first(cursor, version, base) } else { decode_later(bytes, cursor, version, base) }
}

fn decode_first(mut cursor: ByteCursor<'_>, version: u8, base: u64) -> Decoded<Superblock> {
    cursor.skip(4)?;
    let sizes = field_sizes(&mut cursor)?;
    // A reserved byte, the sizes of group nodes, and flags; version 1 has the size of chunk nodes too.
    cursor.skip(if version == 1 { 13 } else { 9 })?;
    let mut cursor = ByteCursor::new(cursor.rest(), sizes);
    let stored_base = cursor.address()?;
    cursor.skip(sizes.offset)?;
    let end = cursor.address()?;
    cursor.skip(2 * sizes.offset)?;
    let root = cursor.address()?;
    let end = end.saturating_add(base.saturating_sub(stored_base));
    Ok(Superblock { version, base, sizes, end, root, extension: UNDEFINED_ADDRESS })
}

fn decode_later(bytes: &[u8], mut cursor: ByteCursor<'_>, version: u8, base: u64) -> Decoded<Superblock> {
    let sizes = field_sizes(&mut cursor)?;
    let whole = bytes.get(..16 + 4 * sizes.offset).ok_or("it is cut off")?;
    checked(whole)?;
    let mut cursor = ByteCursor::new(&bytes[12..], sizes);
    let stored_base = cursor.address()?;
    let extension = cursor.address()?;
    let end = cursor.address()?;
    let root = cursor.address()?;
    let end = end.saturating_add(base.saturating_sub(stored_base));
    Ok(Superblock { version, base, sizes, end, root, extension })
}

fn field_sizes(cursor: &mut ByteCursor<'_>) -> Decoded<FieldSizes> {
    let (offset, length) = (cursor.u8()? as usize, cursor.u8()? as usize);
    if [offset, length].iter().all(|size| [2, 4, 8].contains(size)) {
        return Ok(FieldSizes { offset, length });
    }
    Err(format!("addresses of {offset} bytes and lengths of {length}"))
}
