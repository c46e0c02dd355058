//! One level of a seek: by division where parts repeat, by bisection where they are listed.

use super::{Kind, Tree};

impl Tree {
    /// For data byte `n` of this tree: where the part that holds it lies, which of the part's bytes it is, and the part.
    pub(crate) fn locate(&self, n: u64) -> (i64, u64, &Tree) {
        match &self.kind {
            Kind::Block { .. } => (0, n, self),
            Kind::Repeat { child, stride, .. } => {
                ((n / child.size()) as i64 * stride, n % child.size(), child)
            }
            Kind::Listed { child, offsets } => {
                (offsets[(n / child.size()) as usize], n % child.size(), child)
            }
            Kind::Ragged { child, step, offsets, firsts } => {
                let copy = n / child.size();
                let block = firsts.partition_point(|&first| first <= copy) - 1;
                (offsets[block] + (copy - firsts[block]) as i64 * step, n % child.size(), child)
            }
            Kind::Mixed { parts, .. } => {
                let part = &parts[parts.partition_point(|part| part.start <= n) - 1];
                (part.offset, n - part.start, &part.tree)
            }
        }
    }

    /// For an offset above 0 and below the highest byte of an ascending tree: the last part that begins at or below it, as
    /// data bytes before it, its place, and itself.
    pub(crate) fn below(&self, offset: i64) -> (u64, i64, &Tree) {
        match &self.kind {
            Kind::Block { .. } => (0, 0, self),
            Kind::Repeat { child, stride, .. } => {
                // No requested offset lies after the last copy.
                let index = offset / stride;
                (index as u64 * child.size(), index * stride, child)
            }
            Kind::Listed { child, offsets } => {
                let index = offsets.partition_point(|&at| at <= offset) - 1;
                (index as u64 * child.size(), offsets[index], child)
            }
            Kind::Ragged { child, step, offsets, firsts } => {
                let block = offsets.partition_point(|&at| at <= offset) - 1;
                let copies = (firsts[block + 1] - firsts[block]) as i64;
                // A single copy may have any step, zero too.
                let copy = if copies == 1 { 0 } else { ((offset - offsets[block]) / step).min(copies - 1) };
                ((firsts[block] + copy as u64) * child.size(), offsets[block] + copy * step, child)
            }
            Kind::Mixed { parts, .. } => {
                let part = &parts[parts.partition_point(|part| part.offset <= offset) - 1];
                (part.start, part.offset, &part.tree)
            }
        }
    }
}
