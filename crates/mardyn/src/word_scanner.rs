//! Splits a text into words with their lines.

use aqueduct_file::{Error, Kind};

/// An error in a text, and its line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineError {
    pub(super) line: u64,
    pub(super) what: String,
}

impl LineError {
    pub(super) fn new(line: u64, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }

    /// The error of an operation on the file of the text.
    pub(super) fn damaged(&self, operation: &'static str, name: &str) -> Error {
        Error::new(Kind::Damaged, operation, name, format!("line {}: {}", self.line, self.what))
    }
}

/// Reads a text word by word. `#` begins a comment.
#[derive(Clone, Debug)]
pub(super) struct WordScanner<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl<'a> WordScanner<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, line: 1 }
    }

    /// The number of bytes that were read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The rest of the text.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Skips a line that was parsed otherwise; `end` is where the next line begins.
    pub(super) fn skip_line(&mut self, end: usize) {
        self.at = end;
        self.line += 1;
    }

    /// The line of the last word.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The next word.
    pub(super) fn word(&mut self) -> Option<&'a [u8]> {
        loop {
            if let Some(word) = self.word_on_line() {
                return Some(word);
            }
            if self.at >= self.bytes.len() {
                return None;
            }
            self.at += 1;
            self.line += 1;
        }
    }

    /// The next word of this line.
    #[inline]
    pub(super) fn word_on_line(&mut self) -> Option<&'a [u8]> {
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'\n' => return None,
                b'#' => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                _ => {
                    let start = self.at;
                    // A word ends at a blank or another control character.
                    while self.bytes.get(self.at).is_some_and(|&byte| byte > b' ' && byte != b'#') {
                        self.at += 1;
                    }
                    // A control character that is not a blank is a word of its own, which no key matches.
                    self.at = self.at.max(start + 1);
                    return Some(&self.bytes[start..self.at]);
                }
            }
        }
        None
    }
}

/// The number of line ends in a text.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    bytes.split(|&byte| byte == b'\n').count() as u64 - 1
}

/// A word for a message, shortened and escaped.
pub(super) fn printable(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(&word[..word.len().min(40)]).into_owned();
    format!("{text:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_lines_and_comments_are_skipped() {
        let mut scan = WordScanner::new(b" a\tb # c\r\n# d\n\n e#f\n\x01g");
        let mut found = Vec::new();
        while let Some(word) = scan.word() {
            found.push((scan.line(), word));
        }
        assert_eq!(found, [(1, &b"a"[..]), (1, b"b"), (4, b"e"), (5, b"\x01"), (5, b"g")]);
        let mut scan = WordScanner::new(b"a\nb");
        assert_eq!((scan.word(), scan.word_on_line(), scan.word()), (Some(&b"a"[..]), None, Some(&b"b"[..])));
    }
}
