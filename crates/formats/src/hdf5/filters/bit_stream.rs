//! Numbers of any number of bits, the most significant first. Pure.

/// A position in packed bits.
pub(super) struct BitStream<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> BitStream<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next `count` bits, up to 64.
    pub(super) fn take(&mut self, count: u32) -> Result<u64, String> {
        let end = self.at + count as usize;
        if end > 8 * self.bytes.len() || count > 64 {
            return Err("packed bits are cut off".to_owned());
        }
        let mut value = 0;
        while self.at < end {
            let (byte, used) = (self.bytes[self.at / 8], self.at % 8);
            let taken = (8 - used).min(end - self.at);
            let bits = u64::from(byte) >> (8 - used - taken) & ((1 << taken) - 1);
            value = if taken == 64 { bits } else { value << taken | bits };
            self.at += taken;
        }
        Ok(value)
    }
}
