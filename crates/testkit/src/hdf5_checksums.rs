//! Metadata blocks of HDF5 files that end with a checksum. A mutation reaches the decoders behind a checksum only if it is computed anew.

use std::ops::Range;

use crate::rng::SeededRng;

/// Signatures of blocks that end with a checksum, and of the superblock.
const SIGNATURES: [&[u8; 4]; 14] = [
    b"\x89HDF", b"OHDR", b"OCHK", b"FRHP", b"FHIB", b"BTHD", b"BTIN", b"BTLF", b"FAHD", b"FADB", b"EAHD",
    b"EAIB", b"EASB", b"EADB",
];
/// Longer blocks are not found.
const LONGEST: usize = 8 << 10;
/// Numbers that decoders have to check: counts, sizes, versions and addresses.
const NUMBERS: [u64; 12] =
    [0, 1, 2, 3, 7, 0x40, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];

/// The blocks of a file that end with a checksum.
#[derive(Clone, Debug)]
pub struct ChecksummedBlocks(Vec<Range<usize>>);

impl ChecksummedBlocks {
    /// Finds the blocks of an undamaged file: a block ends where its checksum is that of its bytes.
    pub fn find(file: &[u8]) -> Self {
        let starts = (0..file.len()).filter(|at| SIGNATURES.iter().any(|one| file[*at..].starts_with(*one)));
        let block = |start: usize| {
            let longest = (file.len() - start).min(LONGEST);
            let length = (8..=longest).find(|length| is_sound(&file[start..start + length]))?;
            Some(start..start + length)
        };
        Self(starts.filter_map(block).collect())
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Computes the checksums of blocks anew whose signature is still in its place.
    pub fn repair(&self, file: &mut [u8]) {
        for block in &self.0 {
            let Some(bytes) = file.get_mut(block.clone()) else { continue };
            if SIGNATURES.iter().any(|one| bytes.starts_with(*one)) {
                let (body, sum) = bytes.split_at_mut(block.len() - 4);
                sum.copy_from_slice(&lookup3(body).to_le_bytes());
            }
        }
    }

    /// Changes up to four places of one block, and repairs its checksum.
    pub fn mutate(&self, file: &mut [u8], random: &mut SeededRng) {
        let Some(block) = self.0.get(random.below(self.0.len().max(1))) else { return };
        let (start, length) = (block.start + 4, block.len() - 8);
        for _ in 0..=random.below(4) {
            let width = [1, 2, 4, 8][random.below(4)].min(length);
            let at = start + random.below(length - width + 1);
            match random.below(3) {
                0 => file[at] ^= 1 << random.below(8),
                1 => {
                    let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                    file[at..at + width].copy_from_slice(&number[..width]);
                }
                _ => {
                    let from = start + random.below(length - width + 1);
                    file.copy_within(from..from + width, at);
                }
            }
        }
        self.repair(file);
    }
}

/// Computes the checksums anew of blocks whose length is fixed or is said by their own first bytes, with addresses of 8 bytes.
pub fn repair_headers(file: &mut [u8]) {
    for start in 0..file.len().saturating_sub(8) {
        let length = match &file[start..start + 4] {
            b"\x89HDF" if matches!(file[start + 8..].first(), Some(2 | 3)) => 48,
            b"OHDR" => header_length(&file[start..]),
            b"FRHP" => 146,
            b"BTHD" => 38,
            b"FAHD" => 28,
            b"EAHD" => 72,
            _ => continue,
        };
        if let Some((body, sum)) = file[start..].get_mut(..length).and_then(<[u8]>::split_last_chunk_mut::<4>)
        {
            *sum = lookup3(body).to_le_bytes();
        }
    }
}

/// Bytes of an object header of version 2, without continuation blocks.
fn header_length(bytes: &[u8]) -> usize {
    let flags = bytes[5];
    let width = 1 << (flags & 3);
    let at = 6 + if flags & 0x20 != 0 { 16 } else { 0 } + if flags & 0x10 != 0 { 4 } else { 0 };
    let size = bytes.get(at..at + width).unwrap_or(&[]).iter().rev();
    let size = size.fold(0usize, |size, byte| size.saturating_mul(256).saturating_add((*byte).into()));
    size.saturating_add(at + width + 4)
}

fn is_sound(block: &[u8]) -> bool {
    block.split_last_chunk::<4>().is_some_and(|(body, sum)| lookup3(body) == u32::from_le_bytes(*sum))
}

/// [Bob Jenkins' hash](https://burtleburtle.net/bob/c/lookup3.c) `hashlittle` with the initial value 0.
fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let mut state = [start; 3];
    let add = |state: &mut [u32; 3], block: &[u8]| {
        let mut padded = [0; 12];
        padded[..block.len()].copy_from_slice(block);
        for (word, bytes) in state.iter_mut().zip(padded.as_chunks::<4>().0) {
            *word = word.wrapping_add(u32::from_le_bytes(*bytes));
        }
    };
    let mut rest = bytes;
    while rest.len() > 12 {
        add(&mut state, &rest[..12]);
        let [mut a, mut b, mut c] = state;
        for (first, second, third) in [(4, 6, 8), (16, 19, 4)] {
            a = a.wrapping_sub(c) ^ c.rotate_left(first);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(second);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(third);
            b = b.wrapping_add(a);
        }
        state = [a, b, c];
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return state[2];
    }
    add(&mut state, rest);
    for (to, from, rotation) in
        [(2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24)]
    {
        state[to] = (state[to] ^ state[from]).wrapping_sub(state[from].rotate_left(rotation));
    }
    state[2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_and_repaired() {
        // A published value of the hash.
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
        let mut file = b"some bytes OHDR of a header".to_vec();
        let sum = lookup3(&file[11..]);
        file.extend_from_slice(&sum.to_le_bytes());
        file.extend_from_slice(b"the end");
        let (blocks, whole) = (ChecksummedBlocks::find(&file), file.clone());
        assert_eq!((blocks.len(), blocks.is_empty(), blocks.0[0].clone()), (1, false, 11..31));
        for seed in 0..100 {
            let mut changed = whole.clone();
            blocks.mutate(&mut changed, &mut SeededRng::new(seed));
            assert!(is_sound(&changed[11..31]), "seed {seed}");
            assert_eq!((&changed[..15], &changed[31..]), (&whole[..15], &whole[31..]));
        }
        file[20] ^= 1;
        assert!(!is_sound(&file[11..31]));
        blocks.repair(&mut file);
        assert!(is_sound(&file[11..31]));
    }
}
