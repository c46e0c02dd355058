//! Patterns: data bytes in order, at their places; what a layout becomes when it is tiled over memory or a file.

use std::fmt;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use super::basic::Basic;
use super::error::{LayoutError, Problem, Result};
use super::runs::Runs;
use super::shape::Shape;
use super::signature::Signature;
use super::strips::Strips;
use super::tree::{Kind, Tree};

/// Data bytes in order and their offsets, without bounds: a [`Layout`](super::Layout) once, several times, or without end.
///
/// Data bytes are numbered from 0 in the order of the layout; each has an offset, in memory or in a file. A *window* is a range of
/// data bytes. Windows that exceed the last data byte are cut there.
///
/// ```
/// use aqueduct_file::layout::{Basic, Layout, Run, Vector};
///
/// // Every third i32 of a file that begins with a header of 100 bytes.
/// let every_third = Layout::from(Basic::I32).resized(0, 12)?.endless(100)?;
/// assert!(every_third.runs(4..10).eq([Run { offset: 112, len: 4 }, Run { offset: 124, len: 2 }]));
/// assert_eq!(every_third.offset_of(4_000_000), Some(12_000_100));
/// assert_eq!(every_third.bytes_before(12_000_100), Some(4_000_000));
/// # Ok::<_, aqueduct_file::layout::LayoutError>(())
/// ```
///
/// Cheap to clone, immutable, compared by its description.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Where the first data byte lies; 0 without data.
    origin: i64,
    tree: Option<Arc<Tree>>,
}

impl Pattern {
    pub(crate) const EMPTY: Self = Self { origin: 0, tree: None };

    /// The tree with its first data byte at `origin`.
    pub(crate) fn new(origin: i64, tree: Arc<Tree>) -> std::result::Result<Self, Problem> {
        let facts = &tree.facts;
        match (origin.checked_add(facts.low), origin.checked_add(facts.high)) {
            (Some(_), Some(_)) => Ok(Self { origin, tree: Some(tree) }),
            _ => Err(Problem::TooLarge),
        }
    }

    /// Where the first data byte lies, and the tree.
    pub(crate) fn placed(&self) -> Option<(i64, &Arc<Tree>)> {
        self.tree.as_ref().map(|tree| (self.origin, tree))
    }

    /// The number of data bytes.
    pub fn size(&self) -> u64 {
        self.tree.as_ref().map_or(0, |tree| tree.size())
    }

    /// The lowest offset of a data byte; 0 without data.
    pub fn lowest(&self) -> i64 {
        self.tree.as_ref().map_or(0, |tree| self.origin + tree.facts.low)
    }

    /// The offset after the highest data byte; 0 without data.
    pub fn highest(&self) -> i64 {
        self.tree.as_ref().map_or(0, |tree| self.origin + tree.facts.high)
    }

    /// The number of runs that [`Pattern::runs`] yields for all data.
    pub fn run_count(&self) -> u64 {
        self.tree.as_ref().map_or(0, |tree| tree.facts.runs)
    }

    /// The number of basic elements.
    pub fn element_count(&self) -> u64 {
        self.tree.as_ref().map_or(0, |tree| tree.facts.elements)
    }

    /// The number of bytes that all data takes in the portable representation.
    pub fn external32_size(&self) -> u64 {
        self.tree.as_ref().map_or(0, |tree| tree.facts.external32)
    }

    /// The kind of all elements, if they have one in common.
    pub fn uniform(&self) -> Option<Basic> {
        self.tree.as_ref().and_then(|tree| tree.facts.uniform)
    }

    /// The strictest alignment that an element needs; 1 without data.
    pub(crate) fn alignment(&self) -> i64 {
        self.tree.as_ref().map_or(1, |tree| tree.facts.alignment as i64)
    }

    /// After how many data bytes it repeats, and how much further in the file that is; none where it does not, or not upwards.
    pub(crate) fn period(&self) -> Option<(u64, u64)> {
        match &self.tree.as_ref()?.kind {
            Kind::Block { .. } => Some((1, 1)),
            Kind::Repeat { child, stride, .. } if *stride > 0 => Some((child.facts.size, *stride as u64)),
            _ => None,
        }
    }

    /// Whether all data is one run.
    pub fn is_contiguous(&self) -> bool {
        self.tree.as_ref().is_none_or(|tree| tree.facts.dense())
    }

    /// Whether every data byte lies above the one before it; then no byte comes twice, and [`Pattern::bytes_before`] has an answer.
    pub fn is_ascending(&self) -> bool {
        self.tree.as_ref().is_none_or(|tree| tree.facts.ascending())
    }

    /// Whether no element starts below the one before it; elements may overlap.
    pub fn is_sorted(&self) -> bool {
        self.tree.as_ref().is_none_or(|tree| tree.facts.sorted())
    }

    /// Whether a byte may be described twice. `false` is certain; `true` may be said of patterns so interleaved that
    /// finding out would take a walk.
    pub fn may_overlap(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| !tree.facts.disjoint)
    }

    /// How much is stored: nodes and list entries. It does not depend on repeat counts.
    pub fn weight(&self) -> u64 {
        self.tree.as_ref().map_or(0, |tree| tree.facts.weight)
    }

    /// Levels of nesting: what a seek goes through.
    pub fn depth(&self) -> u32 {
        self.tree.as_ref().map_or(0, |tree| tree.facts.depth)
    }

    /// The same bytes, `displacement` further.
    pub fn shifted(&self, displacement: i64) -> Result<Self> {
        let Some((origin, tree)) = self.placed() else {
            return Ok(Self::EMPTY);
        };
        let origin = origin.checked_add(displacement).ok_or(Problem::TooLarge);
        origin
            .and_then(|origin| Self::new(origin, Arc::clone(tree)))
            .map_err(|problem| LayoutError::new("shifted", problem))
    }

    /// Which simple form the pattern has, if any: what a simple copy loop needs to know.
    pub fn shape(&self) -> Shape {
        Shape::of(self)
    }

    /// The runs of a window, in data order, adjacent ones joined; lazily, without allocation after the start.
    pub fn runs(&self, window: impl RangeBounds<u64>) -> Runs<'_> {
        Runs::new(self.strips(window))
    }

    /// The strips of a window: rows of equally long runs, equally far apart. Fewer steps than [`Pattern::runs`], for copy loops.
    pub fn strips(&self, window: impl RangeBounds<u64>) -> Strips<'_> {
        Strips::new(self, self.clip(&window))
    }

    /// The kinds of the elements that a window touches, in data order, as (kind, count), equal neighbours joined.
    #[doc(alias = "type signature")]
    pub fn signature(&self, window: impl RangeBounds<u64>) -> Signature<'_> {
        Signature::new(self, self.clip(&window))
    }

    /// The window as a range, cut to the data there is.
    pub(crate) fn clip(&self, window: &impl RangeBounds<u64>) -> Range<u64> {
        let size = self.size();
        let start = match window.start_bound() {
            Bound::Included(&first) => first,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match window.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => size,
        };
        let end = end.min(size);
        start.min(end)..end
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tree {
            Some(tree) => write!(f, "Pattern({} + {tree})", self.origin),
            None => f.write_str("Pattern(empty)"),
        }
    }
}

/// Seeking: both directions between data bytes and offsets.
impl Pattern {
    /// The offset of data byte `n`; `None` after the last one.
    pub fn offset_of(&self, n: u64) -> Option<i64> {
        let (mut offset, root) = self.placed()?;
        let (mut tree, mut n) = (&**root, Some(n).filter(|&n| n < root.size())?);
        while !tree.facts.dense() {
            let (at, rest, child) = tree.locate(n);
            offset += at;
            (n, tree) = (rest, child);
        }
        Some(offset + n as i64)
    }

    /// The number of data bytes at offsets below this one; `None` if the pattern is not [ascending](Pattern::is_ascending).
    pub fn bytes_before(&self, offset: i64) -> Option<u64> {
        let Some((origin, root)) = self.placed() else {
            return Some(0);
        };
        if !root.facts.ascending() {
            return None;
        }
        if offset >= self.highest() {
            return Some(root.size());
        }
        let (mut tree, mut before, mut left) = (&**root, 0, offset.checked_sub(origin).unwrap_or(-1));
        while left > 0 {
            if left >= tree.facts.high {
                return Some(before + tree.size());
            }
            if tree.facts.dense() {
                return Some(before + left as u64);
            }
            let (bytes, at, child) = tree.below(left);
            before += bytes;
            left -= at;
            tree = child;
        }
        Some(before)
    }

    /// The window of the data bytes whose offsets lie in this range; `None` if the pattern is not [ascending](Pattern::is_ascending).
    ///
    /// ```
    /// use aqueduct_file::layout::{Basic, Layout};
    ///
    /// let column = Layout::from(Basic::F64).resized(0, 800)?.endless(0)?;
    /// assert_eq!(column.data_within(4_000..8_000), Some(40..80));
    /// # Ok::<_, aqueduct_file::layout::LayoutError>(())
    /// ```
    pub fn data_within(&self, offsets: Range<i64>) -> Option<Range<u64>> {
        let start = self.bytes_before(offsets.start)?;
        Some(start..self.bytes_before(offsets.end)?.max(start))
    }

    /// As [`span`](Pattern::span), for a pattern of a file, whose offsets are not negative.
    pub(crate) fn file_span(&self, window: &Range<u64>) -> Range<u64> {
        let span = self.span(window.clone());
        span.start as u64..span.end as u64
    }

    /// The offsets from the lowest to after the highest data byte of a window; empty for an empty window.
    ///
    /// Exact. Analytic where the pattern is [ascending](Pattern::is_ascending) or the window is everything, a walk otherwise.
    pub fn span(&self, window: impl RangeBounds<u64>) -> Range<i64> {
        let window = self.clip(&window);
        if window.is_empty() {
            return 0..0;
        }
        if window == (0..self.size()) {
            return self.lowest()..self.highest();
        }
        if self.is_ascending() {
            let (first, last) = (self.offset_of(window.start), self.offset_of(window.end - 1));
            return first.unwrap_or(0)..last.map_or(0, |last| last + 1);
        }
        let spans = self.strips(window).map(|strip| strip.span());
        spans.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
    }

    /// The number of elements that lie completely among the first `n` data bytes: what a transfer of `n` bytes moved.
    #[doc(alias = "MPI_Get_elements")]
    pub fn elements_before(&self, n: u64) -> u64 {
        let Some((_, root)) = self.placed() else {
            return 0;
        };
        if n >= root.size() {
            return root.facts.elements;
        }
        let (mut tree, mut n, mut elements) = (&**root, n, 0);
        loop {
            if let Some(basic) = tree.facts.uniform {
                return elements + n / basic.size();
            }
            match &tree.kind {
                Kind::Mixed { parts, .. } => {
                    let part = &parts[parts.partition_point(|part| part.start <= n) - 1];
                    elements += part.first;
                    n -= part.start;
                    tree = &part.tree;
                }
                Kind::Block { .. } => return elements,
                Kind::Repeat { child, .. } | Kind::Listed { child, .. } | Kind::Ragged { child, .. } => {
                    elements += n / child.size() * child.facts.elements;
                    n %= child.size();
                    tree = child;
                }
            }
        }
    }
}
