//! Scans for a word of classes, 64 starts at a time, with up to `k` replaced residues.
//!
//! For each block of 64 residues and each class of the word, one machine word has a bit for each residue that belongs to the class. The word occurs where the
//! shifted masks of all its classes agree. Errors are counted in bit-sliced counters.

use wide::u8x16;

use crate::query::{ResidueClass, ResidueKind};

/// The longest word.
pub(crate) const LONGEST_WORD: usize = 64;

/// How the mask of a class is made from masks of letters.
#[derive(Clone, Debug)]
enum ClassMask {
    /// Any residue.
    Any,
    /// These letters, as indices of the letters that are compared.
    Letters(Vec<usize>),
    /// All but these.
    Not(Vec<usize>),
    /// Looked up letter by letter.
    Table,
}

/// A word of classes to scan for.
#[derive(Clone, Debug)]
pub(crate) struct ClassScanner {
    word: Vec<usize>,
    limit: usize,
    classes: Vec<ResidueClass>,
    masks: Vec<ClassMask>,
    letters: Vec<u8>,
    /// A block with other letters than those that are compared is looked up in tables.
    only_letters: bool,
    table: Vec<u64>,
}

type BlockMasks = [u64; LONGEST_WORD];

impl ClassScanner {
    /// For a word of 1 to 64 classes.
    pub(crate) fn new(word: &[ResidueClass], limit: u32, kind: ResidueKind) -> Self {
        let mut classes = word.to_vec();
        classes.sort_unstable();
        classes.dedup();
        let index = |class: &ResidueClass| classes.iter().position(|known| known == class).unwrap_or(0);
        let word: Vec<usize> = word.iter().map(index).collect();
        let only_letters = kind.has_strands();
        let mut letters: Vec<u8> = if only_letters { b"ACGT".to_vec() } else { Vec::new() };
        let mut compared = |wanted: Vec<u8>| -> Vec<usize> {
            let mut place = |letter: u8| {
                let known = letters.iter().position(|known| *known == letter);
                known.unwrap_or_else(|| {
                    letters.push(letter);
                    letters.len() - 1
                })
            };
            wanted.into_iter().map(&mut place).collect()
        };
        let mask = |class: &ResidueClass| {
            if *class == ResidueClass::ANY {
                return ClassMask::Any;
            }
            if only_letters {
                return ClassMask::Letters(compared(
                    b"ACGT".iter().copied().filter(|l| class.contains(*l)).collect(),
                ));
            }
            let (inside, outside): (Vec<u8>, Vec<u8>) = (0..=255).partition(|letter| class.contains(*letter));
            match (inside.len(), outside.len()) {
                (1..=6, _) => ClassMask::Letters(compared(inside)),
                (_, 1..=6) => ClassMask::Not(compared(outside)),
                _ => ClassMask::Table,
            }
        };
        let masks: Vec<ClassMask> = classes.iter().map(mask).collect();
        let row = |letter: u8| {
            let bits = classes.iter().enumerate().filter(|(_, class)| class.contains(letter));
            bits.fold(0u64, |row, (at, _)| row | 1 << at)
        };
        let table = (0..=255).map(row).collect();
        Self { word, limit: limit as usize, masks, letters, only_letters, table, classes }
    }

    /// Calls `found` with each start in ascending order, until it returns false.
    pub(crate) fn scan(&self, text: &[u8], mut found: impl FnMut(usize) -> bool) {
        let length = self.word.len();
        if text.len() < length {
            return;
        }
        let (mut this, mut next): (BlockMasks, BlockMasks) = ([0; LONGEST_WORD], [0; LONGEST_WORD]);
        self.block(text, 0, &mut this);
        let mut at = 0;
        while at < text.len() {
            self.block(text, at + 64, &mut next);
            let mut starts = if self.limit == 0 { self.exact(&this, &next) } else { self.near(&this, &next) };
            let room = text.len() + 1 - length.min(text.len());
            if at + 64 > room {
                starts &= if at >= room { 0 } else { u64::MAX >> (64 - (room - at)) };
            }
            while starts != 0 {
                if !found(at + starts.trailing_zeros() as usize) {
                    return;
                }
                starts &= starts - 1;
            }
            std::mem::swap(&mut this, &mut next);
            at += 64;
        }
    }

    fn exact(&self, this: &BlockMasks, next: &BlockMasks) -> u64 {
        let mut starts = this[self.word[0]];
        for (at, class) in self.word.iter().enumerate().skip(1) {
            starts &= (this[*class] >> at) | (next[*class] << (64 - at));
            if starts == 0 {
                break;
            }
        }
        starts
    }

    /// Counts errors with one bit per counter and number: `row[i]` has the starts with more than `i` errors.
    fn near(&self, this: &BlockMasks, next: &BlockMasks) -> u64 {
        let mut rows = [0u64; LONGEST_WORD + 1];
        let rows = &mut rows[..=self.limit.min(LONGEST_WORD)];
        for (at, class) in self.word.iter().enumerate() {
            let shifted =
                if at == 0 { this[*class] } else { (this[*class] >> at) | (next[*class] << (64 - at)) };
            let mut carry = !shifted;
            for row in rows.iter_mut() {
                (*row, carry) = (*row | carry, *row & carry);
            }
        }
        rows.last().map_or(0, |too_many| !too_many)
    }

    /// The masks of the classes for the residues from `at` on; residues beyond the end belong to none.
    fn block(&self, text: &[u8], at: usize, out: &mut BlockMasks) {
        let Some(block) = text.get(at..at + 64) else {
            let rest = text.get(at..).unwrap_or_default();
            return self.look_up(rest, out);
        };
        let mut letters = [0u64; 256];
        for quarter in 0..4 {
            let bytes: [u8; 16] = block[quarter * 16..quarter * 16 + 16].try_into().unwrap_or_default();
            let bytes = u8x16::from(bytes);
            for (letter, mask) in self.letters.iter().zip(&mut letters) {
                *mask |= u64::from(same(bytes, *letter)) << (quarter * 16);
            }
        }
        if self.only_letters && letters[0] | letters[1] | letters[2] | letters[3] != u64::MAX {
            return self.look_up(block, out);
        }
        for (at, mask) in self.masks.iter().enumerate() {
            let any = |members: &[usize]| members.iter().fold(0, |all, letter| all | letters[*letter]);
            out[at] = match mask {
                ClassMask::Any => u64::MAX,
                ClassMask::Letters(members) => any(members),
                ClassMask::Not(members) => !any(members),
                ClassMask::Table => {
                    let bits = block.iter().enumerate();
                    bits.fold(0, |mask, (bit, letter)| {
                        mask | (self.table[usize::from(*letter)] >> at & 1) << bit
                    })
                }
            };
        }
    }

    fn look_up(&self, block: &[u8], out: &mut BlockMasks) {
        out[..self.classes.len()].fill(0);
        for (bit, letter) in block.iter().enumerate() {
            let row = self.table[usize::from(*letter)];
            for (at, mask) in out[..self.classes.len()].iter_mut().enumerate() {
                *mask |= (row >> at & 1) << bit;
            }
        }
    }
}

#[inline]
fn same(bytes: u8x16, letter: u8) -> u32 {
    bytes.simd_eq(u8x16::splat(letter)).to_bitmask()
}
