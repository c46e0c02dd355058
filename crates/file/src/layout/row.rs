//! Rows: the innermost lists of strips, gone through without the walk's bookkeeping.

use super::strips::Strip;
use super::tree::{Kind, Tree, TreePart};
use super::walk::Leaf;

/// A leaf of the walk over strips: one strip, or a list of them.
#[derive(Clone)]
pub(super) struct RunRow<'a> {
    /// Where its tree lies; the strips move with it.
    pub(super) base: i64,
    /// How many strips.
    pub(super) count: usize,
    content: RowContent<'a>,
}

#[derive(Clone)]
enum RowContent<'a> {
    /// A strip.
    Single { len: u64, stride: i64, count: u64 },
    /// Equal runs at listed places.
    Listed { len: u64, offsets: &'a [i64] },
    /// Blocks of runs at listed places, see [`Kind::Ragged`].
    Ragged { size: u64, step: i64, offsets: &'a [i64], firsts: &'a [u64] },
    /// Different runs.
    Mixed { parts: &'a [TreePart] },
}

impl std::fmt::Debug for RunRow<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "row of {} at {}", self.count, self.base)
    }
}

impl<'a> Leaf<'a> for RunRow<'a> {
    #[inline]
    fn tree(tree: &'a Tree, base: i64) -> Option<Self> {
        if tree.facts.dense() {
            let content = RowContent::Single { len: tree.size(), stride: 0, count: 1 };
            return Some(Self { base, count: 1, content });
        }
        let (count, content) = match &tree.kind {
            Kind::Repeat { child, count, stride } if child.facts.dense() => {
                (1, RowContent::Single { len: child.size(), stride: *stride, count: *count })
            }
            Kind::Listed { child, offsets } if child.facts.dense() => {
                (offsets.len(), RowContent::Listed { len: child.size(), offsets })
            }
            Kind::Ragged { child, step, offsets, firsts } if child.facts.dense() => {
                (offsets.len(), RowContent::Ragged { size: child.size(), step: *step, offsets, firsts })
            }
            Kind::Mixed { parts, flat: true } => (parts.len(), RowContent::Mixed { parts }),
            _ => return None,
        };
        Some(Self { base, count, content })
    }
}

impl RunRow<'_> {
    /// Nothing.
    pub(super) const EMPTY: Self =
        Self { base: 0, count: 0, content: RowContent::Listed { len: 1, offsets: &[] } };

    /// The strip at this place of the row.
    #[inline]
    pub(super) fn strip(&self, index: usize) -> Strip {
        let run = |offset, len| Strip { offset: self.base + offset, len, stride: 0, count: 1 };
        match self.content {
            RowContent::Single { len, stride, count } => Strip { offset: self.base, len, stride, count },
            RowContent::Listed { len, offsets } => run(offsets[index], len),
            RowContent::Mixed { parts } => run(parts[index].offset, parts[index].tree.size()),
            RowContent::Ragged { size, step, offsets, firsts } => {
                let count = firsts[index + 1] - firsts[index];
                if step == size as i64 {
                    run(offsets[index], size * count)
                } else {
                    Strip { offset: self.base + offsets[index], len: size, stride: step, count }
                }
            }
        }
    }

    /// Which strip holds data byte `n` of the row, and which of its bytes it is.
    pub(super) fn locate(&self, n: u64) -> (usize, u64) {
        match self.content {
            RowContent::Single { .. } => (0, n),
            RowContent::Listed { len, .. } => ((n / len) as usize, n % len),
            RowContent::Mixed { parts } => {
                let index = parts.partition_point(|part| part.start <= n) - 1;
                (index, n - parts[index].start)
            }
            RowContent::Ragged { size, firsts, .. } => {
                let index = firsts.partition_point(|&first| first <= n / size) - 1;
                (index, n - firsts[index] * size)
            }
        }
    }
}
