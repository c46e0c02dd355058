//! Aligned memory for unbuffered I/O.

use std::ops::{Deref, DerefMut};

/// The alignment of memory, offset and length that unbuffered I/O accepts on all common media.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// Zeroed bytes at a multiple of [`DIRECT_ALIGNMENT`]: reads into them and writes from them with
/// [`direct`](crate::DeviceOpenOptions::direct) need no copy.
///
/// ```
/// use aqueduct_device::{AlignedBuffer, DIRECT_ALIGNMENT};
///
/// let mut buffer = AlignedBuffer::new(10_000);
/// buffer[9_999] = 1;
/// assert!(buffer.as_ptr().addr().is_multiple_of(DIRECT_ALIGNMENT));
/// ```
#[derive(Debug)]
pub struct AlignedBuffer {
    /// Longer than requested, so that it contains an aligned part of that length. Never reallocated.
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` bytes of zeros.
    pub fn new(len: usize) -> Self {
        let memory = vec![0; len + DIRECT_ALIGNMENT];
        let start = memory.as_ptr().addr().next_multiple_of(DIRECT_ALIGNMENT) - memory.as_ptr().addr();
        Self { memory, start, len }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// Whether bytes at this file offset can be transferred from or to this memory without a copy.
pub(crate) fn is_aligned(offset: u64, bytes: &[u8]) -> bool {
    let aligned = |value: usize| value.is_multiple_of(DIRECT_ALIGNMENT);
    offset.is_multiple_of(DIRECT_ALIGNMENT as u64) && aligned(bytes.len()) && aligned(bytes.as_ptr().addr())
}
