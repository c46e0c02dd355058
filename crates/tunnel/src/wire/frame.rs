//! The frame: head, descriptor, payload.
//!
//! ```text
//!  0  u32 magic "AQT1"       16  u32 bytes of the descriptor
//!  4  u8  operation          20  u32 crc32c of the head, with zeros here, and the descriptor
//!  5  u8  flags              24  u64 bytes of the payload
//!  6  u16 zero
//!  8  u64 number of the request in its session
//! ```
//! The descriptor follows the head. The payload follows it, and then four bytes with the crc32c of the payload if the flag says so.

use super::bytes::WireDecodeError;

/// Bytes of a head.
pub const HEAD: usize = 32;
/// The longest descriptor.
pub const LONGEST_DESCRIPTOR: usize = 1 << 20;
/// The longest payload: a connection keeps no more memory than this and a descriptor.
pub const LONGEST_PAYLOAD: usize = 256 << 10;

/// The frame is an answer.
pub const ANSWER: u8 = 1;
/// The answer is an error.
pub const ERROR: u8 = 2;
/// The crc32c of the payload follows it.
pub const PAYLOAD_CHECKSUM: u8 = 4;

const MAGIC: [u8; 4] = *b"AQT1";
const FLAGS: u8 = ANSWER | ERROR | PAYLOAD_CHECKSUM;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Which operation; the answer has that of its request.
    pub operation: u8,
    /// [`ANSWER`], [`ERROR`], [`PAYLOAD_CHECKSUM`].
    pub flags: u8,
    /// The number of the request in its session.
    pub number: u64,
    /// Bytes of the descriptor.
    pub descriptor: usize,
    /// Bytes of the payload.
    pub payload: usize,
    checksum: u32,
}

impl FrameHead {
    /// The head of a frame with this descriptor.
    pub fn new(operation: u8, flags: u8, number: u64, descriptor: &[u8], payload: usize) -> Self {
        let mut head = Self { operation, flags, number, descriptor: descriptor.len(), payload, checksum: 0 };
        head.checksum = head.checksum_with(descriptor);
        head
    }

    /// The head as bytes.
    pub fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.operation;
        bytes[5] = self.flags;
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..20].copy_from_slice(&(self.descriptor as u32).to_le_bytes());
        bytes[20..24].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[24..].copy_from_slice(&(self.payload as u64).to_le_bytes());
        bytes
    }

    /// Reads a head and checks its lengths, so that the descriptor and the payload can be received.
    pub fn decode(bytes: &[u8; HEAD]) -> Result<Self, WireDecodeError> {
        let wrong = |problem, at| Err(WireDecodeError { problem, at });
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[..4] != MAGIC {
            return wrong("this is no frame (wrong magic)", 0);
        }
        let flags = bytes[5];
        if flags & !FLAGS != 0 || bytes[6..8] != [0; 2] {
            return wrong("unknown flags", 5);
        }
        let (descriptor, payload) = (word(16) as usize, u64::from(word(24)) | u64::from(word(28)) << 32);
        if descriptor > LONGEST_DESCRIPTOR {
            return wrong("the descriptor is too long", 16);
        }
        if payload > LONGEST_PAYLOAD as u64 {
            return wrong("the payload is too long", 24);
        }
        let number = u64::from(word(8)) | u64::from(word(12)) << 32;
        let payload = payload as usize;
        Ok(Self { operation: bytes[4], flags, number, descriptor, payload, checksum: word(20) })
    }

    /// Checks the head with its descriptor.
    pub fn check(&self, descriptor: &[u8]) -> Result<(), WireDecodeError> {
        if self.checksum == self.checksum_with(descriptor) {
            Ok(())
        } else {
            Err(WireDecodeError { problem: "the checksum of a frame is wrong", at: 20 })
        }
    }

    fn checksum_with(&self, descriptor: &[u8]) -> u32 {
        let bytes = Self { checksum: 0, ..*self }.encode();
        crc32c::crc32c_append(crc32c::crc32c(&bytes), descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_head() {
        let head = FrameHead::new(6, PAYLOAD_CHECKSUM, 0x0102, b"abc", 4096);
        let bytes = head.encode();
        assert_eq!(&bytes[..8], b"AQT1\x06\x04\0\0");
        assert_eq!(&bytes[8..20], &[2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(&bytes[24..], &[0, 16, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[20..24], 0x86F8_FCA4_u32.to_le_bytes());
        assert_eq!(FrameHead::decode(&bytes), Ok(head));
        head.check(b"abc").unwrap();
        assert!(head.check(b"abd").is_err());
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let head = FrameHead::new(5, 0, 77, b"descriptor", 1000);
        for bit in 0..HEAD * 8 {
            let mut bytes = head.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let outcome = FrameHead::decode(&bytes).and_then(|head| head.check(b"descriptor"));
            assert!(outcome.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn large_lengths_are_refused_before_anything_is_allocated() {
        let mut bytes = FrameHead::new(6, 0, 1, b"", 0).encode();
        bytes[16..20].copy_from_slice(&(LONGEST_DESCRIPTOR as u32 + 1).to_le_bytes());
        assert_eq!(FrameHead::decode(&bytes).unwrap_err().at, 16);
        let mut bytes = FrameHead::new(6, 0, 1, b"", 0).encode();
        bytes[24..].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(FrameHead::decode(&bytes).unwrap_err().at, 24);
    }
}
