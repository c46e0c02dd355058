//! Strips: rows of equally long runs, equally far apart; what copy loops work on.

use std::iter::FusedIterator;
use std::ops::Range;

pub use aqueduct_device::Strip;

use super::pattern::Pattern;
use super::row::RunRow;
use super::walk::TreeWalk;

/// The strips of a window, in data order; see [`Pattern::strips`].
#[derive(Clone, Debug)]
pub struct Strips<'a> {
    walk: Option<TreeWalk<'a>>,
    /// The row the walk is at.
    row: RunRow<'a>,
    /// Which strip of the row is next.
    next: usize,
    /// What is left of the strip before it; no runs if it is used up.
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
        let Some((origin, tree)) = pattern.placed().filter(|_| left > 0) else {
            let strip = Strip { offset: 0, len: 1, stride: 0, count: 0 };
            return Self { walk: None, row: RunRow::EMPTY, next: 0, strip, skip: 0, left: 0 };
        };
        let (walk, row, n) = TreeWalk::seek::<RunRow<'_>>(tree, origin, window.start);
        let (index, rest) = row.locate(n);
        let mut strip = row.strip(index);
        strip.advance(rest / strip.len);
        Self { walk: Some(walk), row, next: index + 1, skip: rest % strip.len, strip, left }
    }

    /// Goes to the next row; `false` at the end.
    #[inline]
    fn turn(&mut self) -> bool {
        if let Some(distance) = self.walk.as_mut().and_then(TreeWalk::slide) {
            self.row.base += distance;
            self.next = 0;
            return true;
        }
        self.climb()
    }

    /// As [`Strips::turn`], to a row that is not the same again.
    #[inline(never)]
    fn climb(&mut self) -> bool {
        let Some(row) = self.walk.as_mut().and_then(TreeWalk::next) else {
            return false;
        };
        self.row = row;
        self.next = 0;
        true
    }

    /// At an end of the window: of the strip there, the runs that lie inside, or a piece of one.
    #[inline(never)]
    fn edge(&mut self) -> Option<Strip> {
        if self.left == 0 {
            return None;
        }
        let whole = self.strip.count.min(self.left / self.strip.len);
        let inside = if self.skip == 0 && whole > 0 {
            Strip { count: whole, ..self.strip }
        } else {
            let len = (self.strip.len - self.skip).min(self.left);
            Strip { offset: self.strip.offset + self.skip as i64, len, stride: 0, count: 1 }
        };
        self.skip = 0;
        self.left -= inside.size();
        self.strip.advance(inside.count);
        Some(inside)
    }
}

impl Iterator for Strips<'_> {
    type Item = Strip;

    #[inline]
    fn next(&mut self) -> Option<Strip> {
        if self.strip.count > 0 {
            return self.edge();
        }
        if self.next == self.row.count && !self.turn() {
            return None;
        }
        let strip = self.row.strip(self.next);
        self.next += 1;
        let size = strip.size();
        if size <= self.left {
            self.left -= size;
            return Some(strip);
        }
        self.strip = strip;
        self.edge()
    }
}

impl FusedIterator for Strips<'_> {}
