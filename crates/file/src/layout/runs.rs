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
    /// The offset behind the last byte.
    pub fn end(&self) -> i64 {
        self.offset + self.len as i64
    }
}

/// The runs of a window, in data order; see [`Pattern::runs`](super::Pattern::runs).
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    strips: Strips<'a>,
    /// What is left of the current strip.
    strip: Option<Strip>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(mut strips: Strips<'a>) -> Self {
        let strip = strips.next();
        Self { strips, strip }
    }
}

/// Takes the first run off the strip.
#[inline]
fn take(strip: &mut Strip) -> Run {
    let run = Run { offset: strip.offset, len: strip.len };
    strip.offset = strip.offset.wrapping_add(strip.stride);
    strip.count -= 1;
    run
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        let strip = self.strip.as_mut()?;
        let mut run = take(strip);
        if strip.count > 0 {
            // Inside a strip no run touches the next: it would be one run.
            return Some(run);
        }
        self.strip = self.strips.next();
        while let Some(strip) = &mut self.strip
            && strip.offset == run.end()
        {
            run.len += take(strip).len;
            if strip.count > 0 {
                break;
            }
            self.strip = self.strips.next();
        }
        Some(run)
    }
}

impl FusedIterator for Runs<'_> {}
