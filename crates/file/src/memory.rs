//! The memory side of an access: slices, layouts over slices, and buffers that a request owns.

#[cfg(feature = "ndarray")]
pub mod array_memory;
pub(crate) mod chunks;
mod sink;
mod source;
pub(crate) mod window;

use std::ops::Range;

use crate::layout::{Layout, LayoutError, Pattern};
pub use sink::{Incoming, Sink};
pub use source::{Outgoing, Source};

/// The bytes of a layout, if they are contiguous; it has been checked to lie in memory.
fn contiguous_range(layout: &Pattern) -> Option<Range<usize>> {
    let span = layout.span(0..layout.size());
    let dense = layout.is_ascending() && (span.end - span.start) as u64 == layout.size();
    dense.then_some(span.start as usize..span.end as usize)
}

/// Bytes and the layout of the data in them, for requests.
#[derive(Clone, Debug)]
pub struct LaidOut {
    /// The memory.
    pub bytes: Vec<u8>,
    layout: Pattern,
}

impl LaidOut {
    /// `count` copies of `layout` in `bytes`.
    pub fn new(bytes: Vec<u8>, layout: &Layout, count: u64) -> Result<Self, LayoutError> {
        Ok(Self { bytes, layout: layout.tiled(count)? })
    }
}

impl Outgoing for LaidOut {
    fn source(&self) -> Source<'_> {
        Source::strided(&self.bytes, self.layout.clone())
    }
}

impl Incoming for LaidOut {
    fn sink(&mut self) -> Sink<'_> {
        Sink::strided(&mut self.bytes, self.layout.clone())
    }
}
