//! The query language: regular expressions joined by `@`, each with constraints on the part that it matches.
//!
//! ```text
//! query := term { "@" term }
//! term  := regex | "(" regex ")" "/" call { "," call }
//! call  := name "(" [ number { "," number } ] ")"
//! ```
//!
//! A regular expression has letters, `.`, `[…]`, `[^…]`, `( )`, `|`, `*`, `+`, `?`, `{n}`, `{n,}`, `{n,m}`. Case and white space are ignored;
//! a backslash makes the next character a letter.

pub mod alphabet;
pub mod constraint;
pub mod expression;
pub mod parse_error;
pub mod parser;

pub use alphabet::{ResidueClass, ResidueKind};
pub use constraint::{ConstraintCall, ConstraintFunction};
pub use expression::Expression;
pub use parse_error::QueryError;
pub use parser::QueryGrammar;

/// How a term may differ from the words of its expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorModel {
    /// Not at all.
    Exact,
    /// In up to so many residues that are replaced (Hamming distance).
    Hamming(u32),
    /// By up to so many residues that are replaced, inserted or deleted (Levenshtein distance).
    Edit(u32),
}

impl ErrorModel {
    /// The largest number of errors.
    pub fn limit(self) -> u32 {
        match self {
            Self::Exact => 0,
            Self::Hamming(limit) | Self::Edit(limit) => limit,
        }
    }
}

/// One expression of a query with its constraints.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryTerm {
    /// The words.
    pub expression: Expression,
    /// The permitted errors.
    pub errors: ErrorModel,
    /// The constraints on the matched part.
    pub constraints: Vec<ConstraintCall>,
}

impl QueryTerm {
    /// The length of the shortest part that matches.
    pub fn least_length(&self) -> usize {
        let least = self.expression.least_length();
        if let ErrorModel::Edit(limit) = self.errors { least.saturating_sub(limit as usize) } else { least }
    }

    /// The length of the longest part that matches; none if there is no limit.
    pub fn most_length(&self) -> Option<usize> {
        let most = self.expression.most_length()?;
        Some(if let ErrorModel::Edit(limit) = self.errors { most + limit as usize } else { most })
    }

    /// Whether the constraints hold for a part.
    pub fn accepts(&self, part: &[u8]) -> bool {
        self.constraints.iter().all(|call| call.holds(part))
    }
}

/// A parsed query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The terms; they follow one another without a gap.
    pub terms: Vec<QueryTerm>,
    /// The kind of residues.
    pub kind: ResidueKind,
}

impl Query {
    /// Parses a query for this kind of residues, with all built-in constraints.
    ///
    /// ```
    /// use aqueduct_motif::query::{Query, ResidueKind};
    /// let query = Query::parse("TATA @ (N{5,20})/gc(40,100) @ (ACGTACGT)/edit(1)", ResidueKind::Dna)?;
    /// assert_eq!(query.most_length(), Some(4 + 20 + 9));
    /// let error = Query::parse("CC(A|T){6GG", ResidueKind::Dna).unwrap_err();
    /// assert_eq!(error.column, 9);
    /// # Ok::<(), aqueduct_motif::query::QueryError>(())
    /// ```
    pub fn parse(text: &str, kind: ResidueKind) -> Result<Self, QueryError> {
        QueryGrammar::new(kind).parse(text)
    }

    /// The length of the longest hit; none if there is no limit.
    pub fn most_length(&self) -> Option<usize> {
        self.terms.iter().map(QueryTerm::most_length).sum()
    }

    /// The length of the shortest hit.
    pub fn least_length(&self) -> usize {
        self.terms.iter().map(QueryTerm::least_length).sum()
    }

    /// Whether the reverse complement of each hit is a hit of the same query, so that a search of the second strand finds nothing new.
    pub fn is_self_complementary(&self) -> bool {
        let symmetric = |term: &QueryTerm| term.constraints.iter().all(|call| call.function.strand_symmetric);
        let reversed = self.terms.iter().rev().map(|term| term.expression.reverse_complement());
        let same =
            |(term, reversed): (&QueryTerm, Expression)| term.expression == reversed && symmetric(term);
        let conditions = |term: &QueryTerm| (term.errors, term.constraints.clone());
        self.kind.has_strands()
            && self.terms.iter().zip(reversed).all(same)
            && self.terms.iter().map(conditions).eq(self.terms.iter().rev().map(conditions))
    }
}
