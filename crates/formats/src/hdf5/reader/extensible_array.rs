//! Extensible arrays: the chunk index of datasets with one unlimited dimension.

use super::byte_cursor::Decoded;
use super::chunk_index::ChunkCollector;
use super::metadata_source::{MetadataSource, within};
use crate::hdf5::model::tree::UNDEFINED_ADDRESS;

/// Adds all chunks of the array at an address.
pub(super) fn read(source: &MetadataSource<'_>, address: u64, chunks: &mut ChunkCollector) -> Decoded<()> {
    within("extensible array", address, ExtensibleArray::read(source, address, chunks))
}

/// What the header says.
struct ExtensibleArray {
    entry: usize,
    size_bytes: usize,
    /// Entries of the index block.
    first_entries: u64,
    /// Entries of the smallest data block.
    least_entries: u64,
    /// Data blocks of the smallest secondary block.
    least_blocks: u64,
    /// Entries of a page of a data block.
    page: u64,
    /// Bytes of the offset of a block in the array.
    offset_bytes: usize,
    /// Entries that are of interest.
    wanted: u64,
}

/// Data blocks of the same size, which a secondary block may hold.
struct BlockRow {
    blocks: u64,
    /// Entries of each block.
    entries: u64,
    /// The number of the first entry.
    first: u64,
}

impl ExtensibleArray {
    fn read(source: &MetadataSource<'_>, address: u64, chunks: &mut ChunkCollector) -> Decoded<()> {
        let sizes = source.sizes();
        let bytes = source.checked_block(address, (16 + 6 * sizes.length + sizes.offset) as u64)?;
        let mut cursor = source.cursor(&bytes);
        cursor.signature(*b"EAHD")?;
        cursor.version(0..=0)?;
        let (client, entry, bits) = (cursor.u8()?, cursor.u8()? as usize, cursor.u8()?);
        let (first_entries, least_entries) = (u64::from(cursor.u8()?), u64::from(cursor.u8()?));
        let (least_blocks, page_bits) = (u64::from(cursor.u8()?), cursor.u8()?);
        cursor.skip(4 * sizes.length)?;
        let used = cursor.length()?;
        cursor.skip(sizes.length)?;
        let block = cursor.address()?;
        let powers = least_entries.is_power_of_two() && least_blocks.is_power_of_two() && least_blocks > 1;
        if !powers || bits > 64 || page_bits > 32 || u32::from(bits) < least_entries.ilog2() {
            return Err(format!("blocks of {least_entries} entries in arrays of 2^{bits}"));
        }
        let array = Self {
            entry,
            size_bytes: chunks.size_bytes(source, client, entry)?,
            first_entries,
            least_entries,
            least_blocks,
            page: 1 << page_bits,
            offset_bytes: usize::from(bits).div_ceil(8),
            wanted: used.min(chunks.most_entries()),
        };
        if block == UNDEFINED_ADDRESS {
            return Ok(());
        }
        let rows = 1 + u64::from(u32::from(bits) - least_entries.ilog2());
        within("index block", block, array.index_block(source, block, rows, chunks))
    }

    /// The rows of data blocks, in order.
    fn row(&self, number: u64) -> BlockRow {
        let mut row = BlockRow { blocks: 1, entries: self.least_entries, first: self.first_entries };
        for before in 0..number {
            row.first = row.first.saturating_add(row.blocks.saturating_mul(row.entries));
            // Every other row has twice as many blocks; the others have blocks of twice as many entries.
            if before % 2 == 0 {
                row.entries = row.entries.saturating_mul(2);
            } else {
                row.blocks = row.blocks.saturating_mul(2);
            }
        }
        row
    }

    fn index_block(
        &self,
        source: &MetadataSource<'_>,
        block: u64,
        rows: u64,
        chunks: &mut ChunkCollector,
    ) -> Decoded<()> {
        let sizes = source.sizes();
        let direct_rows = 2 * u64::from(self.least_blocks.ilog2());
        let direct_blocks = 2 * (self.least_blocks - 1);
        let secondary = rows.saturating_sub(direct_rows);
        let prefix = 6 + sizes.offset;
        let entries = self.first_entries as usize * self.entry;
        let length = (prefix + entries + 4) as u64 + (direct_blocks + secondary) * sizes.offset as u64;
        let body = source.checked_block(block, length)?;
        let mut cursor = source.cursor(&body);
        cursor.signature(*b"EAIB")?;
        cursor.skip(prefix - 4)?;
        let held = cursor.take(entries)?;
        let held = &held[..self.first_entries.min(self.wanted) as usize * self.entry];
        chunks.add_entries(source, 0, held, self.entry, self.size_bytes)?;
        for number in 0..direct_rows {
            let row = self.row(number);
            for at in 0..row.blocks {
                let address = cursor.address()?;
                self.data_block(source, address, &row, at, None, chunks)?;
            }
        }
        for number in 0..secondary {
            let address = cursor.address()?;
            let row = self.row(direct_rows + number);
            if address != UNDEFINED_ADDRESS && row.first < self.wanted {
                within("secondary block", address, self.secondary(source, address, &row, chunks))?;
            }
        }
        Ok(())
    }

    fn secondary(
        &self,
        source: &MetadataSource<'_>,
        address: u64,
        row: &BlockRow,
        chunks: &mut ChunkCollector,
    ) -> Decoded<()> {
        let sizes = source.sizes();
        let bitmap = if row.entries > self.page { (row.entries / self.page).div_ceil(8) } else { 0 };
        let prefix = (6 + sizes.offset + self.offset_bytes) as u64;
        let length = bitmap.saturating_add(sizes.offset as u64).saturating_mul(row.blocks);
        let body = source.checked_block(address, length.saturating_add(prefix + 4))?;
        let mut cursor = source.cursor(&body);
        cursor.signature(*b"EASB")?;
        cursor.skip(prefix as usize - 4)?;
        let bitmaps = cursor.take((bitmap * row.blocks) as usize)?;
        for at in 0..row.blocks {
            let block = cursor.address()?;
            let pages = &bitmaps[(at * bitmap) as usize..((at + 1) * bitmap) as usize];
            self.data_block(source, block, row, at, (bitmap > 0).then_some(pages), chunks)?;
        }
        Ok(())
    }

    fn data_block(
        &self,
        source: &MetadataSource<'_>,
        address: u64,
        row: &BlockRow,
        at: u64,
        pages: Option<&[u8]>,
        chunks: &mut ChunkCollector,
    ) -> Decoded<()> {
        let first = row.first.saturating_add(at.saturating_mul(row.entries));
        if address == UNDEFINED_ADDRESS || first >= self.wanted {
            return Ok(());
        }
        let outcome = match pages {
            None => self.whole_block(source, address, row, first, chunks),
            Some(pages) => self.paged_block(source, address, row, first, pages, chunks),
        };
        within("data block", address, outcome)
    }

    fn prefix(&self, source: &MetadataSource<'_>) -> u64 {
        (6 + source.sizes().offset + self.offset_bytes) as u64
    }

    fn whole_block(
        &self,
        source: &MetadataSource<'_>,
        address: u64,
        row: &BlockRow,
        first: u64,
        chunks: &mut ChunkCollector,
    ) -> Decoded<()> {
        let prefix = self.prefix(source);
        let length =
            row.entries.checked_mul(self.entry as u64).and_then(|length| length.checked_add(prefix + 4));
        let body = source.checked_block(address, length.ok_or("entries beyond every file")?)?;
        source.cursor(&body).signature(*b"EADB")?;
        let held = row.entries.min(self.wanted - first) as usize * self.entry;
        let entries = &body[prefix as usize..][..held];
        chunks.add_entries(source, first, entries, self.entry, self.size_bytes)
    }

    fn paged_block(
        &self,
        source: &MetadataSource<'_>,
        address: u64,
        row: &BlockRow,
        first: u64,
        pages: &[u8],
        chunks: &mut ChunkCollector,
    ) -> Decoded<()> {
        let body = source.checked_block(address, self.prefix(source) + 4)?;
        source.cursor(&body).signature(*b"EADB")?;
        let start = address + body.len() as u64 + 4;
        let page_bytes = self.page * self.entry as u64 + 4;
        let wanted = row.entries.min(self.wanted - first).div_ceil(self.page);
        for page in 0..wanted {
            let written = pages.get((page / 8) as usize).is_some_and(|bits| bits & (0x80 >> (page % 8)) != 0);
            if written {
                let at = page.checked_mul(page_bytes).and_then(|at| at.checked_add(start));
                let entries = source.checked_block(at.ok_or("pages beyond every file")?, page_bytes)?;
                let held = self.page.min(self.wanted - first - page * self.page) as usize * self.entry;
                chunks.add_entries(
                    source,
                    first + page * self.page,
                    &entries[..held],
                    self.entry,
                    self.size_bytes,
                )?;
            }
        }
        Ok(())
    }
}
