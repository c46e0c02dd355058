//! The layout of a box of an array.

use aqueduct_file::hyperslab::Hyperslab;
use aqueduct_file::layout::{Layout, Order, Result};

/// The bytes of a box in an array of this shape, the last dimension fastest; an empty box may lie anywhere.
pub(crate) fn box_layout(part: &Hyperslab, element: &Layout, shape: &[u64]) -> Result<Layout> {
    if part.is_empty() { Ok(Layout::empty()) } else { element.subarray(shape, part, Order::C) }
}
