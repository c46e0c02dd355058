//! The parser of queries. Every error has a column.

use super::alphabet::{ResidueClass, ResidueKind};
use super::constraint::{ConstraintArguments, ConstraintCall, ConstraintFunction, FUNCTIONS};
use super::expression::Expression;
use super::parse_error::QueryError;
use super::{ErrorModel, Query, QueryTerm};

/// The longest query in characters.
const LONGEST_QUERY: usize = 1 << 16;
/// The deepest nesting of parentheses.
const DEEPEST: usize = 100;
/// The most letters of a term after repetitions are written out.
pub const MOST_POSITIONS: usize = 4096;
/// The most letters of all terms after repetitions are written out.
const MOST_QUERY_POSITIONS: usize = 4 * MOST_POSITIONS;
/// The most terms of a query.
const MOST_TERMS: usize = 64;
/// The most quantifiers of one letter or group.
const MOST_QUANTIFIERS: usize = 4;
/// The most errors of an approximate term.
const MOST_ERRORS: f64 = 64.0;

/// The language of queries: the kind of residues and the functions of constraints.
///
/// ```
/// use aqueduct_motif::query::constraint::FUNCTIONS;
/// use aqueduct_motif::query::{ConstraintFunction, QueryGrammar, ResidueKind};
///
/// let purines = |part: &[u8]| part.iter().filter(|letter| b"AGR".contains(letter)).count() as f64;
/// let function =
///     ConstraintFunction { name: "purines", summary: "number of purines", value: purines, ..FUNCTIONS[0] };
/// let query = QueryGrammar::new(ResidueKind::Dna).with_function(function).parse("(N{4})/purines(4,4)")?;
/// assert!(query.terms[0].accepts(b"AGGA") && !query.terms[0].accepts(b"AGGC"));
/// # Ok::<(), aqueduct_motif::query::QueryError>(())
/// ```
#[derive(Clone, Debug)]
pub struct QueryGrammar {
    kind: ResidueKind,
    plain: bool,
    functions: Vec<ConstraintFunction>,
}

impl QueryGrammar {
    /// With ambiguity codes and the built-in functions.
    pub fn new(kind: ResidueKind) -> Self {
        Self { kind, plain: false, functions: FUNCTIONS.to_vec() }
    }

    /// Whether letters stand for themselves only, without ambiguity codes.
    #[must_use]
    pub fn plain(mut self, plain: bool) -> Self {
        self.plain = plain;
        self
    }

    /// Adds a function; it replaces one of the same name.
    #[must_use]
    pub fn with_function(mut self, function: ConstraintFunction) -> Self {
        self.functions.retain(|known| known.name != function.name);
        self.functions.push(function);
        self
    }

    /// Parses a query.
    pub fn parse(&self, text: &str) -> Result<Query, QueryError> {
        let letters: Vec<char> = text.chars().take(LONGEST_QUERY + 1).collect();
        let mut parser = QueryParser { grammar: self, text, letters: &letters, at: 0, depth: 0 };
        if letters.len() > LONGEST_QUERY {
            let message = format!("the query is longer than {LONGEST_QUERY} characters; shorten it");
            return Err(parser.error(0, 1, message));
        }
        let query = parser.query()?;
        if query.most_length() == Some(0) {
            return Err(parser.error(0, letters.len(), "the query matches the empty word only; add letters"));
        }
        Ok(query)
    }

    /// The class of a letter.
    fn class(&self, letter: u8) -> Option<ResidueClass> {
        let letter = self.kind.normal_form(letter);
        let meaning = self.kind.meaning(letter);
        if self.plain || (self.kind == ResidueKind::Protein && letter == b'*') {
            return Some(ResidueClass::of(letter));
        }
        (meaning != 0).then(|| self.kind.class_of(meaning))
    }
}

struct QueryParser<'q> {
    grammar: &'q QueryGrammar,
    text: &'q str,
    letters: &'q [char],
    at: usize,
    depth: usize,
}

impl QueryParser<'_> {
    fn error(&self, column: usize, width: usize, message: impl Into<String>) -> QueryError {
        QueryError { query: self.text.to_owned(), column, width: width.max(1), message: message.into() }
    }

    fn peek(&mut self) -> Option<char> {
        while self.letters.get(self.at).is_some_and(|letter| letter.is_whitespace()) {
            self.at += 1;
        }
        self.letters.get(self.at).copied()
    }

    fn accept(&mut self, letter: char) -> bool {
        let found = self.peek() == Some(letter);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, letter: char, after: &str) -> Result<(), QueryError> {
        let found = self.peek();
        if self.accept(letter) {
            return Ok(());
        }
        let found = found.map_or("the query ends".to_owned(), |found| format!("found `{found}`"));
        Err(self.error(self.at, 1, format!("expected `{letter}` {after}, {found}")))
    }

    fn query(&mut self) -> Result<Query, QueryError> {
        let mut terms = Vec::new();
        loop {
            self.peek();
            let start = self.at;
            terms.push(self.term()?);
            if terms.len() > MOST_TERMS {
                return Err(self.error(start, 1, format!("a query has at most {MOST_TERMS} terms")));
            }
            let positions: usize = terms.iter().map(|term: &QueryTerm| term.expression.positions()).sum();
            if positions > MOST_QUERY_POSITIONS {
                let message = format!(
                    "up to here the query has more than {MOST_QUERY_POSITIONS} letters when written out; use smaller counts"
                );
                return Err(self.error(start, self.at - start, message));
            }
            match self.peek() {
                None => return Ok(Query { terms, kind: self.grammar.kind }),
                Some('@') => self.at += 1,
                Some(')') => {
                    return Err(self.error(self.at, 1, "this `)` closes nothing; remove it or add a `(`"));
                }
                Some(other) => {
                    return Err(self.error(
                        self.at,
                        1,
                        format!("unexpected `{other}`; terms are joined by `@`"),
                    ));
                }
            }
        }
    }

    fn term(&mut self) -> Result<QueryTerm, QueryError> {
        let start = self.at;
        let (expression, one_group) = self.alternatives()?;
        if self.at == start {
            return Err(self.error(start, 1, "an empty term; write a regular expression here"));
        }
        if expression.positions() > MOST_POSITIONS {
            let message = format!(
                "the term has more than {MOST_POSITIONS} letters when written out; use smaller counts"
            );
            return Err(self.error(start, self.at - start, message));
        }
        let mut term = QueryTerm { expression, errors: ErrorModel::Exact, constraints: Vec::new() };
        let slash = self.at;
        if self.accept('/') {
            if !one_group {
                let message = "constraints apply to a whole term: put it in parentheses, `(…)/…`";
                return Err(self.error(slash, 1, message));
            }
            self.call(&mut term)?;
            while self.accept(',') {
                self.call(&mut term)?;
            }
        }
        Ok(term)
    }

    /// Alternatives, and whether they are one group in parentheses.
    fn alternatives(&mut self) -> Result<(Expression, bool), QueryError> {
        let (first, one_group) = self.sequence()?;
        let mut parts = vec![first];
        while self.accept('|') {
            parts.push(self.sequence()?.0);
        }
        let single = parts.len() == 1;
        Ok((Expression::alternatives(parts), single && one_group))
    }

    fn sequence(&mut self) -> Result<(Expression, bool), QueryError> {
        let (mut parts, mut groups) = (Vec::new(), 0);
        let mut repeated = false;
        while let Some(letter) = self.peek() {
            if matches!(letter, '|' | ')' | '@' | '/') {
                break;
            }
            groups += usize::from(letter == '(');
            let atom = self.atom(letter)?;
            let before = self.at;
            let atom = self.quantified(atom)?;
            repeated |= self.at > before;
            parts.push(atom);
        }
        let one_group = parts.len() == 1 && groups == 1 && !repeated;
        Ok((Expression::sequence(parts), one_group))
    }

    fn atom(&mut self, letter: char) -> Result<Expression, QueryError> {
        let start = self.at;
        self.at += 1;
        match letter {
            '(' => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err(self.error(
                        start,
                        1,
                        format!("parentheses are nested deeper than {DEEPEST}"),
                    ));
                }
                let (inner, _) = self.alternatives()?;
                if !self.accept(')') {
                    let message = match self.peek() {
                        None => "this `(` is not closed; add a `)`".to_owned(),
                        Some(other) => format!("`{other}` stands inside of this `(`; close it before"),
                    };
                    return Err(self.error(start, 1, message));
                }
                self.depth -= 1;
                Ok(inner)
            }
            '[' => self.bracket(start),
            '.' => Ok(Expression::Class(ResidueClass::ANY)),
            '*' | '+' | '?' | '{' => {
                Err(self.error(start, 1, format!("`{letter}` repeats what stands before it: nothing does")))
            }
            _ => self.letter(letter, start).map(Expression::Class),
        }
    }

    fn letter(&mut self, letter: char, start: usize) -> Result<ResidueClass, QueryError> {
        let letter = if letter == '\\' {
            self.at += 1;
            let escaped = self.letters.get(self.at - 1).copied();
            escaped.ok_or_else(|| self.error(start, 1, "a character must follow the backslash"))?
        } else {
            letter
        };
        let class = u8::try_from(letter).ok().filter(u8::is_ascii_graphic);
        class.and_then(|letter| self.grammar.class(letter)).ok_or_else(|| {
            let kind = self.grammar.kind.name();
            self.error(start, 1, format!("`{letter}` is not a letter of {kind} sequences"))
        })
    }

    fn bracket(&mut self, start: usize) -> Result<Expression, QueryError> {
        let inverse = self.accept('^');
        let mut class = ResidueClass::default();
        loop {
            let Some(letter) = self.peek() else {
                return Err(self.error(start, 1, "this `[` is not closed; add a `]`"));
            };
            let at = self.at;
            self.at += 1;
            if letter == ']' {
                break;
            }
            class = class.union(&self.letter(letter, at)?);
            if self.peek() == Some('-') && self.letters.get(self.at + 1).is_some_and(|next| *next != ']') {
                self.at += 1;
                let last = self.peek().unwrap_or(letter);
                let (Ok(first), Ok(end)) = (u8::try_from(letter), u8::try_from(last)) else {
                    return Err(self.error(at, 1, "a range needs two letters"));
                };
                let (first, end) = (first.to_ascii_uppercase(), end.to_ascii_uppercase());
                if !first.is_ascii_uppercase() || !end.is_ascii_uppercase() || first > end {
                    return Err(self.error(
                        at,
                        self.at - at + 1,
                        "a range goes from a letter to a later one",
                    ));
                }
                self.at += 1;
                let inside = (first..=end).filter_map(|letter| self.grammar.class(letter));
                class = inside.fold(class, |class, next| class.union(&next));
            }
        }
        if inverse {
            class = self.inverse(&class);
        }
        if class == ResidueClass::default() {
            return Err(self.error(start, self.at - start, "this class has no letters"));
        }
        Ok(Expression::Class(class))
    }

    /// The letters that stand for none of the class.
    fn inverse(&self, class: &ResidueClass) -> ResidueClass {
        let kind = self.grammar.kind;
        if self.grammar.plain {
            return class.inverse();
        }
        let meaning = class.letters().fold(0, |meaning, letter| meaning | kind.meaning(letter));
        kind.class_of(kind.all_meanings() & !meaning)
    }

    fn quantified(&mut self, mut atom: Expression) -> Result<Expression, QueryError> {
        let mut quantifiers = 0;
        while let Some(letter) = self.peek() {
            let start = self.at;
            let (least, most) = match letter {
                '*' => (0, None),
                '+' => (1, None),
                '?' => (0, Some(1)),
                '{' => {
                    self.at += 1;
                    let least = self.count(start)?;
                    let most = if self.accept(',') {
                        if self.peek() == Some('}') { None } else { Some(self.count(start)?) }
                    } else {
                        Some(least)
                    };
                    if self.peek() != Some('}') {
                        return Err(self.error(self.at, 1, "expected `}` after the count"));
                    }
                    if most.is_some_and(|most| most < least) {
                        let message = "the second count is smaller than the first; swap them";
                        return Err(self.error(start, self.at + 1 - start, message));
                    }
                    (least, most)
                }
                _ => break,
            };
            self.at += 1;
            quantifiers += 1;
            if quantifiers > MOST_QUANTIFIERS {
                let message = format!(
                    "more than {MOST_QUANTIFIERS} quantifiers in a row; remove this one or use groups"
                );
                return Err(self.error(start, self.at - start, message));
            }
            atom = Expression::Repeat { inner: Box::new(atom), least, most };
            if atom.positions() > MOST_POSITIONS {
                let message =
                    format!("written out, this has more than {MOST_POSITIONS} letters; use smaller counts");
                return Err(self.error(start, self.at - start, message));
            }
        }
        Ok(atom)
    }

    fn count(&mut self, start: usize) -> Result<u32, QueryError> {
        self.peek();
        let first = self.at;
        while self.letters.get(self.at).is_some_and(char::is_ascii_digit) {
            self.at += 1;
        }
        let digits: String = self.letters[first..self.at].iter().collect();
        if digits.is_empty() {
            return Err(self.error(first.max(start), 1, "expected a number, as in `{6}` or `{2,4}`"));
        }
        let count = digits.parse().ok().filter(|count| *count as usize <= MOST_POSITIONS);
        let message = format!("a count is at most {MOST_POSITIONS}");
        count.ok_or_else(|| self.error(first, self.at - first, message))
    }

    fn call(&mut self, term: &mut QueryTerm) -> Result<(), QueryError> {
        self.peek();
        let start = self.at;
        while self.letters.get(self.at).is_some_and(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
        {
            self.at += 1;
        }
        let name: String = self.letters[start..self.at].iter().collect::<String>().to_ascii_lowercase();
        let width = self.at - start;
        if name.is_empty() {
            return Err(self.error(start, 1, "expected the name of a constraint, as in `/gc(40,60)`"));
        }
        self.expect('(', &format!("after `{name}`"))?;
        let arguments = self.arguments()?;
        if matches!(name.as_str(), "hamming" | "edit") {
            return self.distance(term, &name, &arguments, start);
        }
        let known = self.grammar.functions.iter().find(|function| function.name == name);
        let Some(function) = known else {
            let names: Vec<&str> = self.grammar.functions.iter().map(|function| function.name).collect();
            let message =
                format!("there is no constraint `{name}`; there are {}, hamming, edit", names.join(", "));
            return Err(self.error(start, width, message));
        };
        if !(function.applies_to)(self.grammar.kind) {
            let message = format!("`{name}` does not apply to {} sequences", self.grammar.kind.name());
            return Err(self.error(start, width, message));
        }
        let (least, most) = match (function.arguments, arguments.as_slice()) {
            (ConstraintArguments::Bounds, [least, most]) if least <= most => (*least, *most),
            (ConstraintArguments::Limit, [most]) if *most >= 0.0 && most.fract() == 0.0 => (0.0, *most),
            (ConstraintArguments::Bounds, _) => {
                let message = format!("`{name}` needs its least and its greatest value, as in `{name}(1,2)`");
                return Err(self.error(start, self.at - start, message));
            }
            (ConstraintArguments::Limit, _) => {
                let message = format!("`{name}` needs one integer of at least 0, as in `{name}(1)`");
                return Err(self.error(start, self.at - start, message));
            }
        };
        term.constraints.push(ConstraintCall { function: *function, least, most });
        Ok(())
    }

    fn distance(
        &mut self,
        term: &mut QueryTerm,
        name: &str,
        arguments: &[f64],
        start: usize,
    ) -> Result<(), QueryError> {
        let limit = match arguments {
            [limit] if *limit >= 0.0 && limit.fract() == 0.0 && *limit <= MOST_ERRORS => *limit as u32,
            _ => {
                let message =
                    format!("`{name}` needs one integer from 0 to {MOST_ERRORS}, as in `{name}(2)`");
                return Err(self.error(start, self.at - start, message));
            }
        };
        if term.errors != ErrorModel::Exact {
            return Err(self.error(start, self.at - start, "a term has one distance only; remove this one"));
        }
        term.errors = if name == "edit" { ErrorModel::Edit(limit) } else { ErrorModel::Hamming(limit) };
        Ok(())
    }

    fn arguments(&mut self) -> Result<Vec<f64>, QueryError> {
        let mut arguments = Vec::new();
        if self.accept(')') {
            return Ok(arguments);
        }
        loop {
            self.peek();
            let start = self.at;
            while self
                .letters
                .get(self.at)
                .is_some_and(|letter| "+-.eE".contains(*letter) || letter.is_ascii_digit())
            {
                self.at += 1;
            }
            let number: String = self.letters[start..self.at].iter().collect();
            let number = number.parse().ok().filter(|number: &f64| number.is_finite());
            let width = self.at - start;
            arguments.push(number.ok_or_else(|| self.error(start, width, "expected a number"))?);
            if arguments.len() > 16 {
                return Err(self.error(start, width, "too many numbers"));
            }
            if !self.accept(',') {
                self.expect(')', "after the numbers")?;
                return Ok(arguments);
            }
        }
    }
}
