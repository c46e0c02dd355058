//! Layouts: which bytes, in which order, of what kind; MPI's datatypes as small immutable values.
//!
//! [`Layout::of`] is the layout of a Rust type, `Layout::from(Basic)` that of a [`Basic`] kind of value. Constructors make others of them: copies
//! side by side, with gaps, at listed offsets, structures, parts of arrays. A layout describes memory and files alike.
//!
//! ```text
//!  Layout::of::<i32>().vector(Vector { count: 3, block: 2, stride: 3 })
//!
//!  offset   0       4       8       12      16      20      24      28      32
//!           |   0   |   1   | (gap) |   2   |   3   | (gap) |   4   |   5   |
//!           ^ lower bound                                            upper bound ^
//!
//!  size = 24 data bytes, extent = 32, 3 runs of 8 bytes.  Tiled, the next copy starts at 32:
//!
//!  data byte 0           8               16              24 25 …
//!           |## ##|  .  |## ##|  .  |## ##|## ##|  .  |## ##|  .  |## ##|## ##| …
//!                                   the last run of a copy meets the first of the next: one run
//! ```
//!
//! ```
//! use aqueduct_file::layout::{Layout, Run, Shape, Vector};
//!
//! let pairs = Layout::of::<i32>().vector(Vector { count: 3, block: 2, stride: 3 })?;
//! assert_eq!((pairs.size(), pairs.lower_bound(), pairs.extent()), (24, 0, 32));
//! assert_eq!(pairs.shape(), Shape::Strided { offset: 0, block: 8, stride: 12, count: 3 });
//!
//! // The data bytes 4 to 28 of two copies: runs that touch come as one.
//! let twice = pairs.tiled(2)?;
//! let runs: Vec<_> = twice.runs(4..28).map(|Run { offset, len }| (offset, len)).collect();
//! assert_eq!(runs, [(4, 4), (12, 8), (24, 12)]);
//! # Ok::<_, aqueduct_file::layout::LayoutError>(())
//! ```
//!
//! # Compact
//! A layout is never flattened. Its memory does not depend on repeat counts, and a window in the middle is found by division and bisection:
//!
//! ```
//! use aqueduct_file::layout::{Layout, Vector};
//!
//! let blocks = Layout::of::<f64>().vector(Vector { count: 100_000_000, block: 1, stride: 4 })?;
//! assert_eq!(blocks.pattern().weight(), 2, "two nodes");
//! let file = blocks.endless(1 << 20)?;
//! assert_eq!(file.offset_of(8 * 123_456_789), Some((1 << 20) + 32 * 123_456_789 - 24));
//! # Ok::<_, aqueduct_file::layout::LayoutError>(())
//! ```
//!
//! # Size, bounds, extent
//! The *size* counts data bytes. The *true* bounds enclose the data. The *bounds* say how copies are placed side by side: they
//! are the true ones, the upper rounded up to the strictest alignment, unless [`Layout::resized`] marked others. Marks stay in force in everything
//! built from the layout; constructors of array parts mark the bounds of the whole array. Without copies (a count of zero, blocks of length zero) a
//! constructor gives an empty layout with bounds 0 and 0. All of this is the MPI standard's; where implementations differ
//! from it and one another (rounding outside of structures), a layout decoded from one of them is resized to what that one says.
//!
//! # Three views of the same bytes
//! | | |
//! |---|---|
//! | [`Pattern::runs`] | where: offset and length, longest possible |
//! | [`Pattern::strips`] | where, for copy loops: equal runs, equally far apart |
//! | [`Pattern::signature`] | what: kinds and counts |
//!
//! [`Pattern::offset_of`] and [`Pattern::bytes_before`] translate between data bytes and offsets, [`Pattern::data_within`] cuts
//! with a byte range, [`Pattern::gather`] and [`Pattern::scatter`] copy.
//!
//! # File types
//! A layout that tiles a file has to be [monotone](Layout::is_monotone), or at least [sorted](Layout::is_sorted) for reading, and a
//! whole number of its element layouts ([`Layout::is_multiple_of`]).

mod array;
mod basic;
mod bounds;
mod construct;
mod copy;
mod element;
mod error;
mod facts;
mod pattern;
mod row;
mod runs;
mod shape;
mod signature;
mod strips;
mod tree;
mod walk;

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

pub use array::{Distributed, Distribution, Order};
pub use basic::Basic;
pub use construct::{Member, Vector};
pub(crate) use copy::by_length;
pub use element::ElementLayout;
pub use error::{LayoutError, MAX_DEPTH, Problem, Result};
pub use pattern::Pattern;
pub use runs::{Run, Runs};
pub use shape::{Shape, Stride};
pub use signature::{Elements, Signature};
pub use strips::{Strip, Strips};

use bounds::Bounds;

/// Which bytes, in which order, of what kind, and how copies are placed side by side. See the [module](self).
///
/// Cheap to clone, immutable, compared and hashed by its description (after simplification: a contiguous of a contiguous equals the
/// longer one).
#[doc(alias = "MPI_Datatype")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Layout(Arc<LayoutNode>);

#[derive(PartialEq, Eq, Hash)]
struct LayoutNode {
    pattern: Pattern,
    bounds: Bounds,
}

impl Layout {
    fn assemble(pattern: Pattern, bounds: Bounds) -> Self {
        Self(Arc::new(LayoutNode { pattern, bounds }))
    }

    fn bounds(&self) -> Bounds {
        self.0.bounds
    }

    /// The data of one copy.
    pub fn pattern(&self) -> &Pattern {
        &self.0.pattern
    }

    /// The number of data bytes.
    #[doc(alias = "MPI_Type_size")]
    pub fn size(&self) -> u64 {
        self.pattern().size()
    }

    /// Where a copy begins for the purpose of placing it.
    #[doc(alias = "MPI_Type_get_extent")]
    pub fn lower_bound(&self) -> i64 {
        self.bounds().lower
    }

    /// Where a copy ends for the purpose of placing the next.
    pub fn upper_bound(&self) -> i64 {
        self.bounds().upper
    }

    /// From one copy to the next.
    #[doc(alias = "MPI_Type_get_extent")]
    pub fn extent(&self) -> i64 {
        self.bounds().extent()
    }

    /// The lowest offset of a data byte; 0 without data.
    #[doc(alias = "MPI_Type_get_true_extent")]
    pub fn true_lower_bound(&self) -> i64 {
        self.pattern().lowest()
    }

    /// From the lowest to after the highest data byte.
    #[doc(alias = "MPI_Type_get_true_extent")]
    pub fn true_extent(&self) -> i64 {
        self.pattern().highest() - self.pattern().lowest()
    }

    /// The strictest alignment that an element needs; 1 without data.
    pub fn alignment(&self) -> u64 {
        self.pattern().alignment() as u64
    }

    /// Whether the data is one run that begins at offset 0, and copies side by side are one run too.
    pub fn is_contiguous(&self) -> bool {
        let pattern = self.pattern();
        pattern.is_contiguous() && pattern.lowest() == 0 && u64::try_from(self.extent()) == Ok(self.size())
    }

    /// Whether no offset is negative and every data byte lies above the one before it, also from copy to copy:
    /// what a file type must be where it is written with.
    pub fn is_monotone(&self) -> bool {
        let pattern = self.pattern();
        pattern.placed().is_none_or(|(origin, tree)| {
            origin >= 0 && tree.facts.ascending() && self.extent() >= tree.facts.tail
        })
    }

    /// Whether no offset is negative and no element starts below the one before it, also from copy to copy: what a file type must be
    /// where it is only read with. Elements may overlap.
    pub fn is_sorted(&self) -> bool {
        let pattern = self.pattern();
        pattern.placed().is_none_or(|(origin, tree)| {
            origin >= 0 && tree.facts.sorted() && self.extent() >= tree.facts.last
        })
    }

    /// Whether the data is a whole number of copies of `element`, by size; an element without data fits nothing but the empty layout.
    ///
    /// ```
    /// use aqueduct_file::layout::Layout;
    ///
    /// let three = Layout::of::<i32>().contiguous(3)?;
    /// assert!(three.is_multiple_of(&Layout::of::<f32>()));
    /// assert!(!three.is_multiple_of(&Layout::of::<f64>()));
    /// # Ok::<_, aqueduct_file::layout::LayoutError>(())
    /// ```
    pub fn is_multiple_of(&self, element: &Layout) -> bool {
        self.size().is_multiple_of(element.size())
    }

    /// Which simple form one copy has; see [`Pattern::shape`].
    pub fn shape(&self) -> Shape {
        self.pattern().shape()
    }

    /// The runs of a window of one copy; see [`Pattern::runs`].
    pub fn runs(&self, window: impl RangeBounds<u64>) -> Runs<'_> {
        self.pattern().runs(window)
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bounds { lower, upper, .. } = self.bounds();
        match self.pattern().placed() {
            Some((origin, tree)) => write!(f, "Layout({origin} + {tree} in {lower}..{upper})"),
            None => write!(f, "Layout(empty in {lower}..{upper})"),
        }
    }
}
