//! Seeded mutations: the damage that media, programs and attackers do to bytes.

use aqueduct_testkit::rng::SeededRng;

/// Half of all mutations change one of the first so many bytes: headers decide most.
const HEAD: usize = 700;

/// Numbers at which arithmetic goes wrong.
const NUMBERS: [u64; 16] = [
    0,
    1,
    4,
    8,
    100,
    512,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 33,
    1 << 40,
    1 << 60,
    1 << 62,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Makes changed inputs; equal seeds give equal inputs.
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
        match self.random.below(13) {
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
                // The end of another input behind the start of this one.
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
            // A number of the text becomes a larger one.
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
