//! Seeded random texts and queries.
#![allow(dead_code, reason = "each test uses a part")]

use aqueduct_motif::query::ResidueKind;
use aqueduct_testkit::rng::SeededRng;

/// A source of random numbers.
pub(crate) struct RandomSource(SeededRng);

impl RandomSource {
    /// From the seed of `AQUEDUCT_SEED`.
    pub(crate) fn from_environment() -> Self {
        Self(SeededRng::from_environment(4711))
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit)
    }

    /// One of the values.
    pub(crate) fn one<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// A text of up to `longest` residues, often of few letters, sometimes with ambiguity codes.
    pub(crate) fn text(&mut self, kind: ResidueKind, longest: usize) -> Vec<u8> {
        let length = longest / 2 + self.below(longest / 2 + 1);
        let letters: &[u8] = match (kind, self.below(4)) {
            (ResidueKind::Protein, _) => b"ACDEFGHIKLMNPQRSTVWYX",
            (_, 0) => b"AC",
            (_, 1) => b"ACGTNRW",
            _ => b"ACGT",
        };
        (0..length).map(|_| self.one(letters)).collect()
    }

    /// A query whose words are short enough for the naive search.
    pub(crate) fn query(&mut self, kind: ResidueKind) -> String {
        let terms = [1, 1, 1, 2, 3][self.below(5)];
        (0..terms).map(|_| self.term(kind, terms)).collect::<Vec<_>>().join("@")
    }

    fn term(&mut self, kind: ResidueKind, terms: usize) -> String {
        let expression = self.expression(kind, if terms == 1 { 3 } else { 2 });
        let calls: &[&str] = match kind {
            ResidueKind::Protein => &["length(1,5)", "hydropathy(-1,5)", "charge(-1,1)", "entropy(0.5,9)"],
            _ => &["length(2,5)", "gc(20,70)", "skew(0,1)", "palindrome(2)", "tm(0,20)"],
        };
        match self.below(6) {
            0 => format!("({expression})/{}", self.one(calls)),
            1 => format!("({expression})/hamming({})", self.below(3)),
            2 => format!("({expression})/edit({})", self.below(3)),
            3 => format!("({expression})/edit(1),{}", self.one(calls)),
            _ => expression,
        }
    }

    fn expression(&mut self, kind: ResidueKind, parts: usize) -> String {
        (0..=self.below(parts)).map(|_| self.part(kind)).collect()
    }

    fn part(&mut self, kind: ResidueKind) -> String {
        let letter = |random: &mut Self| match kind {
            ResidueKind::Protein => random.one(&["A", "C", "L", "K", "X", "[^P]", "[ST]", "."]),
            _ => random.one(&["A", "C", "G", "T", "N", "W", "[^A]", "R", "."]),
        };
        let word: String = (0..=self.below(4)).map(|_| letter(self)).collect();
        let other: String = (0..=self.below(2)).map(|_| letter(self)).collect();
        match self.below(7) {
            0 => format!("({word}|{other})"),
            1 => format!("({other}|)"),
            2 => format!("{other}{{1,3}}"),
            3 => format!("{}{}", other, self.one(&["?", "+", "*", "{2}"])),
            4 => format!("({word}|{other}){{0,2}}"),
            _ => word,
        }
    }
}
