//! Global heaps: variable-length values that messages and elements refer to. Pure.

use super::message_encode::{pad, put_words};

/// Bytes of a collection at least: readers refuse smaller ones.
const SMALLEST: usize = 4096;
/// A collection is full with so many bytes.
const FULL: usize = 64 << 10;
/// Bytes before the first value, and before each value.
const HEAD: usize = 16;

/// Values that are going to be a collection of the global heap.
#[derive(Debug, Default)]
pub(crate) struct NewHeapCollection {
    values: Vec<u8>,
    count: u32,
}

impl NewHeapCollection {
    /// Adds a value; its number.
    pub(crate) fn add(&mut self, value: &[u8]) -> u32 {
        self.count += 1;
        self.values.extend_from_slice(&(self.count as u16).to_le_bytes());
        self.values.extend_from_slice(&[0; 6]);
        put_words(&mut self.values, [value.len() as u64]);
        self.values.extend_from_slice(value);
        pad(&mut self.values, 8);
        self.count
    }

    pub(crate) fn is_full(&self) -> bool {
        self.values.len() >= FULL || self.count >= 60_000
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the collection.
    pub(crate) fn length(&self) -> usize {
        (HEAD + self.values.len()).next_multiple_of(8).max(SMALLEST)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let length = self.length();
        let mut out = b"GCOL\x01\0\0\0".to_vec();
        put_words(&mut out, [length as u64]);
        out.extend_from_slice(&self.values);
        let free = length - out.len();
        if free >= HEAD {
            // Value 0 is the free space.
            put_words(&mut out, [0, free as u64]);
        }
        out.resize(length, 0);
        out
    }
}
