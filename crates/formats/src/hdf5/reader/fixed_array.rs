//! Fixed arrays: the chunk index of datasets whose dimensions are limited.

use super::byte_cursor::Decoded;
use super::chunk_index::ChunkCollector;
use super::metadata_source::{MetadataSource, within};
use crate::hdf5::model::tree::UNDEFINED_ADDRESS;

/// Adds all chunks of the array at an address.
pub(super) fn read(source: &MetadataSource<'_>, address: u64, chunks: &mut ChunkCollector) -> Decoded<()> {
    within("fixed array", address, header(source, address, chunks))
}

fn header(source: &MetadataSource<'_>, address: u64, chunks: &mut ChunkCollector) -> Decoded<()> {
    let sizes = source.sizes();
    let bytes = source.checked_block(address, (12 + sizes.length + sizes.offset) as u64)?;
    let mut cursor = source.cursor(&bytes);
    cursor.signature(*b"FAHD")?;
    cursor.version(0..=0)?;
    let (client, entry, page_bits) = (cursor.u8()?, cursor.u8()? as usize, cursor.u8()?);
    let (count, block) = (cursor.length()?, cursor.address()?);
    let size_bytes = chunks.size_bytes(source, client, entry)?;
    if block == UNDEFINED_ADDRESS {
        return Ok(());
    }
    let page = 1u64.checked_shl(page_bits.into()).ok_or("pages beyond every file")?;
    // Entries beyond the present shape are not of interest.
    let wanted = count.min(chunks.most_entries());
    let prefix = 6 + sizes.offset as u64;
    if count <= page {
        let length = count.checked_mul(entry as u64).ok_or("entries beyond every file")?;
        let body = source.checked_block(block, length.saturating_add(prefix + 4))?;
        source.cursor(&body).signature(*b"FADB")?;
        let entries = &body[prefix as usize..];
        return chunks.add_entries(source, 0, &entries[..wanted as usize * entry], entry, size_bytes);
    }
    let pages = count.div_ceil(page);
    let bitmap = pages.div_ceil(8);
    let body = source.checked_block(block, prefix + bitmap + 4)?;
    source.cursor(&body).signature(*b"FADB")?;
    let bitmap = &body[prefix as usize..];
    let start = block + body.len() as u64 + 4;
    let page_bytes = page.checked_mul(entry as u64).and_then(|bytes| bytes.checked_add(4));
    let page_bytes = page_bytes.ok_or("pages beyond every file")?;
    for number in 0..wanted.div_ceil(page) {
        let written = bitmap[(number / 8) as usize] & (0x80 >> (number % 8)) != 0;
        if written {
            let first = number * page;
            let held = page.min(count - first);
            let at = number.checked_mul(page_bytes).and_then(|at| at.checked_add(start));
            let at = at.ok_or("pages beyond every file")?;
            let entries = source.checked_block(at, held * entry as u64 + 4)?;
            chunks.add_entries(source, first, &entries, entry, size_bytes)?;
        }
    }
    Ok(())
}
