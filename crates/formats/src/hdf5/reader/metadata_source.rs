//! Metadata blocks of a file: positioned reads through a page cache, with limits on what a damaged file can cost.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::byte_cursor::{ByteCursor, Decoded, FieldSizes};
use super::checksum::checked;
use crate::error::{Error, Result};
use crate::hdf5::model::tree::UNDEFINED_ADDRESS;

/// Bytes that are read at once.
const PAGE: u64 = 64 << 10;
/// Pages that are kept.
const MOST_PAGES: usize = 128;
/// The largest block.
const LARGEST_BLOCK: u64 = 32 << 20;
/// How many times the bytes of a file may be decoded.
const MOST_PASSES: u64 = 8;
/// Bytes that may be decoded of the smallest file.
const LEAST_BUDGET: u64 = 8 << 20;

/// Reads bytes from an offset on; how many there were.
pub(crate) trait ReadAt {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<u64>;
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<u64> {
        let start = usize::try_from(offset).map_or(self.len(), |start| start.min(self.len()));
        let count = bytes.len().min(self.len() - start);
        bytes[..count].copy_from_slice(&self[start..start + count]);
        Ok(count as u64)
    }
}

/// The metadata of a file.
pub(crate) struct MetadataSource<'f> {
    file: &'f dyn ReadAt,
    length: u64,
    base: u64,
    sizes: FieldSizes,
    pages: RefCell<HashMap<u64, Vec<u8>>>,
    last: RefCell<(u64, Vec<u8>)>,
    budget: Cell<u64>,
    failed: RefCell<Option<Error>>,
}

impl<'f> MetadataSource<'f> {
    /// A file of so many bytes.
    pub(crate) fn new(file: &'f dyn ReadAt, length: u64) -> Self {
        Self {
            file,
            length,
            base: 0,
            sizes: FieldSizes { offset: 8, length: 8 },
            pages: RefCell::default(),
            last: RefCell::new((u64::MAX, Vec::new())),
            budget: Cell::new(length.saturating_mul(MOST_PASSES).saturating_add(LEAST_BUDGET)),
            failed: RefCell::default(),
        }
    }

    /// Sets what the superblock says: where addresses count from, and how large they are.
    pub(crate) fn set_geometry(&mut self, base: u64, sizes: FieldSizes) {
        (self.base, self.sizes) = (base, sizes);
    }

    pub(crate) fn sizes(&self) -> FieldSizes {
        self.sizes
    }

    /// Bytes of the whole file.
    pub(crate) fn file_length(&self) -> u64 {
        self.length
    }

    /// The offset in the file of an address.
    pub(crate) fn offset_of(&self, address: u64) -> Decoded<u64> {
        let offset = address.checked_add(self.base).filter(|_| address != UNDEFINED_ADDRESS);
        offset.ok_or_else(|| format!("address {address:#x} is beyond every file"))
    }

    /// The error of the file layer, if reading failed.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failed.borrow_mut().take()
    }

    /// The bytes from an address on.
    pub(crate) fn block(&self, address: u64, length: u64) -> Decoded<Vec<u8>> {
        let offset = self.offset_of(address)?;
        if length > LARGEST_BLOCK {
            return Err(format!("a block of {length} bytes at byte {offset}"));
        }
        if offset.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(format!("bytes {offset}+{length} are beyond the end of the file, {}", self.length));
        }
        // Reading a small block costs something too.
        self.charge(length.max(16))?;
        let mut bytes = Vec::with_capacity(length as usize);
        while (bytes.len() as u64) < length {
            let at = offset + bytes.len() as u64;
            let (page, inside) = (at / PAGE, (at % PAGE) as usize);
            let wanted = (length as usize - bytes.len()).min(PAGE as usize - inside);
            self.with_page(page, |held| match held.get(inside..inside + wanted) {
                Some(part) => {
                    bytes.extend_from_slice(part);
                    Ok(())
                }
                None => Err(format!("the file ends before byte {}", at + wanted as u64)),
            })??;
        }
        Ok(bytes)
    }

    /// Counts bytes that are decoded against the budget.
    pub(crate) fn charge(&self, bytes: u64) -> Decoded<()> {
        let left = self.budget.get().checked_sub(bytes);
        self.budget.set(left.ok_or("blocks of metadata are linked to again and again")?);
        Ok(())
    }

    /// As many bytes from an address on as the file has, up to `length`.
    pub(crate) fn up_to(&self, address: u64, length: u64) -> Decoded<Vec<u8>> {
        let offset = self.offset_of(address)?;
        self.block(address, length.min(self.length.saturating_sub(offset)))
    }

    /// A block of known length whose last bytes are its checksum; what is before it.
    pub(crate) fn checked_block(&self, address: u64, length: u64) -> Decoded<Vec<u8>> {
        let mut block = self.block(address, length)?;
        let body = checked(&block)?.len();
        block.truncate(body);
        Ok(block)
    }

    pub(crate) fn cursor<'b>(&self, bytes: &'b [u8]) -> ByteCursor<'b> {
        ByteCursor::new(bytes, self.sizes)
    }

    fn with_page<R>(&self, page: u64, then: impl FnOnce(&[u8]) -> R) -> Decoded<R> {
        let mut last = self.last.borrow_mut();
        if last.0 != page {
            let mut pages = self.pages.borrow_mut();
            let found = match pages.remove(&page) {
                Some(found) => found,
                None => self.load(page)?,
            };
            let before = std::mem::replace(&mut *last, (page, found));
            if pages.len() >= MOST_PAGES {
                pages.clear();
            }
            if before.0 != u64::MAX {
                pages.insert(before.0, before.1);
            }
        }
        Ok(then(&last.1))
    }

    fn load(&self, page: u64) -> Decoded<Vec<u8>> {
        let start = page * PAGE;
        let mut bytes = vec![0; PAGE.min(self.length.saturating_sub(start)) as usize];
        match self.file.read_at(start, &mut bytes) {
            Ok(count) => {
                bytes.truncate(count as usize);
                Ok(bytes)
            }
            Err(error) => {
                let text = error.to_string();
                *self.failed.borrow_mut() = Some(error);
                Err(text)
            }
        }
    }
}

/// Adds where an error is.
pub(crate) fn within<T>(what: &str, address: u64, outcome: Decoded<T>) -> Decoded<T> {
    outcome.map_err(|error| format!("{what} at address {address:#x}: {error}"))
}
