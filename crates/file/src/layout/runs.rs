//! Runs: the longest pieces of bytes that follow one another both in data order and in place.

use std::iter::FusedIterator;

use super::strips::{Strip, Strips};

/// Bytes one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Where they start.
    pub offset: i64,
    /// How many; never 0.
    pub len: u64,
}

impl Run {
    /// The offset after the last byte.
    pub fn end(&self) -> i64 {
        self.offset + self.len as i64
    }
}

/// The runs of a window, in data order; see [`Pattern::runs`](super::Pattern::runs).
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    strips: Strips<'a>,
    /// What is left of the current strip; no runs at the end.
    strip: Strip,
}

/// A strip without runs: the end.
const END: Strip = Strip { offset: 0, len: 0, stride: 0, count: 0 };

impl<'a> Runs<'a> {
    pub(super) fn new(mut strips: Strips<'a>) -> Self {
        let strip = strips.next().unwrap_or(END);
        Self { strips, strip }
    }

    /// Takes the first run off the strip.
    #[inline]
    fn take(&mut self) -> Run {
        let run = Run { offset: self.strip.offset, len: self.strip.len };
        self.strip.offset = self.strip.offset.wrapping_add(self.strip.stride);
        self.strip.count -= 1;
        run
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        if self.strip.count == 0 {
            return None;
        }
        let mut run = self.take();
        // Inside a strip no run touches the next, it would be one run; so only the last one may go on in the next strip.
        while self.strip.count == 0 {
            self.strip = self.strips.next().unwrap_or(END);
            if self.strip.count == 0 || self.strip.offset != run.end() {
                break;
            }
            run.len += self.take().len;
        }
        Some(run)
    }
}

impl FusedIterator for Runs<'_> {}
