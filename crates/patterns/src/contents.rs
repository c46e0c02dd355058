//! The data that ranks write, and checksums to verify it. `peer/peer.c` does the same.

use std::path::Path;

use anyhow::{Result, ensure};
use aqueduct::device::{self, DeviceOpenOptions, HandleExt};

use crate::access_pattern::SHARED_PIECE;

const CHUNK: usize = 1 << 20;

/// Fills memory with the data of a rank.
pub fn fill(rank: u64, bytes: &mut [u8]) {
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&word_of(rank, at as u64).to_le_bytes());
    }
}

fn word_of(rank: u64, at: u64) -> u64 {
    (rank << 48 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A checksum weighted by position. If pieces have no order, the position is that inside a piece of the shared file pointer.
#[derive(Default)]
pub struct ContentSum {
    unordered: bool,
    at: u64,
    /// The sum so far.
    pub value: u64,
}

impl ContentSum {
    /// `unordered`: the sum does not depend on the order of the pieces.
    pub fn new(unordered: bool) -> Self {
        Self { unordered, ..Self::default() }
    }

    /// Adds more bytes, a multiple of 8.
    pub fn add(&mut self, bytes: &[u8]) {
        let period = if self.unordered { (SHARED_PIECE / 8) as u64 } else { u64::MAX };
        for word in bytes.chunks_exact(8) {
            let word = word.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            let weight = 2 * (self.at % period) + 1;
            self.value = self.value.wrapping_add((word ^ word >> 29).wrapping_mul(weight));
            self.at += 1;
        }
    }
}

/// The checksum of the first bytes of a file on any device, read without the engine.
pub fn sum_of_file(path: &Path, bytes: u64, unordered: bool) -> Result<u64> {
    let file = device::open(path, &DeviceOpenOptions::read_only())?;
    let (mut chunk, mut sum) = (vec![0; CHUNK], ContentSum::new(unordered));
    for first in (0..bytes).step_by(CHUNK) {
        let part = &mut chunk[..CHUNK.min((bytes - first) as usize)];
        let read = file.read_at(first, part)?;
        ensure!(
            read == part.len() as u64,
            "{} ends at byte {}, before {bytes}",
            path.display(),
            first + read
        );
        sum.add(part);
    }
    file.close()?;
    Ok(sum.value)
}

/// Overwrites a part of a file on any device with zeros, so that data of an earlier case cannot be mistaken for new data.
pub fn clear(path: &Path, first: u64, bytes: u64) -> Result<()> {
    let file = device::open(path, &DeviceOpenOptions::write_only())?;
    let zeros = vec![0; CHUNK];
    for at in (0..bytes).step_by(CHUNK) {
        file.write_at(first + at, &zeros[..CHUNK.min((bytes - at) as usize)])?;
    }
    file.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_depends_on_the_order_of_pieces_unless_unordered() {
        let mut data = vec![0; 2 * SHARED_PIECE];
        fill(3, &mut data);
        let swapped = [&data[SHARED_PIECE..], &data[..SHARED_PIECE]].concat();
        let sum = |bytes: &[u8], unordered| {
            let mut sum = ContentSum::new(unordered);
            sum.add(bytes);
            sum.value
        };
        assert_ne!(sum(&data, false), sum(&swapped, false));
        assert_eq!(sum(&data, true), sum(&swapped, true));
        data[77] ^= 1;
        assert_ne!(sum(&data, true), sum(&swapped, true));
    }
}
