//! FASTA as a stream: pieces of any size in, residues and headers out.
//!
//! A line that begins with `>` is a header, one that begins with `;` a comment. All other bytes but white space are residues. Lines may have any
//! width and end in LF or CR LF; the last line may lack its end.

use memchr::memchr;

use crate::query::ResidueKind;

/// The longest name of a sequence that is kept, in bytes.
const LONGEST_NAME: usize = 256;

/// What the parser is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// The start of a line.
    Start,
    /// A header line.
    Header,
    /// A comment line.
    Comment,
    /// A line of residues.
    Residues,
}

impl LineState {
    /// As a number, 1 to 4.
    pub fn code(self) -> u64 {
        match self {
            Self::Start => 1,
            Self::Header => 2,
            Self::Comment => 3,
            Self::Residues => 4,
        }
    }

    /// From its number.
    pub fn from_code(code: u64) -> Option<Self> {
        [Self::Start, Self::Header, Self::Comment, Self::Residues]
            .into_iter()
            .find(|state| state.code() == code)
    }

    /// The state after the bytes, if they contain the start of a line. `is_start`: they begin at the start of a line.
    pub fn after(bytes: &[u8], is_start: bool) -> Option<Self> {
        let line = match memchr::memrchr(b'\n', bytes) {
            Some(at) => &bytes[at + 1..],
            None if is_start => bytes,
            None => return None,
        };
        Some(match line.first() {
            None => Self::Start,
            Some(b'>') => Self::Header,
            Some(b';') => Self::Comment,
            Some(_) => Self::Residues,
        })
    }
}

/// What the parser reports.
pub trait FastaEvents {
    /// A header begins at this byte of the piece. Returns whether to go on.
    fn header_begins(&mut self, at: usize) -> bool;
    /// A header has ended; the name is its first word.
    fn header_ended(&mut self, name: &[u8]);
    /// Residues as they are in the file, without white space.
    fn residues(&mut self, letters: &[u8]);
}

/// The parser.
#[derive(Clone, Debug)]
pub struct FastaParser {
    state: LineState,
    name: Vec<u8>,
    spare: Vec<u8>,
}

impl FastaParser {
    /// Begins in this state.
    pub fn new(state: LineState) -> Self {
        Self { state, name: Vec::new(), spare: Vec::new() }
    }

    /// Inside of what the next byte is.
    pub fn state(&self) -> LineState {
        self.state
    }

    /// Parses a piece; returns the number of bytes until a header at which the events stopped.
    pub fn parse(&mut self, piece: &[u8], events: &mut impl FastaEvents) -> usize {
        let mut at = 0;
        while at < piece.len() {
            match self.state {
                LineState::Start => match piece[at] {
                    b'>' => {
                        if !events.header_begins(at) {
                            return at;
                        }
                        self.name.clear();
                        self.state = LineState::Header;
                        at += 1;
                    }
                    b';' => self.state = LineState::Comment,
                    b'\n' => at += 1,
                    _ => self.state = LineState::Residues,
                },
                state => {
                    let rest = &piece[at..];
                    let end = memchr(b'\n', rest);
                    let line = &rest[..end.unwrap_or(rest.len())];
                    self.line(state, line, events);
                    at += line.len() + usize::from(end.is_some());
                    if end.is_some() {
                        self.end_of_line(events);
                    }
                }
            }
        }
        at
    }

    /// The end of the file: ends an open header.
    pub fn finish(&mut self, events: &mut impl FastaEvents) {
        if self.state != LineState::Start {
            self.end_of_line(events);
        }
    }

    fn end_of_line(&mut self, events: &mut impl FastaEvents) {
        if self.state == LineState::Header {
            let name = self.name.trim_ascii_start();
            let end = name.iter().position(u8::is_ascii_whitespace).unwrap_or(name.len());
            events.header_ended(&name[..end]);
        }
        self.state = LineState::Start;
    }

    fn line(&mut self, state: LineState, line: &[u8], events: &mut impl FastaEvents) {
        match state {
            LineState::Header => {
                let room = LONGEST_NAME - self.name.len();
                self.name.extend_from_slice(&line[..line.len().min(room)]);
            }
            LineState::Residues => {
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                // Without a branch for each letter, so that the compiler makes vector code of it.
                let least = line.iter().fold(u8::MAX, |least, letter| least.min(*letter));
                if least > b' ' {
                    events.residues(line);
                } else {
                    self.spare.clear();
                    self.spare.extend(line.iter().filter(|letter| **letter > b' '));
                    events.residues(&self.spare);
                }
            }
            LineState::Start | LineState::Comment => {}
        }
    }
}

/// Appends residues in normal form.
pub fn append_normal(letters: &[u8], kind: ResidueKind, out: &mut Vec<u8>) {
    if kind.has_strands() {
        out.extend(letters.iter().map(|letter| {
            let upper = letter.to_ascii_uppercase();
            // `U` becomes `T`.
            upper - u8::from(upper == b'U')
        }));
    } else {
        out.extend(letters.iter().map(u8::to_ascii_uppercase));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, Debug, PartialEq)]
    struct Record(Vec<(String, String)>);

    impl FastaEvents for Record {
        fn header_begins(&mut self, _: usize) -> bool {
            self.0.push(Default::default());
            true
        }

        fn header_ended(&mut self, name: &[u8]) {
            self.0.last_mut().unwrap().0 = String::from_utf8_lossy(name).into_owned();
        }

        fn residues(&mut self, letters: &[u8]) {
            if self.0.is_empty() {
                self.0.push(Default::default());
            }
            let mut normal = Vec::new();
            append_normal(letters, ResidueKind::Dna, &mut normal);
            self.0.last_mut().unwrap().1.push_str(std::str::from_utf8(&normal).unwrap());
        }
    }

    #[test]
    fn every_division_into_pieces_gives_the_same_records() {
        let text = b";old comment\nAC\r\n> first one\r\nacg u\n\n\nNN\r\n;c >x\n>\n>third\tx\nA>C\n>last";
        let expected = [("", "AC"), ("first", "ACGTNN"), ("", ""), ("third", "A>C"), ("last", "")]
            .map(|(name, letters)| (name.to_owned(), letters.to_owned()));
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let (mut parser, mut record) = (FastaParser::new(LineState::Start), Record::default());
                for piece in [&text[..first], &text[first..second], &text[second..]] {
                    assert_eq!(parser.parse(piece, &mut record), piece.len());
                }
                parser.finish(&mut record);
                assert_eq!(record.0, expected);
            }
            let state = LineState::after(&text[..first], true).unwrap();
            let mut parser = FastaParser::new(LineState::Start);
            parser.parse(&text[..first], &mut Record::default());
            let same = state == parser.state()
                || (state == LineState::Residues && parser.state() == LineState::Start);
            assert!(same, "{first}: {state:?}, {:?}", parser.state());
        }
    }
}
