//! Numbers and byte strings in a descriptor.

use std::fmt;

/// Why bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireDecodeError {
    /// What is wrong.
    pub problem: &'static str,
    /// At which byte.
    pub at: usize,
}

impl fmt::Display for WireDecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.problem, self.at)
    }
}

impl std::error::Error for WireDecodeError {}

/// Reads values from a descriptor.
#[derive(Debug)]
pub struct ByteReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ByteReader<'a> {
    /// Reads from the first byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// An error at the current place.
    pub fn error(&self, problem: &'static str) -> WireDecodeError {
        WireDecodeError { problem, at: self.at }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Fails if bytes are left.
    pub fn finish(self) -> Result<(), WireDecodeError> {
        if self.left() == 0 { Ok(()) } else { Err(self.error("unexpected bytes")) }
    }

    /// A byte.
    pub fn byte(&mut self) -> Result<u8, WireDecodeError> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.error("a byte is missing"))?;
        self.at += 1;
        Ok(byte)
    }

    /// A number in LEB128.
    pub fn number(&mut self) -> Result<u64, WireDecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return Err(self.error("a number is too large"));
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                // One form per number: a last byte of zero adds nothing.
                return if byte == 0 && shift > 0 {
                    Err(self.error("a number has needless bytes"))
                } else {
                    Ok(value)
                };
            }
        }
        Err(self.error("a number is too long"))
    }

    /// A signed number, in zigzag order.
    pub fn signed(&mut self) -> Result<i64, WireDecodeError> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A number up to a maximum.
    pub fn number_up_to(&mut self, most: u64) -> Result<u64, WireDecodeError> {
        let value = self.number()?;
        if value <= most { Ok(value) } else { Err(self.error("a number is above its limit")) }
    }

    /// So many bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], WireDecodeError> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.error("bytes are missing"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// An array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireDecodeError> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| self.error("bytes are missing"))
    }

    /// A byte string of at most `most` bytes, after its length.
    pub fn string(&mut self, most: usize) -> Result<&'a [u8], WireDecodeError> {
        let count = self.number_up_to(most as u64)?;
        self.take(count as usize)
    }

    /// A text of at most `most` bytes; what is not UTF-8 is replaced.
    pub fn text(&mut self, most: usize) -> Result<String, WireDecodeError> {
        Ok(String::from_utf8_lossy(self.string(most)?).into_owned())
    }
}

/// Appends a number in LEB128.
pub fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number in zigzag order.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_number(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a byte string after its length.
pub fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for value in [0, 1, 127, 128, 300, 1 << 32, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, value);
            let mut reader = ByteReader::new(&out);
            assert_eq!(reader.number(), Ok(value));
            reader.finish().unwrap();
        }
        for signed in [0, -1, 1, i64::MIN, i64::MAX, -300] {
            let mut out = Vec::new();
            put_signed(&mut out, signed);
            assert_eq!(ByteReader::new(&out).signed(), Ok(signed));
        }
        for wrong in [&[0x80, 0x00][..], &[0xff; 10], &[0xff; 11], &[0x80], &[]] {
            assert!(ByteReader::new(wrong).number().is_err(), "{wrong:?}");
        }
    }
}
