//! The signature: the kinds of the data, in order, wherever it lies; what a conversion between representations walks.

use std::iter::FusedIterator;
use std::ops::Range;

use super::basic::Basic;
use super::pattern::Pattern;
use super::tree::Tree;
use super::walk::{Leaf, TreeWalk};

/// Elements of one kind, one after the other in data order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elements {
    /// Their kind.
    pub basic: Basic,
    /// How many; never 0.
    pub count: u64,
}

impl Elements {
    /// Their data bytes.
    pub fn size(&self) -> u64 {
        self.count * self.basic.size()
    }
}

impl Leaf<'_> for Elements {
    fn tree(tree: &Tree, _: i64) -> Option<Self> {
        tree.facts.uniform.map(|basic| Self { basic, count: tree.facts.elements })
    }
}

/// The elements that a window touches, in data order; see [`Pattern::signature`].
#[derive(Clone, Debug)]
pub struct Signature<'a> {
    walk: Option<TreeWalk<'a>>,
    next: Option<Elements>,
    /// Data bytes of the window from the start of `next` on.
    left: u64,
}

impl<'a> Signature<'a> {
    /// The window must lie in the pattern.
    pub(super) fn new(pattern: &'a Pattern, window: Range<u64>) -> Self {
        let left = window.end - window.start;
        let Some((origin, tree)) = pattern.placed().filter(|_| left > 0) else {
            return Self { walk: None, next: None, left: 0 };
        };
        let (walk, elements, rest) = TreeWalk::seek::<Elements>(tree, origin, window.start);
        let size = elements.basic.size();
        let count = elements.count - rest / size;
        let next = Some(Elements { count, ..elements });
        Self { walk: Some(walk), next, left: left + rest % size }
    }
}

impl Iterator for Signature<'_> {
    type Item = Elements;

    fn next(&mut self) -> Option<Elements> {
        let mut total: Option<Elements> = None;
        while self.left > 0
            && let Some(next) = self.next
            && total.is_none_or(|total| total.basic == next.basic)
        {
            let count = next.count.min(self.left.div_ceil(next.basic.size()));
            self.left = self.left.saturating_sub(next.size());
            total = Some(Elements { count: count + total.map_or(0, |total| total.count), ..next });
            self.next = self.walk.as_mut().and_then(TreeWalk::next);
        }
        total
    }
}

impl FusedIterator for Signature<'_> {}
