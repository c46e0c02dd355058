//! Search of a text in memory: a prefilter finds candidates, automata verify them.

mod automaton;
mod class_scan;
mod edit_scan;
pub mod estimate;
mod prefilter;
pub mod work_meter;

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use automaton::{AutomatonState, TermAutomaton};
use prefilter::{LONGEST_REGEX_MATCH, Prefilter, Scan};
use regex::bytes::Regex;
use work_meter::{InterruptCondition, WorkMeter};

use crate::query::Query;

/// Starts that are searched by a regular expression at once.
const REGEX_CHUNK: usize = 1 << 14;
/// Operations per residue that a regular expression may need.
const REGEX_WORK: u64 = 64;

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
    meter: WorkMeter,
}

/// The best hit from a term and a position on: the end of the whole, and the end of the term.
type BestEnd = Option<(usize, usize)>;
/// The best hits from terms and positions on.
type KnownEnds = HashMap<(usize, usize), BestEnd>;

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
            meter: WorkMeter::default(),
        }
    }

    /// Ends searches early if the condition is met.
    #[must_use]
    pub fn stop_if(mut self, condition: Option<Rc<dyn InterruptCondition>>) -> Self {
        self.meter = WorkMeter::new(condition);
        self
    }

    /// Whether the condition was met: hits may be missing.
    pub fn was_stopped(&self) -> bool {
        self.meter.is_stopped()
    }

    /// The method that finds candidates.
    pub fn method(&self) -> &'static str {
        self.prefilter.name()
    }

    /// The length of the longest hit.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Calls `found` with the start and the ends of the terms of each hit that starts in `starts`, in ascending order of starts, until it
    /// returns false. Hits lie in `text`, which is in normal form.
    pub fn search(
        &mut self,
        text: &[u8],
        starts: Range<usize>,
        mut found: impl FnMut(usize, &[usize]) -> bool,
    ) {
        let starts = starts.start..starts.end.min(text.len());
        if starts.is_empty() {
            return;
        }
        let prefilter = Arc::clone(&self.prefilter);
        let from = starts.start;
        let to = text.len().min(starts.end.saturating_add(self.longest));
        let window = &text[from..to];
        let limit = starts.len();
        if let (Some(length), Scan::Classes(scanner)) = (prefilter.exact_length, &prefilter.scan) {
            let lengths: Vec<usize> = self.term_lengths(length);
            let mut ends = vec![0; lengths.len()];
            scanner.scan(window, |at| {
                let wanted = at < limit && length <= self.longest;
                ends.iter_mut().zip(&lengths).for_each(|(end, length)| *end = from + at + length);
                wanted && found(from + at, &ends)
            });
            return;
        }
        let mut occurrences = std::mem::take(&mut self.candidates);
        occurrences.clear();
        match &prefilter.scan {
            Scan::Everything => occurrences.extend(0..limit),
            Scan::Classes(scanner) => scanner.scan(window, |at| {
                occurrences.push(at);
                true
            }),
            Scan::Edit(scanner) => {
                scanner.scan(window, &mut occurrences);
                occurrences.reverse();
            }
            Scan::Literals(automaton) => {
                occurrences.extend(automaton.find_overlapping_iter(window).map(|word| word.start()));
                occurrences.sort_unstable();
            }
            Scan::Regex(regex) => scan_regex(regex, window, limit, &mut self.meter, &mut occurrences),
        }
        self.verify_all(text, &starts, &occurrences, &prefilter, &mut found);
        self.candidates = occurrences;
    }

    /// Verifies the starts that the occurrences of the prefilter allow.
    fn verify_all(
        &mut self,
        text: &[u8],
        starts: &Range<usize>,
        occurrences: &[usize],
        prefilter: &Prefilter,
        found: &mut impl FnMut(usize, &[usize]) -> bool,
    ) {
        let mut next = 0;
        for occurrence in occurrences {
            let first = occurrence.saturating_sub(prefilter.most_offset).max(next);
            let Some(last) = occurrence.checked_sub(prefilter.least_offset) else { continue };
            let last = last.min(starts.len() - 1);
            for at in first..=last {
                if !self.verify(text, starts.start + at, found) {
                    return;
                }
            }
            next = next.max(last + 1);
        }
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

    /// Reports the hits of a start. Returns whether to go on.
    fn verify(&mut self, text: &[u8], start: usize, found: &mut impl FnMut(usize, &[usize]) -> bool) -> bool {
        let text = &text[..text.len().min(start + self.longest)];
        if self.every {
            let mut ends = Vec::with_capacity(self.automata.len());
            return self.all_from(text, start, start, &mut ends, found);
        }
        let mut known = KnownEnds::new();
        let best = self.best_from(text, 0, start, &mut known);
        if self.meter.is_stopped() {
            return false;
        }
        let Some((whole, first)) = best.filter(|(whole, _)| *whole > start) else { return true };
        let mut ends = vec![first];
        for term in 1..self.automata.len() {
            let end = known.get(&(term, ends[term - 1])).copied().flatten();
            ends.push(end.map_or(whole, |(_, end)| end));
        }
        found(start, &ends)
    }

    fn accepted_ends(&mut self, text: &[u8], term: usize, start: usize) -> Vec<usize> {
        let mut ends = Vec::new();
        let Self { automata, state, meter, query, .. } = self;
        automata[term].ends(text, start, state, meter, |end| ends.push(end));
        let term = &query.terms[term];
        if !term.constraints.is_empty() {
            ends.retain(|end| meter.add((end - start) as u64) && term.accepts(&text[start..*end]));
        }
        ends
    }

    /// The longest continuation; among equal ones, that with the longest first term.
    fn best_from(&mut self, text: &[u8], term: usize, start: usize, known: &mut KnownEnds) -> BestEnd {
        if let Some(best) = known.get(&(term, start)) {
            return *best;
        }
        let ends = self.accepted_ends(text, term, start);
        let mut best: BestEnd = None;
        if term + 1 == self.automata.len() {
            best = ends.last().map(|end| (*end, *end));
        } else {
            for end in ends.into_iter().rev() {
                if self.meter.is_stopped() {
                    return None;
                }
                if let Some((whole, _)) = self.best_from(text, term + 1, end, known)
                    && best.is_none_or(|(longest, _)| whole > longest)
                {
                    best = Some((whole, end));
                }
            }
        }
        if term > 0 {
            known.insert((term, start), best);
        }
        best
    }

    /// Reports all hits of a start. Returns whether to go on.
    fn all_from(
        &mut self,
        text: &[u8],
        start: usize,
        at: usize,
        ends: &mut Vec<usize>,
        found: &mut impl FnMut(usize, &[usize]) -> bool,
    ) -> bool {
        let term = ends.len();
        if term == self.automata.len() {
            return at == start || found(start, ends);
        }
        for end in self.accepted_ends(text, term, at) {
            ends.push(end);
            let goes_on = !self.meter.is_stopped() && self.all_from(text, start, end, ends, found);
            ends.pop();
            if !goes_on {
                return false;
            }
        }
        !self.meter.is_stopped()
    }
}

/// Adds the starts of matches below `limit`, by parts that are short enough to stop in between.
fn scan_regex(regex: &Regex, window: &[u8], limit: usize, meter: &mut WorkMeter, starts: &mut Vec<usize>) {
    let mut at = 0;
    while at < limit {
        // A match that starts in the chunk also ends in this part.
        let chunk = (at + REGEX_CHUNK).min(limit);
        let part = &window[..window.len().min(chunk + LONGEST_REGEX_MATCH)];
        let found = regex.find_at(part, at).map(|found| found.start()).filter(|start| *start < chunk);
        let next = found.map_or(chunk, |start| start + 1);
        starts.extend(found);
        if !meter.add((next - at + LONGEST_REGEX_MATCH) as u64 * REGEX_WORK) {
            return;
        }
        at = next;
    }
}
