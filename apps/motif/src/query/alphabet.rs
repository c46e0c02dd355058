//! Residues: the letters of DNA, RNA and proteins, ambiguity codes and classes of letters.
//!
//! A letter of a sequence belongs to the class of a letter of a query if everything that it may stand for is allowed: `R` (A or G) in a
//! query matches `A`, `G` and `R`. The codes are those of the
//! [IUPAC-IUB recommendations of 1984](https://doi.org/10.1093/nar/13.9.3021).

/// A kind of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResidueKind {
    /// Deoxyribonucleic acid.
    Dna,
    /// Ribonucleic acid. `U` and `T` are the same letter.
    Rna,
    /// Amino acids.
    Protein,
}

const AMINO_ACIDS: &[u8] = b"ACDEFGHIKLMNPQRSTVWYUO";

impl ResidueKind {
    /// Whether sequences have a second strand.
    pub fn has_strands(self) -> bool {
        self != Self::Protein
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dna => "dna",
            Self::Rna => "rna",
            Self::Protein => "protein",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Dna, Self::Rna, Self::Protein].into_iter().find(|kind| kind.name() == name)
    }

    /// The residues that a letter (upper case) stands for, as bits; 0 if it is no letter of this kind.
    pub fn meaning(self, letter: u8) -> u32 {
        if self == Self::Protein {
            let bits = |letters: &[u8]| letters.iter().map(|letter| self.meaning(*letter)).sum();
            return match letter {
                b'B' => bits(b"DN"),
                b'Z' => bits(b"EQ"),
                b'J' => bits(b"IL"),
                b'X' => bits(AMINO_ACIDS),
                _ => AMINO_ACIDS.iter().position(|known| *known == letter).map_or(0, |at| 1 << at),
            };
        }
        match letter {
            b'A' => 1,
            b'C' => 2,
            b'G' => 4,
            b'T' | b'U' => 8,
            b'R' => 5,
            b'Y' => 10,
            b'S' => 6,
            b'W' => 9,
            b'K' => 12,
            b'M' => 3,
            b'B' => 14,
            b'D' => 13,
            b'H' => 11,
            b'V' => 7,
            b'N' => 15,
            _ => 0,
        }
    }

    /// All residues, as bits.
    pub fn all_meanings(self) -> u32 {
        self.meaning(if self == Self::Protein { b'X' } else { b'N' })
    }

    /// The letters, in normal form, that stand for these residues only.
    pub fn class_of(self, allowed: u32) -> ResidueClass {
        let mut class = ResidueClass::default();
        for letter in b'A'..=b'Z' {
            let meaning = self.meaning(letter);
            if self.normal_form(letter) == letter && meaning != 0 && meaning & !allowed == 0 {
                class.insert(letter);
            }
        }
        class
    }

    /// The letter as it is searched: upper case; `U` is `T` in nucleotides.
    pub fn normal_form(self, letter: u8) -> u8 {
        match letter.to_ascii_uppercase() {
            b'U' if self.has_strands() => b'T',
            letter => letter,
        }
    }

    /// The share of this class among residues that are equally frequent.
    pub fn frequency(self, class: &ResidueClass) -> f64 {
        let letters: &[u8] = if self == Self::Protein { &AMINO_ACIDS[..20] } else { b"ACGT" };
        letters.iter().filter(|letter| class.contains(**letter)).count() as f64 / letters.len() as f64
    }
}

/// The complement of a nucleotide or of an ambiguity code; other letters stay.
pub const fn complement(letter: u8) -> u8 {
    match letter {
        b'A' => b'T',
        b'C' => b'G',
        b'G' => b'C',
        b'T' | b'U' => b'A',
        b'R' => b'Y',
        b'Y' => b'R',
        b'K' => b'M',
        b'M' => b'K',
        b'B' => b'V',
        b'V' => b'B',
        b'D' => b'H',
        b'H' => b'D',
        _ => letter,
    }
}

/// Writes the reverse complement of `text` to `out`.
pub fn reverse_complement(text: &[u8], out: &mut Vec<u8>) {
    const TABLE: [u8; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            table[at] = complement(at as u8);
            at += 1;
        }
        table
    };
    out.clear();
    out.extend(text.iter().rev().map(|letter| TABLE[usize::from(*letter)]));
}

/// A set of letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResidueClass([u64; 4]);

impl ResidueClass {
    /// Every letter: `.`.
    pub const ANY: Self = Self([u64::MAX; 4]);

    /// One letter.
    pub fn of(letter: u8) -> Self {
        let mut class = Self::default();
        class.insert(letter);
        class
    }

    /// Adds a letter.
    pub fn insert(&mut self, letter: u8) {
        self.0[usize::from(letter >> 6)] |= 1 << (letter & 63);
    }

    /// Whether it has a letter.
    pub fn contains(&self, letter: u8) -> bool {
        self.0[usize::from(letter >> 6)] >> (letter & 63) & 1 == 1
    }

    /// The letters of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// All letters that it does not have.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self(self.0.map(|word| !word))
    }

    /// The letters, in order.
    pub fn letters(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=255).filter(|letter| self.contains(*letter))
    }

    /// The complements of its letters.
    #[must_use]
    pub fn complement(&self) -> Self {
        if *self == Self::ANY {
            return *self;
        }
        let mut class = Self::default();
        self.letters().for_each(|letter| class.insert(complement(letter)));
        class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_matches_what_it_stands_for_and_narrower_codes() {
        let class = |letter| ResidueKind::Dna.class_of(ResidueKind::Dna.meaning(letter));
        let letters = |letter| String::from_utf8(class(letter).letters().collect()).unwrap();
        assert_eq!(letters(b'R'), "AGR");
        assert_eq!(letters(b'V'), "ACGMRSV");
        assert_eq!(letters(b'N').len(), 15);
        let protein = ResidueKind::Protein;
        assert!(protein.class_of(protein.meaning(b'B')).letters().eq(*b"BDN"));
        assert_eq!(protein.all_meanings().count_ones(), 22);
    }

    #[test]
    fn the_complement_of_a_code_stands_for_the_complements() {
        for letter in b'A'..=b'Z' {
            let meaning = ResidueKind::Dna.meaning(letter);
            let reversed = (0..4).filter(|bit| meaning >> bit & 1 == 1).map(|bit| 8u32 >> bit).sum::<u32>();
            assert_eq!(ResidueKind::Dna.meaning(complement(letter)), reversed, "{}", letter as char);
        }
        let mut out = Vec::new();
        reverse_complement(b"AACGTN", &mut out);
        assert_eq!(out, b"NACGTT");
    }
}
