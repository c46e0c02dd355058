//! The positions of the outputs of a run. They are stored in checkpoints, so that a restart can truncate the outputs.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::input::config::{OutputKind, OutputLine};

/// The position of each output, as numbers that its writer interprets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputMarks {
    /// The time of the checkpoint in milliseconds since 1970; not known of checkpoints without marks.
    taken: Option<u64>,
    marks: Vec<OutputMark>,
}

/// The keyword before the time.
const TAKEN: &str = "taken";

#[derive(Clone, Debug, PartialEq, Eq)]
struct OutputMark {
    writer: String,
    prefix: String,
    numbers: Vec<u64>,
}

impl OutputMarks {
    /// Marks of the current time, without positions yet.
    pub fn now() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { taken: u64::try_from(now.as_millis()).ok(), marks: Vec::new() }
    }

    /// The marks of a new run: growing files are empty, whatever an earlier run has left.
    pub fn at_the_beginning(lines: &[OutputLine]) -> Self {
        let mut marks = Self::now();
        for line in lines.iter().filter(|line| matches!(line.kind, OutputKind::Result | OutputKind::Vis)) {
            marks.set(line, &[0]);
        }
        marks
    }

    /// The time of the checkpoint, if it is known.
    pub fn taken(&self) -> Option<SystemTime> {
        self.taken.map(|taken| UNIX_EPOCH + Duration::from_millis(taken))
    }

    /// Sets the position of the output of a line.
    pub fn set(&mut self, line: &OutputLine, numbers: &[u64]) {
        let (writer, prefix) = (line.kind.name().to_owned(), line.prefix.clone());
        self.marks.push(OutputMark { writer, prefix, numbers: numbers.to_vec() });
    }

    /// The position of the output of a line; `None` if the run did not have it then.
    pub fn get(&self, line: &OutputLine) -> Option<&[u64]> {
        let of_line = |mark: &&OutputMark| mark.writer == line.kind.name() && mark.prefix == line.prefix;
        self.marks.iter().find(of_line).map(|mark| &mark.numbers[..])
    }

    /// The marks as text, a line each.
    pub fn encode(&self) -> String {
        let mut text = self.taken.map_or_else(String::new, |taken| format!("{TAKEN} {taken}\n"));
        for OutputMark { writer, prefix, numbers } in &self.marks {
            let _ = write!(text, "{writer} {prefix}");
            numbers.iter().for_each(|number| _ = write!(text, " {number}"));
            text.push('\n');
        }
        text
    }

    /// The marks of a text.
    pub fn decode(text: &str) -> Result<Self> {
        let mark = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let (writer, prefix) = (words.next()?, words.next()?);
            let numbers = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
            Some(OutputMark { writer, prefix, numbers })
        };
        let unknown = |line: &str| format!("`{line}` is not the position of an output");
        let mut marks = Self::default();
        for line in text.lines() {
            match line.strip_prefix(TAKEN) {
                Some(taken) => marks.taken = Some(taken.trim().parse().with_context(|| unknown(line))?),
                None => marks.marks.push(mark(line).with_context(|| unknown(line))?),
            }
        }
        Ok(marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_survive_encoding_and_decoding() {
        let line = |writer, prefix: &str| OutputLine { kind: writer, every: 2, prefix: prefix.to_owned() };
        let mut marks = OutputMarks::now();
        marks.set(&line(OutputKind::Result, "run"), &[120]);
        marks.set(&line(OutputKind::Vis, "a/run"), &[77, 4]);
        let back = OutputMarks::decode(&marks.encode()).unwrap();
        assert_eq!(back, marks);
        assert_eq!(back.get(&line(OutputKind::Vis, "a/run")), Some(&[77, 4][..]));
        assert_eq!(back.get(&line(OutputKind::Vis, "run")), None);
        assert!(back.taken().is_some());
        let unknown = OutputMarks::decode(&OutputMarks::default().encode()).unwrap();
        assert_eq!((unknown.taken(), unknown), (None, OutputMarks::default()));
        assert!(
            OutputMarks::decode("ResultWriter run x\n").is_err() && OutputMarks::decode("taken x\n").is_err()
        );
    }
}
