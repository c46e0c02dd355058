//! Scans for a word of classes with up to `k` replaced, inserted or deleted residues: the bit-vector algorithm of
//! [Myers 1999](https://doi.org/10.1145/316542.316550), on the reversed word and from right to left, so that it finds starts.

use crate::query::ResidueClass;

/// A word to scan for.
#[derive(Clone, Debug)]
pub(crate) struct EditScanner {
    length: usize,
    limit: u32,
    equal: Vec<u64>,
}

impl EditScanner {
    /// For a word of 1 to 64 classes.
    pub(crate) fn new(word: &[ResidueClass], limit: u32) -> Self {
        let equal = (0..=255u8).map(|letter| {
            let bits = word.iter().rev().enumerate().filter(|(_, class)| class.contains(letter));
            bits.fold(0u64, |equal, (bit, _)| equal | 1 << bit)
        });
        Self { length: word.len(), limit, equal: equal.collect() }
    }

    /// Adds the starts of all occurrences to `starts`, in descending order; an occurrence may end at the end of the text.
    pub(crate) fn scan(&self, text: &[u8], starts: &mut Vec<usize>) {
        let top = 1u64 << (self.length - 1);
        let (mut positive, mut negative) = (u64::MAX >> (64 - self.length), 0u64);
        let mut distance = self.length as u32;
        for (at, letter) in text.iter().enumerate().rev() {
            let equal = self.equal[usize::from(*letter)];
            let vertical = equal | negative;
            let horizontal = ((equal & positive).wrapping_add(positive) ^ positive) | equal;
            let mut up = negative | !(horizontal | positive);
            let mut down = positive & horizontal;
            distance += u32::from(up & top != 0);
            distance -= u32::from(down & top != 0);
            // The first row stays 0: an occurrence may start anywhere.
            up <<= 1;
            down <<= 1;
            positive = down | !(vertical | up);
            negative = up & vertical;
            if distance <= self.limit {
                starts.push(at);
            }
        }
    }
}
