//! The oracle of the tests: a search that tries every start and every division into terms, written straight from the definition.
//!
//! An expression is written out as lists of classes, and the distance between a list and a part is computed by dynamic programming. It is slow,
//! and only for short sequences and queries.

use crate::query::{ErrorModel, Expression, Query, QueryTerm, ResidueClass};

/// A hit: where it starts, and where each term ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NaiveHit {
    /// The first residue, counted from 0.
    pub start: usize,
    /// The end of each term.
    pub ends: Vec<usize>,
}

/// The hits of a query in a text (normal form). Without `every`, each start has one: the longest, and among those the one whose first
/// terms are longest.
pub fn search(query: &Query, text: &[u8], longest: usize, every: bool) -> Vec<NaiveHit> {
    let words: Vec<Vec<Vec<ResidueClass>>> =
        query.terms.iter().map(|term| written_out(&term.expression, longest + 8)).collect();
    let mut hits = Vec::new();
    for start in 0..text.len() {
        let limit = text.len().min(start + longest);
        let mut found = Vec::new();
        divide(&query.terms, &words, &text[..limit], start, &mut Vec::new(), &mut found);
        found.retain(|ends: &Vec<usize>| ends.last().is_some_and(|end| *end > start));
        found.sort_by(|a, b| (b.last(), b).cmp(&(a.last(), a)));
        found.dedup();
        found.truncate(if every { usize::MAX } else { 1 });
        hits.extend(found.into_iter().map(|ends| NaiveHit { start, ends }));
    }
    hits
}

fn divide(
    terms: &[QueryTerm],
    words: &[Vec<Vec<ResidueClass>>],
    text: &[u8],
    start: usize,
    ends: &mut Vec<usize>,
    found: &mut Vec<Vec<usize>>,
) {
    let [term, rest @ ..] = terms else {
        found.push(ends.clone());
        return;
    };
    for end in start..=text.len() {
        let part = &text[start..end];
        if words[0].iter().any(|word| is_near(term.errors, word, part)) && term.accepts(part) {
            ends.push(end);
            divide(rest, &words[1..], text, end, ends, found);
            ends.pop();
        }
    }
}

fn is_near(errors: ErrorModel, word: &[ResidueClass], part: &[u8]) -> bool {
    let wrong = || word.iter().zip(part).filter(|(class, letter)| !class.contains(**letter)).count();
    match errors {
        ErrorModel::Exact => word.len() == part.len() && wrong() == 0,
        ErrorModel::Hamming(limit) => word.len() == part.len() && wrong() <= limit as usize,
        ErrorModel::Edit(limit) => edit_distance(word, part) <= limit as usize,
    }
}

/// The Levenshtein distance between a word and a part, by dynamic programming.
pub fn edit_distance(word: &[ResidueClass], part: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=part.len()).collect();
    for (i, class) in word.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, letter) in part.iter().enumerate() {
            let substituted = diagonal + usize::from(!class.contains(*letter));
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[part.len()]
}

/// All words of up to `longest` letters, each as a list of classes.
fn written_out(expression: &Expression, longest: usize) -> Vec<Vec<ResidueClass>> {
    let mut words = match expression {
        Expression::Class(class) => vec![vec![*class]],
        Expression::Sequence(parts) => parts
            .iter()
            .fold(vec![Vec::new()], |words, part| append(&words, &written_out(part, longest), longest)),
        Expression::Alternatives(parts) => parts.iter().flat_map(|part| written_out(part, longest)).collect(),
        Expression::Repeat { inner, least, most } => {
            let inner = written_out(inner, longest);
            let mut words = vec![Vec::new()];
            for _ in 0..*least {
                words = append(&words, &inner, longest);
            }
            let mut last = words.clone();
            for _ in *least..most.unwrap_or(longest as u32).min(longest as u32) {
                last = append(&last, &inner, longest);
                words.extend(last.iter().cloned());
            }
            words
        }
    };
    words.sort();
    words.dedup();
    words
}

fn append(words: &[Vec<ResidueClass>], more: &[Vec<ResidueClass>], longest: usize) -> Vec<Vec<ResidueClass>> {
    let joined = words.iter().flat_map(|word| more.iter().map(move |next| [&word[..], next].concat()));
    let mut joined: Vec<_> = joined.filter(|word| word.len() <= longest).collect();
    joined.sort();
    joined.dedup();
    joined
}
