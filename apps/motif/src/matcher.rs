//! Search of a text in memory: a prefilter finds candidates, automata verify them.

mod automaton;
mod class_scan;
mod edit_scan;
mod prefilter;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use automaton::{AutomatonState, TermAutomaton};
use prefilter::{Prefilter, Scan};

use crate::query::Query;

/// Finds the hits of a query in texts.
#[derive(Clone, Debug)]
pub struct Matcher {
    query: Arc<Query>,
    automata: Arc<[TermAutomaton]>,
    prefilter: Arc<Prefilter>,
    longest: usize,
    every: bool,
    state: AutomatonState,
    candidates: Vec<usize>,
}

/// The best hit from a term and a position on: the end of the whole, and the ends of the terms.
type BestEnds = Option<(usize, Vec<usize>)>;

impl Matcher {
    /// With hits of at most `longest` residues; with `every`, all divisions into terms and all ends of each start.
    pub fn new(query: &Query, longest: usize, every: bool) -> Self {
        let automata =
            query.terms.iter().map(|term| TermAutomaton::new(&term.expression, term.errors)).collect();
        Self {
            query: Arc::new(query.clone()),
            automata,
            prefilter: Arc::new(Prefilter::new(query)),
            longest,
            every,
            state: AutomatonState::default(),
            candidates: Vec::new(),
        }
    }

    /// The method that finds candidates.
    pub fn method(&self) -> &'static str {
        self.prefilter.name()
    }

    /// The length of the longest hit.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Calls `found` with the start and the ends of the terms of each hit that starts in `starts`, in ascending order of starts.
    /// Hits lie in `text`, which is in normal form.
    pub fn search(&mut self, text: &[u8], starts: Range<usize>, mut found: impl FnMut(usize, &[usize])) {
        let starts = starts.start..starts.end.min(text.len());
        if starts.is_empty() {
            return;
        }
        let prefilter = Arc::clone(&self.prefilter);
        let Prefilter { scan, least_offset, most_offset, exact_length } = &*prefilter;
        let (least_offset, most_offset) = (*least_offset, *most_offset);
        let from = starts.start;
        let to = text.len().min(starts.end.saturating_add(self.longest));
        let window = &text[from..to];
        let limit = starts.len();
        if let (Some(length), Scan::Classes(scanner)) = (*exact_length, scan) {
            let lengths: Vec<usize> = self.term_lengths(length);
            let mut ends = vec![0; lengths.len()];
            scanner.scan(window, |at| {
                if at < limit && length <= self.longest {
                    ends.iter_mut().zip(&lengths).for_each(|(end, length)| *end = from + at + length);
                    found(from + at, &ends);
                }
            });
            return;
        }
        let mut occurrences = std::mem::take(&mut self.candidates);
        occurrences.clear();
        match scan {
            Scan::Everything => occurrences.extend(0..limit),
            Scan::Classes(scanner) => scanner.scan(window, |at| occurrences.push(at)),
            Scan::Edit(scanner) => {
                scanner.scan(window, &mut occurrences);
                occurrences.reverse();
            }
            Scan::Literals(automaton) => {
                occurrences.extend(automaton.find_overlapping_iter(window).map(|word| word.start()));
                occurrences.sort_unstable();
            }
            Scan::Regex(regex) => {
                let mut at = 0;
                while let Some(found) = regex.find_at(window, at).filter(|found| found.start() < limit) {
                    occurrences.push(found.start());
                    at = found.start() + 1;
                }
            }
        }
        let mut next = 0;
        for occurrence in &occurrences {
            let first = occurrence.saturating_sub(most_offset).max(next);
            let Some(last) = occurrence.checked_sub(least_offset).map(|last| last.min(limit - 1)) else {
                continue;
            };
            for at in first..=last {
                self.verify(text, from + at, &mut found);
            }
            next = next.max(last + 1);
        }
        self.candidates = occurrences;
    }

    /// The ends of the terms from the start of a hit, if all lengths are fixed.
    fn term_lengths(&self, whole: usize) -> Vec<usize> {
        let mut end = 0;
        let lengths = self.query.terms.iter().map(|term| {
            end += term.least_length();
            end
        });
        let lengths: Vec<usize> = lengths.collect();
        debug_assert_eq!(lengths.last(), Some(&whole));
        lengths
    }

    fn verify(&mut self, text: &[u8], start: usize, found: &mut impl FnMut(usize, &[usize])) {
        let text = &text[..text.len().min(start + self.longest)];
        if self.every {
            let mut ends = Vec::with_capacity(self.automata.len());
            self.all_from(text, start, start, &mut ends, found);
            return;
        }
        let mut known = HashMap::new();
        if let Some((end, mut ends)) = self.best_from(text, 0, start, &mut known)
            && end > start
        {
            ends.reverse();
            found(start, &ends);
        }
    }

    fn accepted_ends(&mut self, text: &[u8], term: usize, start: usize) -> Vec<usize> {
        let mut ends = Vec::new();
        self.automata[term].ends(text, start, &mut self.state, |end| ends.push(end));
        let term = &self.query.terms[term];
        if !term.constraints.is_empty() {
            ends.retain(|end| term.accepts(&text[start..*end]));
        }
        ends
    }

    /// The longest continuation; among equal ones, that with the longest first term. Its ends are in reverse order.
    fn best_from(
        &mut self,
        text: &[u8],
        term: usize,
        start: usize,
        known: &mut HashMap<(usize, usize), BestEnds>,
    ) -> BestEnds {
        let ends = self.accepted_ends(text, term, start);
        if term + 1 == self.automata.len() {
            return ends.last().map(|end| (*end, vec![*end]));
        }
        let mut best: BestEnds = None;
        for end in ends.into_iter().rev() {
            let rest = match known.get(&(term + 1, end)) {
                Some(rest) => rest.clone(),
                None => {
                    let rest = self.best_from(text, term + 1, end, known);
                    known.insert((term + 1, end), rest.clone());
                    rest
                }
            };
            if let Some((whole, mut ends)) = rest
                && best.as_ref().is_none_or(|(longest, _)| whole > *longest)
            {
                ends.push(end);
                best = Some((whole, ends));
            }
        }
        best
    }

    fn all_from(
        &mut self,
        text: &[u8],
        start: usize,
        at: usize,
        ends: &mut Vec<usize>,
        found: &mut impl FnMut(usize, &[usize]),
    ) {
        let term = ends.len();
        if term == self.automata.len() {
            if at > start {
                found(start, ends);
            }
            return;
        }
        for end in self.accepted_ends(text, term, at) {
            ends.push(end);
            self.all_from(text, start, end, ends, found);
            ends.pop();
        }
    }
}
