//! Constraints: functions of the matched part with bounds.

use super::alphabet::{ResidueKind, complement};

/// The arguments that a function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintArguments {
    /// The least and the greatest value.
    Bounds,
    /// The greatest value, an integer of at least 0.
    Limit,
}

/// A function that may constrain a term. A user of the library adds one to a [`QueryGrammar`](super::QueryGrammar).
#[derive(Clone, Copy, Debug)]
pub struct ConstraintFunction {
    /// Its name in queries.
    pub name: &'static str,
    /// What it computes, with the unit.
    pub summary: &'static str,
    /// Its arguments.
    pub arguments: ConstraintArguments,
    /// Whether it applies to nucleotides, and to proteins.
    pub applies_to: fn(ResidueKind) -> bool,
    /// Whether a part and its reverse complement have the same value.
    pub strand_symmetric: bool,
    /// The value of a part (upper case). A value that is not a number fulfils no constraint.
    pub value: fn(&[u8]) -> f64,
}

impl PartialEq for ConstraintFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// A constraint of a term.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstraintCall {
    /// The function.
    pub function: ConstraintFunction,
    /// The least value.
    pub least: f64,
    /// The greatest value.
    pub most: f64,
}

impl ConstraintCall {
    /// Whether it holds for a part.
    pub fn holds(&self, part: &[u8]) -> bool {
        let value = (self.function.value)(part);
        value >= self.least && value <= self.most
    }
}

fn any(_: ResidueKind) -> bool {
    true
}

fn nucleotides(kind: ResidueKind) -> bool {
    kind.has_strands()
}

fn proteins(kind: ResidueKind) -> bool {
    !kind.has_strands()
}

/// The built-in functions.
pub const FUNCTIONS: &[ConstraintFunction] = &[
    function("length", "number of residues", any, true, |part| part.len() as f64),
    function("gc", "per cent of G and C", nucleotides, true, gc),
    function("tm", "melting temperature in degrees Celsius", nucleotides, true, melting_temperature),
    function("skew", "(G - C)/(G + C)", nucleotides, false, skew),
    function("entropy", "Shannon entropy in bits per residue", any, true, entropy),
    ConstraintFunction {
        arguments: ConstraintArguments::Limit,
        ..function(
            "palindrome",
            "residues that differ from the reverse complement",
            nucleotides,
            true,
            palindrome,
        )
    },
    function("hydropathy", "mean hydropathy after Kyte and Doolittle", proteins, true, hydropathy),
    function("charge", "net charge: K, R +1, H +0.1, D, E -1", proteins, true, charge),
    function("mass", "average mass in dalton, with one water", proteins, true, mass),
    function("pi", "isoelectric point", proteins, true, isoelectric_point),
];

const fn function(
    name: &'static str,
    summary: &'static str,
    applies_to: fn(ResidueKind) -> bool,
    strand_symmetric: bool,
    value: fn(&[u8]) -> f64,
) -> ConstraintFunction {
    ConstraintFunction {
        name,
        summary,
        arguments: ConstraintArguments::Bounds,
        applies_to,
        strand_symmetric,
        value,
    }
}

fn count(part: &[u8], letters: &[u8]) -> f64 {
    part.iter().filter(|letter| letters.contains(letter)).count() as f64
}

fn gc(part: &[u8]) -> f64 {
    100.0 * count(part, b"GCS") / part.len() as f64
}

/// After Wallace (below 14 residues) and Marmur and Doty.
fn melting_temperature(part: &[u8]) -> f64 {
    let (weak, strong) = (count(part, b"ATUW"), count(part, b"GCS"));
    if part.len() < 14 {
        return 2.0 * weak + 4.0 * strong;
    }
    64.9 + 41.0 * (strong - 16.4) / part.len() as f64
}

fn skew(part: &[u8]) -> f64 {
    let (g, c) = (count(part, b"G"), count(part, b"C"));
    (g - c) / (g + c)
}

fn entropy(part: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    part.iter().for_each(|letter| counts[usize::from(*letter)] += 1);
    let share = |count: &u32| f64::from(*count) / part.len() as f64;
    counts.iter().filter(|count| **count > 0).map(share).map(|share| -share * share.log2()).sum::<f64>() + 0.0
}

fn palindrome(part: &[u8]) -> f64 {
    let differs = |(a, b): &(&u8, &u8)| **a != complement(**b);
    part.iter().zip(part.iter().rev()).filter(differs).count() as f64
}

/// Kyte and Doolittle, J. Mol. Biol. 157 (1982), table 2.
fn hydropathy(part: &[u8]) -> f64 {
    let value = |letter: &u8| match letter {
        b'I' => 4.5,
        b'V' => 4.2,
        b'L' => 3.8,
        b'F' => 2.8,
        b'C' => 2.5,
        b'M' => 1.9,
        b'A' => 1.8,
        b'G' => -0.4,
        b'T' => -0.7,
        b'S' => -0.8,
        b'W' => -0.9,
        b'Y' => -1.3,
        b'P' => -1.6,
        b'H' => -3.2,
        b'E' | b'Q' | b'D' | b'N' => -3.5,
        b'K' => -3.9,
        b'R' => -4.5,
        _ => 0.0,
    };
    part.iter().map(value).sum::<f64>() / part.len() as f64
}

fn charge(part: &[u8]) -> f64 {
    count(part, b"KR") + 0.1 * count(part, b"H") - count(part, b"DE")
}

/// Average masses of residues in dalton.
fn mass(part: &[u8]) -> f64 {
    let value = |letter: &u8| match letter {
        b'G' => 57.0519,
        b'A' => 71.0788,
        b'S' => 87.0782,
        b'P' => 97.1167,
        b'V' => 99.1326,
        b'T' => 101.1051,
        b'C' => 103.1388,
        b'L' | b'I' | b'J' => 113.1594,
        b'N' => 114.1038,
        b'D' => 115.0886,
        b'Q' => 128.1307,
        b'K' => 128.1741,
        b'E' => 129.1155,
        b'M' => 131.1926,
        b'H' => 137.1411,
        b'F' => 147.1766,
        b'R' => 156.1875,
        b'Y' => 163.1760,
        b'W' => 186.2132,
        b'U' => 150.0388,
        b'O' => 237.3018,
        _ => f64::NAN,
    };
    part.iter().map(value).sum::<f64>() + 18.0153
}

/// The pH at which the net charge is 0, by bisection; pK values of EMBOSS.
fn isoelectric_point(part: &[u8]) -> f64 {
    let positive =
        [(count(part, b"K"), 10.8), (count(part, b"R"), 12.5), (count(part, b"H"), 6.5), (1.0, 8.6)];
    let negative = [
        (count(part, b"D"), 3.9),
        (count(part, b"E"), 4.1),
        (count(part, b"C"), 8.5),
        (count(part, b"Y"), 10.1),
        (1.0, 3.6),
    ];
    let net = |ph: f64| {
        let charged = |exponent: f64| 1.0 / (1.0 + 10f64.powf(exponent));
        positive.iter().map(|(count, pk)| count * charged(ph - pk)).sum::<f64>()
            - negative.iter().map(|(count, pk)| count * charged(pk - ph)).sum::<f64>()
    };
    let (mut low, mut high) = (0.0, 14.0);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if net(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, part: &[u8]) -> f64 {
        let function = FUNCTIONS.iter().find(|function| function.name == name).unwrap();
        (function.value)(part)
    }

    #[test]
    fn values_are_those_of_tables() {
        let table: [(&str, &[u8], f64); 17] = [
            ("length", b"ACGT", 4.0),
            ("gc", b"ACGT", 50.0),
            ("gc", b"AAAT", 0.0),
            ("tm", b"ACGTACGT", 24.0),
            ("tm", b"ACGTACGTACGTACGTACGT", 64.9 + 41.0 * (10.0 - 16.4) / 20.0),
            ("skew", b"GGGC", 0.5),
            ("entropy", b"ACGT", 2.0),
            ("entropy", b"AAAA", 0.0),
            ("palindrome", b"GAATTC", 0.0),
            ("palindrome", b"GAATTA", 2.0),
            ("hydropathy", b"IR", 0.0),
            ("hydropathy", b"IV", 4.35),
            ("charge", b"KKRHDE", 1.1),
            // Glycylglycine has 132.118 Da.
            ("mass", b"GG", 132.119_1),
            // A peptide without charged side chains: the mean of the terminal pK values.
            ("pi", b"GGG", 6.1),
            ("pi", b"K", 9.7),
            ("pi", b"D", 3.75),
        ];
        for (name, part, expected) in table {
            let found = value(name, part);
            assert!((found - expected).abs() < 2e-3, "{name}({}) = {found}", String::from_utf8_lossy(part));
        }
        assert!(value("skew", b"AAA").is_nan());
    }
}
