//! Estimates how many hits a query has in random sequences, so that a user is warned before a search with many errors finds nearly everything.

use std::collections::HashMap;

use super::automaton::{AutomatonState, TermAutomaton};
use crate::query::{Query, ResidueKind};

/// States of an automaton with probabilities. With more, the least probable ones are left out, and the estimate is a lower bound.
const MOST_STATES: usize = 1 << 12;
/// Work for all terms in operations on machine words, about a tenth of a second; when it is done, the estimate is a lower bound.
const MOST_WORK: usize = 1 << 27;

/// The expected number of hits per start in random residues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HitEstimate {
    /// The probability that a start has a hit, or a little more: constraints other than distances are not taken into account.
    pub per_start: f64,
    /// Whether the true value may be larger.
    pub is_lower_bound: bool,
}

/// What a term does in random residues.
struct TermEstimate {
    /// The probability that a part from a start on matches.
    matches: f64,
    /// The expected number of parts from a start on that match.
    parts: f64,
    is_lower_bound: bool,
}

impl HitEstimate {
    /// For a query with hits of at most `longest` residues: terms but the last one count with all parts that match.
    pub fn new(query: &Query, longest: usize) -> Self {
        let (mut per_start, mut is_lower_bound, mut work) = (1.0f64, false, MOST_WORK);
        for (at, term) in query.terms.iter().enumerate() {
            let automaton = TermAutomaton::new(&term.expression, term.errors);
            let longest = term.most_length().map_or(longest, |most| most.min(longest));
            let found = estimate(&automaton, query.kind, longest, &mut work);
            let is_last = at + 1 == query.terms.len();
            per_start *= if is_last { found.matches } else { found.parts };
            is_lower_bound |= found.is_lower_bound;
        }
        Self { per_start: per_start.min(1.0), is_lower_bound }
    }
}

/// Follows the sets of states that random letters lead to, each with its probability.
fn estimate(automaton: &TermAutomaton, kind: ResidueKind, longest: usize, work: &mut usize) -> TermEstimate {
    let letters: &[u8] = if kind == ResidueKind::Protein { b"ACDEFGHIKLMNPQRSTVWY" } else { b"ACGT" };
    let share = 1.0 / letters.len() as f64;
    let mut state = AutomatonState::default();
    automaton.start(&mut state);
    let mut result = TermEstimate { matches: 0.0, parts: 0.0, is_lower_bound: false };
    // Those that have matched before, and those that have not.
    let mut open: HashMap<(bool, Vec<u64>), f64> = HashMap::new();
    open.insert((false, state.rows.clone()), 1.0);
    for _ in 0..=longest {
        let mut next: HashMap<(bool, Vec<u64>), f64> = HashMap::new();
        for ((matched, rows), probability) in open {
            state.rows.clone_from(&rows);
            let accepts = automaton.accepts_now(&state);
            if accepts {
                result.parts += probability;
                result.matches += if matched { 0.0 } else { probability };
            }
            for letter in letters {
                state.rows.clone_from(&rows);
                automaton.step(*letter, &mut state);
                *work = work.saturating_sub(rows.len() * rows.len());
                if !state.is_empty() {
                    *next.entry((matched || accepts, state.rows.clone())).or_default() += probability * share;
                }
            }
        }
        if next.len() > MOST_STATES {
            let mut all: Vec<_> = next.into_iter().collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1));
            all.truncate(MOST_STATES);
            next = all.into_iter().collect();
            result.is_lower_bound = true;
        }
        if *work == 0 {
            result.is_lower_bound = true;
            break;
        }
        if next.is_empty() {
            break;
        }
        open = next;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_start(text: &str, kind: ResidueKind) -> f64 {
        let query = Query::parse(text, kind).unwrap();
        let estimate = HitEstimate::new(&query, query.most_length().unwrap_or(100));
        assert!(!estimate.is_lower_bound, "{text}");
        estimate.per_start
    }

    #[test]
    fn probabilities_of_words_are_exact() {
        let near =
            |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
        near(per_start("CC(A|T){6}GG", ResidueKind::Dna), 1.0 / 16384.0);
        near(per_start("A{0,1}C", ResidueKind::Dna), 0.25 + 1.0 / 16.0);
        near(per_start("AC @ GT", ResidueKind::Dna), 1.0 / 256.0);
        near(per_start("[ST]P", ResidueKind::Protein), 0.1 * 0.05);
        // Ten letters with at most one other than those of the word.
        near(per_start("(ACGTACGTAC)/hamming(1)", ResidueKind::Dna), (1.0 + 10.0 * 3.0) / 4f64.powi(10));
        // A or C (a deletion), else .C (a replacement), else .AC (an insertion).
        near(per_start("(AC)/edit(1)", ResidueKind::Dna), 0.5 + 0.5 * (0.25 + 0.25 * 0.25));
    }

    #[test]
    fn large_distances_are_estimated_in_bounded_time() {
        let query = Query::parse("(ACGTTGCATGCATTAGCATGCAAGTCAGTACA)/edit(12)", ResidueKind::Dna).unwrap();
        let start = std::time::Instant::now();
        let estimate = HitEstimate::new(&query, 44);
        assert!(estimate.per_start > 0.0 && estimate.per_start <= 1.0, "{estimate:?}");
        assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    }
}
