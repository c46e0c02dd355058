//! Seeded mutations of valid inputs, for fuzz targets and tests of decoders.

use crate::rng::SeededRng;

/// Half of all mutations change one of the first so many bytes, where headers are.
const HEAD: usize = 700;

/// Numbers at which arithmetic overflows, and floating-point numbers that are not finite or large.
const NUMBERS: [u64; 19] = [
    0,
    1,
    4,
    8,
    100,
    512,
    0x7fff_ffff,
    0xffff_ffff_0000_000c,
    0xffff_ffff,
    1 << 33,
    1 << 40,
    1 << 60,
    1 << 62,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
    0x7e37_e43c_8800_759c, // 1e300
    0x7ff8_0000_0000_0000, // NaN
];

/// Makes mutated inputs; equal seeds give equal inputs.
#[derive(Debug)]
pub struct Mutator<'a> {
    random: SeededRng,
    words: &'a [&'a str],
}

impl<'a> Mutator<'a> {
    /// A mutator that inserts these words.
    pub fn new(seed: u64, words: &'a [&'a str]) -> Self {
        Self { random: SeededRng::new(seed), words }
    }

    /// One of the seed inputs, with one to four changes.
    pub fn mutate(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.random.below(seeds.len())].clone();
        for _ in 0..=self.random.below(4) {
            self.change(&mut bytes, seeds);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let near = if self.random.below(2) == 0 { HEAD } else { usize::MAX };
        let at = self.random.below(bytes.len().clamp(1, near));
        match self.random.below(14) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << self.random.below(8),
            2 if at < bytes.len() => bytes[at] = self.random.number() as u8,
            3 if self.random.below(3) == 0 => bytes.truncate(at),
            4 => self.put_number(bytes, at, 8),
            5 => self.put_number(bytes, at, 4),
            6 if !self.words.is_empty() => {
                let word = self.words[self.random.below(self.words.len())];
                bytes.splice(at..at, word.bytes());
            }
            7 => {
                let digits = b"0123456789 .,-+e:=\n<>/\"[]{}";
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = digits[self.random.below(digits.len())];
                }
            }
            8 => self.copy_within(bytes, at),
            9 => {
                // The start of this input and the end of another one.
                let other = &seeds[self.random.below(seeds.len())];
                let from = self.random.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            10 => {
                let end = (at + 1 + self.random.below(64)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            11 => self.repeat(bytes, at),
            12 => self.copy_word(bytes, at),
            // A number of a text becomes a larger one.
            _ if bytes.get(at).is_some_and(u8::is_ascii_digit) => {
                bytes.splice(at..at, *b"99999999999");
            }
            _ => {}
        }
    }

    /// A number of `width` bytes in either byte order, at a multiple of four bytes in most cases.
    fn put_number(&mut self, bytes: &mut [u8], at: usize, width: usize) {
        let at = if self.random.below(4) == 0 { at } else { at / 4 * 4 };
        let number = NUMBERS[self.random.below(NUMBERS.len())];
        let little = number.to_le_bytes();
        let mut word = little[..width].to_vec();
        if self.random.below(2) == 0 {
            word.reverse();
        }
        if let Some(place) = bytes.get_mut(at..at + width) {
            place.copy_from_slice(&word);
        }
    }

    /// A few bytes many times: deep nesting, long lists.
    fn repeat(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let end = (at + 1 + self.random.below(16)).min(bytes.len());
        let part = bytes[at.min(end)..end].repeat(1 + self.random.below(300));
        bytes.splice(at.min(end)..at.min(end), part);
    }

    /// An aligned word of eight bytes, which may be an address, at another place.
    fn copy_word(&mut self, bytes: &mut [u8], to: usize) {
        if let Some(words) = (bytes.len() / 8).checked_sub(1).filter(|words| *words > 0) {
            let from = self.random.below(words) * 8;
            bytes.copy_within(from..from + 8, to.min(bytes.len() - 8) / 8 * 8);
        }
    }

    fn copy_within(&mut self, bytes: &mut Vec<u8>, to: usize) {
        if bytes.is_empty() {
            return;
        }
        let from = self.random.below(bytes.len());
        let most = bytes.len() - from.max(to);
        let length = self.random.below(64).min(most);
        bytes.copy_within(from..from + length, to);
        if self.random.below(8) == 0 {
            bytes.extend_from_within(from..from + length);
        }
    }
}
