//! Fractal heaps: the storage of dense links and attributes and of shared messages.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::btree_v2;
use super::byte_cursor::{Decoded, bytes_for};
use super::metadata_source::{MetadataSource, within};
use crate::hdf5::model::tree::UNDEFINED_ADDRESS;

/// The most rows of an indirect block.
const MOST_ROWS: u64 = 64;
/// The deepest nesting of indirect blocks.
const DEEPEST: usize = 32;

/// An open heap.
pub(crate) struct FractalHeap {
    address: u64,
    id_length: usize,
    /// Whether blocks went through filters.
    filtered: bool,
    checksums: bool,
    most_managed: u64,
    huge_tree: u64,
    width: u64,
    first_block: u64,
    largest_direct: u64,
    /// Bytes of an offset in the heap.
    offset_bytes: usize,
    root: u64,
    root_rows: u64,
    /// Children of indirect blocks, by their addresses.
    indirect: RefCell<HashMap<u64, Vec<u64>>>,
    /// Huge objects by their numbers: address and length; read when the first is asked for.
    huge: RefCell<Option<HashMap<u64, (u64, u64)>>>,
}

/// Reads the header at an address.
pub(crate) fn read(source: &MetadataSource<'_>, address: u64) -> Decoded<FractalHeap> {
    within("fractal heap", address, header(source, address))
}

fn header(source: &MetadataSource<'_>, address: u64) -> Decoded<FractalHeap> {
    let sizes = source.sizes();
    let prefix = source.up_to(address, 9)?;
    let mut cursor = source.cursor(&prefix);
    cursor.signature(*b"FRHP")?;
    cursor.version(0..=0)?;
    let id_length = cursor.u16()? as usize;
    let filters = cursor.u16()? as usize;
    let filtered = if filters > 0 { filters + sizes.length + 4 } else { 0 };
    let length = 26 + 12 * sizes.length + 3 * sizes.offset + filtered;
    let bytes = source.checked_block(address, length as u64)?;
    let mut cursor = source.cursor(&bytes);
    cursor.skip(9)?;
    let flags = cursor.u8()?;
    let most_managed = u64::from(cursor.u32()?);
    cursor.skip(sizes.length)?;
    let huge_tree = cursor.address()?;
    cursor.skip(sizes.length + sizes.offset + 8 * sizes.length)?;
    let width = u64::from(cursor.u16()?);
    let (first_block, largest_direct) = (cursor.length()?, cursor.length()?);
    let bits = cursor.u16()?;
    cursor.skip(2)?;
    let root = cursor.address()?;
    let root_rows = u64::from(cursor.u16()?);
    let powers = [width, first_block, largest_direct].iter().all(|size| size.is_power_of_two());
    let sound = powers && first_block <= largest_direct && largest_direct <= u32::MAX.into() && bits <= 64;
    if !sound || root_rows > MOST_ROWS || !(2..=64).contains(&id_length) || width > 1 << 12 {
        return Err(format!("{root_rows} rows of {width} blocks of {first_block} to {largest_direct} bytes"));
    }
    Ok(FractalHeap {
        address,
        id_length,
        filtered: filters > 0,
        checksums: flags & 2 != 0,
        most_managed,
        huge_tree,
        width,
        first_block,
        largest_direct,
        offset_bytes: usize::from(bits).div_ceil(8),
        root,
        root_rows,
        indirect: RefCell::default(),
        huge: RefCell::default(),
    })
}

impl FractalHeap {
    /// The object of an identifier.
    pub(crate) fn object(&self, source: &MetadataSource<'_>, id: &[u8]) -> Decoded<Vec<u8>> {
        within("object of the fractal heap", self.address, self.find(source, id))
    }

    fn find(&self, source: &MetadataSource<'_>, id: &[u8]) -> Decoded<Vec<u8>> {
        let id = id.get(..self.id_length).ok_or("an identifier that is too short")?;
        if self.filtered {
            return Err("its blocks are compressed, which is not supported".to_owned());
        }
        let mut cursor = source.cursor(&id[1..]);
        let (address, length) = match id[0] >> 4 & 3 {
            0 => {
                let offset = cursor.uint(self.offset_bytes)?;
                let direct = self.largest_direct.ilog2().div_ceil(8) as usize;
                let length = direct.min(bytes_for(self.most_managed));
                let length = cursor.uint(length)?;
                (self.managed(source, offset, length)?, length)
            }
            1 => self.huge(source, &id[1..])?,
            2 => return self.tiny(id),
            kind => return Err(format!("an identifier of kind {kind}")),
        };
        source.block(address, length)
    }

    fn tiny(&self, id: &[u8]) -> Decoded<Vec<u8>> {
        let low = usize::from(id[0] & 15);
        let extended = self.id_length > 17;
        let (length, data) =
            if extended { ((low << 8 | usize::from(id[1])) + 1, &id[2..]) } else { (low + 1, &id[1..]) };
        let bytes = data.get(..length).ok_or("an object that is longer than its identifier")?;
        Ok(bytes.to_vec())
    }

    fn huge(&self, source: &MetadataSource<'_>, id: &[u8]) -> Decoded<(u64, u64)> {
        let sizes = source.sizes();
        let mut cursor = source.cursor(id);
        if id.len() >= sizes.offset + sizes.length {
            return Ok((cursor.address()?, cursor.length()?));
        }
        let number = cursor.uint(id.len().min(sizes.length))?;
        let mut huge = self.huge.borrow_mut();
        if huge.is_none() {
            let mut found = HashMap::new();
            let tree = btree_v2::read(source, self.huge_tree)?;
            if tree.kind != 1 {
                return Err(format!("huge objects in records of kind {}", tree.kind));
            }
            tree.walk(source, &mut |record| {
                let mut cursor = source.cursor(record);
                let place = (cursor.address()?, cursor.length()?);
                found.insert(cursor.length()?, place);
                Ok(())
            })?;
            *huge = Some(found);
        }
        let place = huge.as_ref().and_then(|huge| huge.get(&number)).copied();
        place.ok_or_else(|| format!("there is no huge object {number}"))
    }

    /// Bytes of the blocks of a row.
    fn block_size(&self, row: u64) -> Option<u64> {
        self.first_block.checked_shl(row.saturating_sub(1) as u32).filter(|size| *size >= self.first_block)
    }

    /// The row and column of an offset in an indirect block, and where that block begins in it.
    fn cell(&self, offset: u64) -> Option<(u64, u64, u64)> {
        let first_row = self.width.checked_mul(self.first_block)?;
        let row = if offset < first_row { 0 } else { u64::from((offset / first_row).ilog2()) + 1 };
        let row_start = if row == 0 { 0 } else { first_row.checked_shl(row as u32 - 1)? };
        let size = self.block_size(row)?;
        let column = (offset - row_start) / size;
        Some((row, column, row_start + column * size))
    }

    /// The address of an object by its offset in the heap.
    fn managed(&self, source: &MetadataSource<'_>, offset: u64, length: u64) -> Decoded<u64> {
        let (mut block, mut rows, mut start) = (self.root, self.root_rows, offset);
        let mut size = self.first_block;
        for _ in 0..DEEPEST {
            if rows == 0 {
                let header = 5 + source.sizes().offset + self.offset_bytes + 4 * usize::from(self.checksums);
                if start < header as u64 || start.checked_add(length).is_none_or(|end| end > size) {
                    return Err(format!("offset {offset} with {length} bytes is outside of its block"));
                }
                return block.checked_add(start).ok_or_else(|| "beyond every file".to_owned());
            }
            let outside = || format!("offset {offset} is outside of the heap");
            let (row, column, begins) = self.cell(start).ok_or_else(outside)?;
            if row >= rows {
                return Err(outside());
            }
            block = self.child(source, block, rows, row * self.width + column)?;
            size = self.block_size(row).ok_or_else(outside)?;
            start -= begins;
            // Blocks up to the largest direct size hold objects; larger ones hold further blocks.
            let first_row = self.width * self.first_block;
            rows = if size <= self.largest_direct {
                0
            } else {
                u64::from((size / first_row).max(1).ilog2()) + 1
            };
        }
        Err(format!("blocks in blocks more than {DEEPEST} deep"))
    }

    fn child(&self, source: &MetadataSource<'_>, block: u64, rows: u64, index: u64) -> Decoded<u64> {
        let mut known = self.indirect.borrow_mut();
        let children = match known.entry(block) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(unknown) => {
                unknown.insert(within("indirect block", block, self.indirect_block(source, block, rows))?)
            }
        };
        let child = children.get(index as usize).copied();
        let child = child.filter(|child| *child != UNDEFINED_ADDRESS);
        child.ok_or_else(|| format!("block {index} of the indirect block at {block:#x} is not there"))
    }

    fn indirect_block(&self, source: &MetadataSource<'_>, block: u64, rows: u64) -> Decoded<Vec<u64>> {
        let sizes = source.sizes();
        let count = rows * self.width;
        let prefix = 5 + sizes.offset + self.offset_bytes;
        let body = source.checked_block(block, (prefix + 4) as u64 + count * sizes.offset as u64)?;
        let mut cursor = source.cursor(&body);
        cursor.signature(*b"FHIB")?;
        cursor.version(0..=0)?;
        cursor.skip(prefix - 5)?;
        (0..count).map(|_| cursor.address()).collect()
    }
}
