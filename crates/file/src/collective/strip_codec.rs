//! The encoding of strips and runs in messages between ranks and aggregators.

use std::ops::Range;

use crate::layout::{Pattern, Strip};

/// The strips of one window, as a part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WindowStrips {
    pub(crate) round: u64,
    pub(crate) window: usize,
    /// The step of the round, in announcements to aggregators.
    pub(crate) step: u64,
    pub(crate) strips: Vec<Strip>,
}

/// Words before the strips, and of each strip.
const HEAD: usize = 4;
const STRIP: usize = 4;

impl WindowStrips {
    /// Adds it to a message.
    pub(crate) fn encode(&self, message: &mut Vec<u64>) {
        message.extend([self.round, self.window as u64, self.step, self.strips.len() as u64]);
        for strip in &self.strips {
            message.extend([strip.offset as u64, strip.len, strip.stride as u64, strip.count]);
        }
    }

    /// The parts of a message; none if it is malformed. `bounds` gives the range in which the strips of a window may lie.
    pub(crate) fn decode(
        mut message: &[u64],
        bounds: impl Fn(u64, usize) -> Option<Range<u64>>,
    ) -> Option<Vec<Self>> {
        let mut parts = Vec::new();
        while let Some((head, rest)) = message.split_first_chunk::<HEAD>() {
            let [round, window, step, count] = *head;
            let words = usize::try_from(count).ok()?.checked_mul(STRIP)?;
            let (words, later) = rest.split_at_checked(words)?;
            let (window, step) = (usize::try_from(window).ok()?, step);
            let bounds = bounds(round, window)?;
            let strip = |words: &[u64; STRIP]| strip_of(words, &bounds);
            let strips = words.as_chunks::<STRIP>().0.iter().map(strip).collect::<Option<Vec<_>>>()?;
            parts.push(Self { round, window, step, strips });
            message = later;
        }
        message.is_empty().then_some(parts)
    }
}

/// A strip, if its runs lie in the bounds.
fn strip_of([offset, len, stride, count]: &[u64; STRIP], bounds: &Range<u64>) -> Option<Strip> {
    let strip = Strip { offset: *offset as i64, len: *len, stride: *stride as i64, count: *count };
    let forward = strip.offset >= 0 && strip.stride >= 0 && *len > 0 && *count > 0;
    let last = stride.checked_mul(count.checked_sub(1)?)?.checked_add(*offset)?.checked_add(*len)?;
    (forward && *offset >= bounds.start && last <= bounds.end).then_some(strip)
}

/// Runs of the file, in ascending order.
pub(crate) struct RunList(Vec<[u64; 2]>);

impl RunList {
    /// The runs of a window of data bytes.
    pub(crate) fn of(pattern: &Pattern, window: Range<u64>) -> Self {
        if window.is_empty() {
            return Self(Vec::new());
        }
        Self(pattern.runs(window).map(|run| [run.offset as u64, run.len]).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|[start, len]| *start..start + len)
    }

    /// As bytes of a message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        bytemuck::cast_slice(&self.0).to_vec()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let whole = bytes.len().is_multiple_of(16);
        let runs: Vec<[u64; 2]> = if whole { bytemuck::pod_collect_to_vec(bytes) } else { return None };
        runs.iter().all(|[start, len]| start.checked_add(*len).is_some()).then_some(Self(runs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(offset: i64, len: u64, stride: i64, count: u64) -> Strip {
        Strip { offset, len, stride, count }
    }

    #[test]
    fn messages_are_decoded_and_malformed_ones_rejected() {
        let parts = [
            WindowStrips {
                round: 3,
                window: 1,
                step: 0,
                strips: vec![strip(100, 4, 16, 7), strip(300, 9, 0, 1)],
            },
            WindowStrips { round: 4, window: 0, step: 2, strips: vec![] },
        ];
        let mut words = Vec::new();
        parts.iter().for_each(|part| part.encode(&mut words));
        let bounds = |_, _| Some(100..400);
        assert_eq!(WindowStrips::decode(&words, bounds).unwrap(), parts);
        assert!(WindowStrips::decode(&words[..words.len() - 1], bounds).is_none());
        assert!(WindowStrips::decode(&words, |_, _| Some(101..400)).is_none());
        assert!(WindowStrips::decode(&words, |_, _| Some(100..308)).is_none());
        assert!(WindowStrips::decode(&words, |_, _| None).is_none());
    }

    #[test]
    fn impossible_strips_are_rejected() {
        let whole = 0..u64::MAX;
        for words in
            [[0, 0, 0, 1], [0, 1, 0, 0], [0, 1, u64::MAX, 2], [u64::MAX, 1, 0, 1], [5, u64::MAX, 0, 1]]
        {
            assert_eq!(strip_of(&words, &whole), None, "{words:?}");
        }
        assert!(strip_of(&[5, 3, 2, 4], &(5..14)).is_some());
    }
}
