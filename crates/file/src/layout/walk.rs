//! The walk over the leaves of a tree, from any data byte on, without recursion and without allocation per leaf.

use std::fmt;

use super::tree::{Kind, Tree};

/// What a walk stops at. Which trees are leaves is the walk's choice: runs do not care for kinds, signatures not for places.
pub(super) trait Leaf<'a>: Sized {
    /// The tree at this place as a leaf, if it is one. A [`Kind::Block`] must be.
    fn tree(tree: &'a Tree, base: i64) -> Option<Self>;
}

/// A place in a tree: the inner nodes from the root to the current leaf, and which part of each.
#[derive(Clone, Debug)]
pub(super) struct TreeWalk<'a> {
    frames: Vec<WalkFrame<'a>>,
}

#[derive(Clone)]
struct WalkFrame<'a> {
    tree: &'a Tree,
    base: i64,
    /// Which part; of a ragged node, which block.
    index: u64,
    /// How many parts or blocks.
    count: u64,
    /// Of a ragged node: which copy in the block.
    copy: u64,
}

impl fmt::Debug for WalkFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} of {}", self.index, self.copy, self.tree)
    }
}

impl<'a> TreeWalk<'a> {
    /// Goes to the leaf that holds data byte `n`, which must exist; returns the walk, the leaf, and which of its bytes that is.
    pub(super) fn seek<L: Leaf<'a>>(root: &'a Tree, origin: i64, n: u64) -> (Self, L, u64) {
        let mut frames = Vec::with_capacity(root.facts.depth as usize);
        let (mut tree, mut base, mut n) = (root, origin, n);
        loop {
            if let Some(leaf) = L::tree(tree, base) {
                return (Self { frames }, leaf, n);
            }
            let mut frame = WalkFrame::new(tree, base);
            n = frame.enter(n);
            (tree, base) = frame.child();
            frames.push(frame);
        }
    }

    /// Goes to the next leaf if that is the same one again, and returns how far it moves; else stays.
    #[inline]
    pub(super) fn slide(&mut self) -> Option<i64> {
        let frame = self.frames.last_mut()?;
        if frame.index + 1 >= frame.count {
            return None;
        }
        let index = frame.index as usize;
        let distance = match &frame.tree.kind {
            Kind::Repeat { stride, .. } => *stride,
            Kind::Listed { offsets, .. } => offsets[index + 1] - offsets[index],
            _ => return None,
        };
        frame.index += 1;
        Some(distance)
    }

    /// Goes to the next leaf.
    pub(super) fn next<L: Leaf<'a>>(&mut self) -> Option<L> {
        while !self.frames.last_mut()?.advance() {
            self.frames.pop();
        }
        let (mut tree, mut base) = self.frames.last()?.child();
        loop {
            if let Some(leaf) = L::tree(tree, base) {
                return Some(leaf);
            }
            let frame = WalkFrame::new(tree, base);
            (tree, base) = frame.child();
            self.frames.push(frame);
        }
    }
}

impl<'a> WalkFrame<'a> {
    /// At the first part.
    fn new(tree: &'a Tree, base: i64) -> Self {
        let count = match &tree.kind {
            Kind::Block { .. } => 1,
            Kind::Repeat { count, .. } => *count,
            Kind::Listed { offsets, .. } | Kind::Ragged { offsets, .. } => offsets.len() as u64,
            Kind::Mixed { parts, .. } => parts.len() as u64,
        };
        Self { tree, base, index: 0, count, copy: 0 }
    }

    /// Goes to the part with data byte `n`; returns which of the part's bytes it is.
    fn enter(&mut self, n: u64) -> u64 {
        match &self.tree.kind {
            Kind::Block { .. } => n,
            Kind::Repeat { child, .. } | Kind::Listed { child, .. } => {
                self.index = n / child.size();
                n % child.size()
            }
            Kind::Ragged { child, firsts, .. } => {
                let copy = n / child.size();
                self.index = firsts.partition_point(|&first| first <= copy) as u64 - 1;
                self.copy = copy - firsts[self.index as usize];
                n % child.size()
            }
            Kind::Mixed { parts, .. } => {
                self.index = parts.partition_point(|part| part.start <= n) as u64 - 1;
                n - parts[self.index as usize].start
            }
        }
    }

    /// Goes to the next part, if there is one.
    #[inline]
    fn advance(&mut self) -> bool {
        if let Kind::Ragged { firsts, .. } = &self.tree.kind {
            let block = self.index as usize;
            self.copy += 1;
            if self.copy < firsts[block + 1] - firsts[block] {
                return true;
            }
            self.copy = 0;
        }
        self.index += 1;
        self.index < self.count
    }

    /// The current part and its place.
    #[inline]
    fn child(&self) -> (&'a Tree, i64) {
        let index = self.index as usize;
        match &self.tree.kind {
            Kind::Block { .. } => (self.tree, self.base),
            Kind::Repeat { child, stride, .. } => (child, self.base + self.index as i64 * stride),
            Kind::Listed { child, offsets } => (child, self.base + offsets[index]),
            Kind::Ragged { child, step, offsets, .. } => {
                (child, self.base + offsets[index] + self.copy as i64 * step)
            }
            Kind::Mixed { parts, .. } => (&parts[index].tree, self.base + parts[index].offset),
        }
    }
}
