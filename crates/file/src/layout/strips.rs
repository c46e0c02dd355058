//! Strips: rows of equally long runs, equally far apart; what copy loops work on.

use std::iter::FusedIterator;
use std::ops::Range;

use super::pattern::Pattern;
use super::tree::{Kind, Tree};
use super::walk::{Leaf, Walk};

/// `count` runs of `len` bytes, the first at `offset`, each `stride` further than the one before it. Neither count nor length is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strip {
    /// Where the first run starts.
    pub offset: i64,
    /// Bytes of each run.
    pub len: u64,
    /// From the start of one run to the start of the next; may be negative, and says nothing if there is one run.
    pub stride: i64,
    /// How many runs.
    pub count: u64,
}

impl Strip {
    /// The number of data bytes.
    pub fn size(&self) -> u64 {
        self.len * self.count
    }

    /// From the lowest to behind the highest offset.
    pub fn span(&self) -> Range<i64> {
        let last = self.offset + (self.count - 1) as i64 * self.stride;
        self.offset.min(last)..self.offset.max(last) + self.len as i64
    }

    /// Takes the first `runs` runs off.
    fn skip(&mut self, runs: u64) {
        self.count -= runs;
        // Behind the last run there may be no offset any more; nobody looks at it then.
        self.offset = self.offset.wrapping_add((runs as i64).wrapping_mul(self.stride));
    }
}

impl Leaf for Strip {
    fn tree(tree: &Tree, offset: i64) -> Option<Self> {
        if tree.facts.dense() {
            return Some(Self { offset, len: tree.size(), stride: 0, count: 1 });
        }
        match &tree.kind {
            Kind::Repeat { child, count, stride } if child.facts.dense() => {
                Some(Self { offset, len: child.size(), stride: *stride, count: *count })
            }
            _ => None,
        }
    }

    fn block(child: &Tree, offset: i64, step: i64, count: u64) -> Option<Self> {
        if !child.facts.dense() {
            None
        } else if count == 1 || step == child.facts.tail {
            Some(Self { offset, len: child.size() * count, stride: 0, count: 1 })
        } else {
            Some(Self { offset, len: child.size(), stride: step, count })
        }
    }
}

/// The strips of a window, in data order; see [`Pattern::strips`].
#[derive(Clone, Debug)]
pub struct Strips<'a> {
    walk: Option<Walk<'a>>,
    /// What is left of the strip the walk is at; no runs if it is used up.
    strip: Strip,
    /// Bytes of the strip's first run that lie before the window.
    skip: u64,
    /// Data bytes left of the window.
    left: u64,
}

impl<'a> Strips<'a> {
    /// The window must lie in the pattern.
    pub(super) fn new(pattern: &'a Pattern, window: Range<u64>) -> Self {
        let left = window.end - window.start;
        let nothing = Strip { offset: 0, len: 1, stride: 0, count: 0 };
        let Some((origin, tree)) = pattern.placed().filter(|_| left > 0) else {
            return Self { walk: None, strip: nothing, skip: 0, left: 0 };
        };
        let (walk, mut strip, rest) = Walk::seek::<Strip>(tree, origin, window.start);
        strip.skip(rest / strip.len);
        Self { walk: Some(walk), skip: rest % strip.len, strip, left }
    }

    /// A piece of the first run, up to the end of the run or of the window.
    fn piece(&mut self) -> Strip {
        let len = (self.strip.len - self.skip).min(self.left);
        let piece = Strip { offset: self.strip.offset + self.skip as i64, len, stride: 0, count: 1 };
        self.skip = 0;
        self.left -= len;
        self.strip.skip(1);
        piece
    }
}

impl Iterator for Strips<'_> {
    type Item = Strip;

    #[inline]
    fn next(&mut self) -> Option<Strip> {
        if self.left == 0 {
            return None;
        }
        if self.strip.count == 0 {
            self.strip = self.walk.as_mut()?.next()?;
        }
        let whole = if self.strip.count == 1 {
            u64::from(self.left >= self.strip.len)
        } else {
            self.strip.count.min(self.left / self.strip.len)
        };
        if self.skip > 0 || whole == 0 {
            return Some(self.piece());
        }
        let strip = Strip { count: whole, ..self.strip };
        self.left -= strip.size();
        self.strip.skip(whole);
        Some(strip)
    }
}

impl FusedIterator for Strips<'_> {}
