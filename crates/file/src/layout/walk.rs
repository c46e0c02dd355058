//! The walk over the leaves of a tree, from any data byte on, without recursion and without allocation per leaf.

use super::tree::{Kind, Tree};

/// What a walk stops at. Which trees are leaves is the walk's choice: runs do not care for kinds, signatures not for places.
pub(super) trait Leaf: Sized {
    /// The tree as a leaf, if it is one.
    fn tree(tree: &Tree, base: i64) -> Option<Self>;

    /// A block of `count` copies, `step` apart, as a leaf, if it is one.
    fn block(child: &Tree, base: i64, step: i64, count: u64) -> Option<Self>;
}

/// A place in a tree: the inner nodes from the root to the current leaf, and which part of each.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Clone)]
struct Frame<'a> {
    tree: &'a Tree,
    base: i64,
    /// Which part, of a ragged node which block.
    index: u64,
    /// Of a ragged node: which copy in the block.
    copy: u64,
}

impl std::fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{} of {}", self.index, self.copy, self.tree)
    }
}

/// A part of an inner node.
enum Part<'a, L> {
    Leaf(L),
    Tree(&'a Tree, i64),
}

impl<'a> Walk<'a> {
    /// Goes to the leaf that holds data byte `n`, which must exist; returns the walk, the leaf, and which of its bytes that is.
    pub(super) fn seek<L: Leaf>(root: &'a Tree, origin: i64, n: u64) -> (Self, L, u64) {
        let mut frames = Vec::with_capacity(root.facts.depth as usize);
        let (mut tree, mut base, mut n) = (root, origin, n);
        loop {
            if let Some(leaf) = L::tree(tree, base) {
                return (Self { frames }, leaf, n);
            }
            let mut frame = Frame { tree, base, index: 0, copy: 0 };
            n = frame.enter(n);
            if let Kind::Ragged { child, step, .. } = &tree.kind {
                // A block may be a leaf as a whole; then the byte counts from the block's start.
                let (copies, before) = (frame.copies(), frame.copy * child.size());
                let start = base + frame.block_offset();
                if let Some(leaf) = L::block(child, start, *step, copies) {
                    frame.copy = 0;
                    frames.push(frame);
                    return (Self { frames }, leaf, before + n);
                }
            }
            let (child, at) = frame.child();
            frames.push(frame);
            (tree, base) = (child, at);
        }
    }

    /// Goes to the next leaf.
    pub(super) fn next<L: Leaf>(&mut self) -> Option<L> {
        loop {
            match self.frames.last_mut()?.advance() {
                Some(Part::Leaf(leaf)) => return Some(leaf),
                Some(Part::Tree(tree, base)) => return Some(self.descend(tree, base)),
                None => {
                    self.frames.pop();
                }
            }
        }
    }

    /// Goes down to the first leaf of the tree.
    fn descend<L: Leaf>(&mut self, tree: &'a Tree, base: i64) -> L {
        let (mut tree, mut base) = (tree, base);
        loop {
            if let Some(leaf) = L::tree(tree, base) {
                return leaf;
            }
            let frame = Frame { tree, base, index: 0, copy: 0 };
            let part = frame.part();
            self.frames.push(frame);
            match part {
                Part::Leaf(leaf) => return leaf,
                Part::Tree(child, at) => (tree, base) = (child, at),
            }
        }
    }
}

impl<'a> Frame<'a> {
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
            Kind::Mixed { parts } => {
                self.index = parts.partition_point(|part| part.start <= n) as u64 - 1;
                n - parts[self.index as usize].start
            }
        }
    }

    /// The next part; a ragged block that is a leaf as a whole is one part.
    fn advance<L: Leaf>(&mut self) -> Option<Part<'a, L>> {
        match &self.tree.kind {
            Kind::Block { .. } => return None,
            Kind::Repeat { count, .. } => {
                self.index += 1;
                if self.index == *count {
                    return None;
                }
            }
            Kind::Listed { offsets, .. } => {
                self.index += 1;
                if self.index == offsets.len() as u64 {
                    return None;
                }
            }
            Kind::Mixed { parts } => {
                self.index += 1;
                if self.index == parts.len() as u64 {
                    return None;
                }
            }
            Kind::Ragged { child, step, offsets, .. } => {
                let whole = L::block(child, self.base, *step, self.copies()).is_some();
                self.copy += 1;
                if whole || self.copy == self.copies() {
                    self.index += 1;
                    self.copy = 0;
                }
                if self.index == offsets.len() as u64 {
                    return None;
                }
            }
        }
        Some(self.part())
    }

    /// The current part.
    fn part<L: Leaf>(&self) -> Part<'a, L> {
        if let Kind::Ragged { child, step, .. } = &self.tree.kind
            && self.copy == 0
            && let Some(leaf) = L::block(child, self.base + self.block_offset(), *step, self.copies())
        {
            return Part::Leaf(leaf);
        }
        let (tree, base) = self.child();
        Part::Tree(tree, base)
    }

    /// The current child and its place.
    fn child(&self) -> (&'a Tree, i64) {
        let index = self.index as usize;
        match &self.tree.kind {
            Kind::Block { .. } => (self.tree, self.base),
            Kind::Repeat { child, stride, .. } => (child, self.base + self.index as i64 * stride),
            Kind::Listed { child, offsets } => (child, self.base + offsets[index]),
            Kind::Ragged { child, step, offsets, .. } => {
                (child, self.base + offsets[index] + self.copy as i64 * step)
            }
            Kind::Mixed { parts } => (&parts[index].tree, self.base + parts[index].offset),
        }
    }

    /// Of a ragged node: where the current block starts, from the node's first byte.
    fn block_offset(&self) -> i64 {
        match &self.tree.kind {
            Kind::Ragged { offsets, .. } => offsets[self.index as usize],
            _ => 0,
        }
    }

    /// Of a ragged node: how many copies the current block has.
    fn copies(&self) -> u64 {
        match &self.tree.kind {
            Kind::Ragged { firsts, .. } => firsts[self.index as usize + 1] - firsts[self.index as usize],
            _ => 1,
        }
    }
}
