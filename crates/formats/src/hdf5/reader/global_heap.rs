//! Global heaps: the storage of variable-length text.

use std::collections::HashMap;

use super::byte_cursor::Decoded;
use super::metadata_source::{MetadataSource, within};

/// The most bytes of collections that are kept.
const MOST_KEPT: usize = 8 << 20;

/// Collections that were read.
#[derive(Default)]
pub(crate) struct GlobalHeap {
    collections: HashMap<u64, HeapCollection>,
    kept: usize,
}

/// One collection: its bytes, and where the objects are in them.
struct HeapCollection {
    bytes: Vec<u8>,
    objects: HashMap<u32, std::ops::Range<usize>>,
}

impl GlobalHeap {
    /// An object of a collection.
    pub(crate) fn object(&mut self, source: &MetadataSource<'_>, address: u64, index: u32) -> Decoded<&[u8]> {
        if !self.collections.contains_key(&address) {
            if self.kept > MOST_KEPT {
                self.collections.clear();
                self.kept = 0;
            }
            let collection = within("global heap", address, collection(source, address))?;
            self.kept += collection.bytes.len();
            self.collections.insert(address, collection);
        }
        let collection = &self.collections[&address];
        let range = collection.objects.get(&index);
        let range = range
            .ok_or_else(|| format!("global heap at address {address:#x}: there is no object {index}"))?;
        Ok(&collection.bytes[range.clone()])
    }

    /// The bytes that an element of variable length refers to, its elements of `size` bytes.
    pub(crate) fn sequence(
        &mut self,
        source: &MetadataSource<'_>,
        element: &[u8],
        size: usize,
    ) -> Decoded<Vec<u8>> {
        let mut cursor = source.cursor(element);
        let (count, address, index) = (cursor.u32()? as usize, cursor.address()?, cursor.u32()?);
        if count == 0 || address == 0 {
            return Ok(Vec::new());
        }
        let length = count.checked_mul(size).ok_or("a sequence beyond every file")?;
        source.charge(length as u64)?;
        let stored = self.object(source, address, index)?.get(..length);
        let missing = || format!("{count} elements of {size} bytes are not in the heap at {address:#x}");
        stored.map(<[u8]>::to_vec).ok_or_else(missing)
    }

    /// The text that an element of variable length refers to: a length, an address and an index.
    pub(crate) fn text(&mut self, source: &MetadataSource<'_>, element: &[u8]) -> Decoded<String> {
        let mut cursor = source.cursor(element);
        let (length, address, index) = (cursor.u32()? as usize, cursor.address()?, cursor.u32()?);
        if length == 0 || address == 0 {
            return Ok(String::new());
        }
        // Many elements may refer to the same text.
        source.charge(length as u64)?;
        let stored = self.object(source, address, index)?;
        let text = stored.get(..length).ok_or_else(|| {
            format!("text of {length} bytes in an object of {} of the heap at {address:#x}", stored.len())
        })?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }
}

fn collection(source: &MetadataSource<'_>, address: u64) -> Decoded<HeapCollection> {
    let length = source.sizes().length;
    let prefix = source.block(address, 8 + length as u64)?;
    let mut cursor = source.cursor(&prefix);
    cursor.signature(*b"GCOL")?;
    cursor.version(1..=1)?;
    cursor.skip(3)?;
    let bytes = source.block(address, cursor.length()?)?;
    let mut cursor = source.cursor(&bytes);
    cursor.skip(8 + length)?;
    let mut objects = HashMap::new();
    while cursor.rest().len() >= 8 + length {
        let index = cursor.u16()?;
        cursor.skip(6)?;
        let size = cursor.length()? as usize;
        if index == 0 {
            break;
        }
        let start = cursor.position();
        cursor.skip(size)?;
        objects.insert(index.into(), start..start + size);
        cursor.align();
    }
    Ok(HeapCollection { bytes, objects })
}
