//! The choice of a prefilter: a cheap scan that finds a superset of the starts of all hits.

use std::fmt::Write as _;

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};

use super::class_scan::{ClassScanner, LONGEST_WORD};
use super::edit_scan::EditScanner;
use crate::query::{ErrorModel, Expression, Query, QueryTerm, ResidueClass, ResidueKind};

/// A prefilter must discard at least 1 - 2^-4 of all starts.
const LEAST_BITS: f64 = 4.0;
/// Matches of a regular expression without a small bound would be scanned again and again.
pub(crate) const LONGEST_REGEX_MATCH: usize = 1024;
const MOST_LITERALS: usize = 100_000;
/// A regular expression with more letters may need too long for one part of a text.
const MOST_REGEX_POSITIONS: usize = 512;
/// The most letters of a set of words.
const MOST_LITERAL_LETTERS: usize = 1 << 22;

/// What is scanned for.
#[derive(Clone, Debug)]
pub(crate) enum Scan {
    /// Every start is a candidate.
    Everything,
    /// A word of classes, with up to so many replaced residues.
    Classes(ClassScanner),
    /// A word with insertions and deletions.
    Edit(EditScanner),
    /// A set of words.
    Literals(Box<AhoCorasick>),
    /// The whole query as a regular expression.
    Regex(Box<Regex>),
}

/// A scan and where its occurrences lie in a hit.
#[derive(Clone, Debug)]
pub(crate) struct Prefilter {
    pub(crate) scan: Scan,
    /// The least and the greatest distance from the start of a hit to the occurrence.
    pub(crate) least_offset: usize,
    pub(crate) most_offset: usize,
    /// Whether each occurrence is a hit: its length, if hits need no verification.
    pub(crate) exact_length: Option<usize>,
}

/// A part of a query of which the length is known.
struct WordRun {
    word: Vec<ResidueClass>,
    errors: ErrorModel,
    least_offset: usize,
    most_offset: usize,
}

/// Collects runs of classes from left to right.
struct RunCollector {
    runs: Vec<WordRun>,
    open: Vec<ResidueClass>,
    least: usize,
    /// None after an element without a limit: later runs have no bounded offset.
    most: Option<usize>,
}

impl RunCollector {
    fn close(&mut self) {
        let word = std::mem::take(&mut self.open);
        let length = word.len();
        if let (Some(most), true) = (self.most, length > 0) {
            let errors = ErrorModel::Exact;
            self.runs.push(WordRun { word, errors, least_offset: self.least, most_offset: most });
        }
        self.skip(length, Some(length));
    }

    fn skip(&mut self, least: usize, most: Option<usize>) {
        self.least += least;
        self.most = self.most.zip(most).map(|(before, more)| before + more);
    }

    fn expression(&mut self, expression: &Expression) {
        match expression {
            Expression::Class(class) => self.open.push(*class),
            Expression::Sequence(parts) => parts.iter().for_each(|part| self.expression(part)),
            other => match other.as_classes() {
                Some(classes) => self.open.extend(classes),
                None => {
                    self.close();
                    self.skip(other.least_length(), other.most_length());
                }
            },
        }
    }

    fn term(&mut self, term: &QueryTerm) {
        if term.errors.limit() == 0 {
            return self.expression(&term.expression);
        }
        self.close();
        let fits = |word: &Vec<ResidueClass>| {
            word.len() <= LONGEST_WORD && word.len() > term.errors.limit() as usize
        };
        if let (Some(word), Some(most)) = (term.expression.as_classes().filter(fits), self.most) {
            self.runs.push(WordRun {
                word,
                errors: term.errors,
                least_offset: self.least,
                most_offset: most,
            });
        }
        self.skip(term.least_length(), term.most_length());
    }
}

/// How many bits of information a run has: the negative logarithm of its frequency in random sequences.
fn bits(run: &WordRun, kind: ResidueKind) -> f64 {
    let limit = run.errors.limit() as usize;
    // The distribution of the number of errors, up to the limit.
    let mut odds = vec![0.0; limit + 1];
    odds[0] = 1.0;
    for class in &run.word {
        let right = kind.frequency(class);
        for errors in (0..=limit).rev() {
            let wrong = if errors > 0 { odds[errors - 1] * (1.0 - right) } else { 0.0 };
            odds[errors] = odds[errors] * right + wrong;
        }
    }
    let mut share: f64 = odds.iter().sum();
    if let ErrorModel::Edit(limit) = run.errors {
        share *= (2.0 * run.word.len() as f64).powi(limit as i32);
    }
    -share.min(1.0).log2()
}

impl Prefilter {
    pub(crate) fn new(query: &Query) -> Self {
        let everything = Self { scan: Scan::Everything, least_offset: 0, most_offset: 0, exact_length: None };
        let mut collector = RunCollector { runs: Vec::new(), open: Vec::new(), least: 0, most: Some(0) };
        query.terms.iter().for_each(|term| collector.term(term));
        collector.close();
        // A wide range of offsets makes many candidates of one occurrence.
        let worth = |run: &WordRun| {
            bits(run, query.kind) - ((run.most_offset - run.least_offset) as f64 + 1.0).log2()
        };
        let best = collector.runs.iter().max_by(|a, b| worth(a).total_cmp(&worth(b)));
        let words_first = || literals(query);
        match best.filter(|run| worth(run) >= LEAST_BITS) {
            Some(run) => Self::of_run(query, run),
            None => match words_first().or_else(|| regex(query)) {
                Some(scan) => Self { scan, ..everything },
                None => everything,
            },
        }
    }

    fn of_run(query: &Query, run: &WordRun) -> Self {
        let whole = query.most_length() == Some(run.word.len()) && query.least_length() == run.word.len();
        let unconstrained = query.terms.iter().all(|term| term.constraints.is_empty());
        let single = query.terms.len() == 1 || run.errors == ErrorModel::Exact;
        let is_exact = whole && unconstrained && single && run.word.len() <= LONGEST_WORD;
        let (mut least_offset, mut most_offset) = (run.least_offset, run.most_offset);
        let mut word = run.word.as_slice();
        if word.len() > LONGEST_WORD {
            word = &word[..LONGEST_WORD];
        } else if !is_exact && run.errors == ErrorModel::Exact {
            // Classes with all letters at the ends contribute nothing.
            let is_open = |class: &ResidueClass| query.kind.frequency(class) >= 1.0;
            let lead = word.iter().take_while(|class| is_open(class)).count();
            let tail = word[lead..].iter().rev().take_while(|class| is_open(class)).count();
            word = &word[lead..word.len() - tail];
            (least_offset, most_offset) = (least_offset + lead, most_offset + lead);
        }
        let scan = match run.errors {
            ErrorModel::Edit(limit) => Scan::Edit(EditScanner::new(word, limit)),
            errors => Scan::Classes(ClassScanner::new(word, errors.limit(), query.kind)),
        };
        Self { scan, least_offset, most_offset, exact_length: is_exact.then_some(run.word.len()) }
    }

    /// The name of the method, for reports.
    pub(crate) fn name(&self) -> &'static str {
        match &self.scan {
            Scan::Everything => "automaton at every start",
            Scan::Classes(_) => "bit-parallel classes",
            Scan::Edit(_) => "Myers bit vectors",
            Scan::Literals(_) => "Aho-Corasick",
            Scan::Regex(_) => "regular expression",
        }
    }
}

/// The words of the first term, if it is a set of words.
fn literals(query: &Query) -> Option<Scan> {
    let term = query.terms.first().filter(|term| term.errors.limit() == 0)?;
    let mut words = words_of(&term.expression)?;
    // Only starts matter: of words with a common start, the shortest has them all, so that a start has one occurrence.
    words.sort_unstable();
    words.dedup_by(|word, before| word.starts_with(before));
    let long = words.iter().all(|word| word.len() >= 4);
    long.then(|| AhoCorasick::new(&words).ok().map(|automaton| Scan::Literals(Box::new(automaton))))?
}

fn words_of(expression: &Expression) -> Option<Vec<Vec<u8>>> {
    let words = match expression {
        Expression::Class(class) => {
            let letters: Vec<Vec<u8>> = class.letters().take(5).map(|letter| vec![letter]).collect();
            if letters.len() > 4 {
                return None;
            }
            letters
        }
        Expression::Sequence(parts) => parts.iter().try_fold(vec![Vec::new()], |words, part| {
            let more = words_of(part)?;
            let count = words.len() * more.len();
            let letters = |words: &[Vec<u8>]| words.iter().map(Vec::len).sum::<usize>();
            let all_letters = letters(&words) * more.len() + letters(&more) * words.len();
            let joined =
                words.iter().flat_map(|word| more.iter().map(move |next| [&word[..], next].concat()));
            (count <= MOST_LITERALS && all_letters <= MOST_LITERAL_LETTERS).then(|| joined.collect())
        })?,
        Expression::Alternatives(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(words_of(part)?);
                if all.len() > MOST_LITERALS || all.iter().map(Vec::len).sum::<usize>() > MOST_LITERAL_LETTERS
                {
                    return None;
                }
            }
            all
        }
        Expression::Repeat { .. } => return None,
    };
    (words.len() <= MOST_LITERALS).then_some(words)
}

/// The whole query as a regular expression.
fn regex(query: &Query) -> Option<Scan> {
    let exact = query.terms.iter().all(|term| term.errors.limit() == 0);
    if !exact
        || query.most_length().is_none_or(|most| most > LONGEST_REGEX_MATCH)
        || query.least_length() == 0
        || query.terms.iter().map(|term| term.expression.positions()).sum::<usize>() > MOST_REGEX_POSITIONS
    {
        return None;
    }
    let mut pattern = String::from("(?s-u)");
    query.terms.iter().for_each(|term| write_pattern(&term.expression, &mut pattern));
    let built =
        RegexBuilder::new(&pattern).unicode(false).size_limit(16 << 20).dfa_size_limit(16 << 20).build();
    built.ok().map(|regex| Scan::Regex(Box::new(regex)))
}

fn write_pattern(expression: &Expression, out: &mut String) {
    match expression {
        Expression::Class(class) if *class == ResidueClass::ANY => out.push('.'),
        Expression::Class(class) => {
            out.push('[');
            for letter in class.letters() {
                let _ = write!(out, "\\x{letter:02x}");
            }
            out.push(']');
        }
        Expression::Sequence(parts) => parts.iter().for_each(|part| write_pattern(part, out)),
        Expression::Alternatives(parts) => {
            out.push_str("(?:");
            for (at, part) in parts.iter().enumerate() {
                if at > 0 {
                    out.push('|');
                }
                write_pattern(part, out);
            }
            out.push(')');
        }
        Expression::Repeat { inner, least, most } => {
            out.push_str("(?:");
            write_pattern(inner, out);
            let most = most.map_or(String::new(), |most| most.to_string());
            {
                let _ = write!(out, "){{{least},{most}}}");
            }
        }
    }
}
