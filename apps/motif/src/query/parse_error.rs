//! Errors in a query, with the column.

use std::fmt;

/// An error in a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// The query.
    pub query: String,
    /// The column of the first wrong character, counted in characters from 0.
    pub column: usize,
    /// The number of wrong characters, at least 1.
    pub width: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A window around the column, so that the caret of a long query is seen.
        let start = self.column.saturating_sub(60);
        let shown: String = self.query.chars().skip(start).take(120).map(printable).collect();
        let room = (120 + start).saturating_sub(self.column).max(1);
        let caret = format!("{}{}", " ".repeat(self.column - start), "^".repeat(self.width.clamp(1, room)));
        write!(f, "column {}: {}\n  {shown}\n  {caret}", self.column + 1, self.message)
    }
}

fn printable(letter: char) -> char {
    if letter.is_control() { ' ' } else { letter }
}

impl std::error::Error for QueryError {}
