//! A cursor over the bytes of one metadata block: every access is checked. Pure.

use crate::hdf5::model::tree::UNDEFINED_ADDRESS;

/// What decoding yields; the error says what is wrong with the block.
pub(crate) type Decoded<T> = Result<T, String>;

/// Bytes that addresses and lengths have in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldSizes {
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

/// A position in a block.
#[derive(Clone, Debug)]
pub(crate) struct ByteCursor<'b> {
    bytes: &'b [u8],
    at: usize,
    sizes: FieldSizes,
}

impl<'b> ByteCursor<'b> {
    pub(crate) fn new(bytes: &'b [u8], sizes: FieldSizes) -> Self {
        Self { bytes, at: 0, sizes }
    }

    /// How many bytes were passed.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn sizes(&self) -> FieldSizes {
        self.sizes
    }

    /// What is left of the block.
    pub(crate) fn rest(&self) -> &'b [u8] {
        &self.bytes[self.at..]
    }

    pub(crate) fn take(&mut self, count: usize) -> Decoded<&'b [u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| {
            format!("{count} bytes are expected at byte {} of a block of {}", self.at, self.bytes.len())
        })?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn skip(&mut self, count: usize) -> Decoded<()> {
        self.take(count).map(drop)
    }

    /// Skips to a multiple of eight bytes, or to the end of the block.
    pub(crate) fn align(&mut self) {
        self.at = self.at.next_multiple_of(8).min(self.bytes.len());
    }

    pub(crate) fn u8(&mut self) -> Decoded<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn u16(&mut self) -> Decoded<u16> {
        self.uint(2).map(|value| value as u16)
    }

    pub(crate) fn u32(&mut self) -> Decoded<u32> {
        self.uint(4).map(|value| value as u32)
    }

    pub(crate) fn u64(&mut self) -> Decoded<u64> {
        self.uint(8)
    }

    /// A little-endian integer of up to eight bytes.
    pub(crate) fn uint(&mut self, count: usize) -> Decoded<u64> {
        let bytes = self.take(count)?;
        if count > 8 {
            return Err(format!("an integer of {count} bytes"));
        }
        let mut whole = [0; 8];
        whole[..count].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(whole))
    }

    /// An address; [`UNDEFINED_ADDRESS`] if all its bits are set.
    pub(crate) fn address(&mut self) -> Decoded<u64> {
        let value = self.uint(self.sizes.offset)?;
        let undefined = self.sizes.offset < 8 && value == (1 << (8 * self.sizes.offset)) - 1;
        Ok(if undefined { UNDEFINED_ADDRESS } else { value })
    }

    /// A length.
    pub(crate) fn length(&mut self) -> Decoded<u64> {
        self.uint(self.sizes.length)
    }

    /// Text up to a zero, which is passed.
    pub(crate) fn terminated(&mut self) -> Decoded<&'b [u8]> {
        let length = self.rest().iter().position(|byte| *byte == 0);
        let text = self.take(length.ok_or("a name without an end")?)?;
        self.skip(1)?;
        Ok(text)
    }

    pub(crate) fn signature(&mut self, wanted: [u8; 4]) -> Decoded<()> {
        let found = self.take(4)?;
        if found == wanted.as_slice() {
            return Ok(());
        }
        let wanted = String::from_utf8_lossy(&wanted);
        Err(format!("the signature is {:?} instead of {wanted:?}", String::from_utf8_lossy(found)))
    }

    /// A version, which is one of those known.
    pub(crate) fn version(&mut self, known: std::ops::RangeInclusive<u8>) -> Decoded<u8> {
        let version = self.u8()?;
        if known.contains(&version) { Ok(version) } else { Err(format!("version {version} is not known")) }
    }
}

/// Bytes that are needed for numbers up to `largest`.
pub(crate) fn bytes_for(largest: u64) -> usize {
    largest.max(1).ilog2() as usize / 8 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_beyond_the_end() {
        let mut cursor = ByteCursor::new(&[1, 2, 255, 255], FieldSizes { offset: 2, length: 2 });
        assert_eq!(cursor.u16(), Ok(0x201));
        assert_eq!(cursor.address(), Ok(UNDEFINED_ADDRESS));
        assert!(cursor.u8().is_err() && cursor.take(usize::MAX).is_err());
        assert_eq!([bytes_for(0), bytes_for(255), bytes_for(256), bytes_for(u64::MAX)], [1, 1, 2, 8]);
    }
}
