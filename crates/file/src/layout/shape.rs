//! Shapes: the simple forms of patterns, which simple loops can copy.

use super::pattern::Pattern;
use super::tree::{Kind, Tree};

/// Which simple form a pattern has.
///
/// ```
/// use aqueduct_file::hyperslab::Hyperslab;
/// use aqueduct_file::layout::{Basic, Layout, Order, Shape};
///
/// // Rows 1 and 2, columns 2 to 4, of a matrix with 4 rows of 8.
/// let part = Hyperslab::from([1..3, 2..5]);
/// let tile = Layout::from(Basic::F64).subarray(&[4, 8], &part, Order::C)?;
/// assert_eq!(tile.shape(), Shape::Strided { offset: 80, block: 24, stride: 64, count: 2 });
/// # Ok::<_, aqueduct_file::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// No data.
    Empty,
    /// One run.
    Contiguous {
        /// Where it starts.
        offset: i64,
        /// How many bytes.
        len: u64,
    },
    /// Equal runs, equally far apart.
    Strided {
        /// Where the first starts.
        offset: i64,
        /// Bytes of each.
        block: u64,
        /// From one start to the next.
        stride: i64,
        /// How many, at least 2.
        count: u64,
    },
    /// Equal rows of equal runs, equally far apart: a part of a three-dimensional array, a transposed matrix.
    Nested {
        /// Where the first run starts.
        offset: i64,
        /// Bytes of each run.
        block: u64,
        /// The runs of a row.
        inner: Stride,
        /// The rows.
        outer: Stride,
    },
    /// Anything else.
    General,
}

/// One level of repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stride {
    /// From one start to the next.
    pub stride: i64,
    /// How many, at least 2.
    pub count: u64,
}

impl Shape {
    pub(super) fn of(pattern: &Pattern) -> Self {
        let Some((offset, tree)) = pattern.placed() else {
            return Self::Empty;
        };
        if tree.facts.dense() {
            return Self::Contiguous { offset, len: tree.size() };
        }
        let Some((child, outer)) = repetition(tree) else {
            return Self::General;
        };
        if child.facts.dense() {
            let Stride { stride, count } = outer;
            return Self::Strided { offset, block: child.size(), stride, count };
        }
        match repetition(child) {
            Some((block, inner)) if block.facts.dense() => {
                Self::Nested { offset, block: block.size(), inner, outer }
            }
            _ => Self::General,
        }
    }
}

fn repetition(tree: &Tree) -> Option<(&Tree, Stride)> {
    match &tree.kind {
        Kind::Repeat { child, count, stride } => Some((child, Stride { stride: *stride, count: *count })),
        _ => None,
    }
}
