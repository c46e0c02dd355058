//! Words of a text, with the lines they stand in.

use aqueduct_file::{Error, Kind};

/// What is wrong with a text, and in which line, from 1.
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

/// Goes through a text word by word. `#` begins a comment.
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

    /// How many bytes have been gone through.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// What has not been gone through.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Goes behind a line that someone else has read: where the next one begins.
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
                    // Everything up to a blank (and other control characters) belongs to a word.
                    while self.bytes.get(self.at).is_some_and(|&byte| byte > b' ' && byte != b'#') {
                        self.at += 1;
                    }
                    // A control character that is no blank is a word of its own, which nobody knows.
                    self.at = self.at.max(start + 1);
                    return Some(&self.bytes[start..self.at]);
                }
            }
        }
        None
    }
}

/// How many lines end in a text.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    bytes.split(|&byte| byte == b'\n').count() as u64 - 1
}

/// A word for a message: shortened, and printable.
pub(super) fn printable(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(&word[..word.len().min(40)]).into_owned();
    format!("{text:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_with_their_lines_and_without_comments() {
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
