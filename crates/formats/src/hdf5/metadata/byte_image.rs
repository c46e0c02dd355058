//! Images: the bytes of a file, as far as they are known. Pure.

use std::collections::BTreeMap;

/// What pages are compared by.
pub(crate) const PAGE: usize = 4096;

/// Pages by their numbers; those that are not there hold nothing but zeros.
pub(crate) type PageMap = BTreeMap<u64, Vec<u8>>;

/// The bytes of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteImage<'a> {
    pub(crate) pages: &'a PageMap,
    pub(crate) length: u64,
}

impl ByteImage<'_> {
    /// Whether these bytes lie before the end.
    pub(crate) fn holds(&self, at: u64, length: u64) -> bool {
        at.checked_add(length).is_some_and(|end| end <= self.length)
    }

    /// A range of bytes; none beyond the end.
    pub(crate) fn bytes(&self, at: u64, length: u64) -> Option<Vec<u8>> {
        let end = self.holds(at, length).then(|| at + length)?;
        let mut bytes = Vec::with_capacity(usize::try_from(length).ok()?);
        let mut at = at;
        while at < end {
            let (page, inside) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let count = (PAGE - inside).min((end - at) as usize);
            match self.pages.get(&page) {
                Some(page) => bytes.extend_from_slice(&page[inside..inside + count]),
                None => bytes.resize(bytes.len() + count, 0),
            }
            at += count as u64;
        }
        Some(bytes)
    }

    fn number<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        self.bytes(at, N as u64)?.try_into().ok()
    }

    pub(crate) fn u16_at(&self, at: u64) -> Option<u16> {
        self.number(at).map(u16::from_le_bytes)
    }

    pub(crate) fn u32_at(&self, at: u64) -> Option<u32> {
        self.number(at).map(u32::from_le_bytes)
    }

    pub(crate) fn u64_at(&self, at: u64) -> Option<u64> {
        self.number(at).map(u64::from_le_bytes)
    }
}
