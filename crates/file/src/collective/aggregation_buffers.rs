//! The aggregation buffers of a node, in memory that its ranks share: every rank copies its own runs directly into them.
//!
//! `unsafe` here: slices of memory that other ranks access too. Barriers separate the ranks that fill a buffer from the one that empties it.
#![allow(unsafe_code)]

use std::ops::Range;

use aqueduct_comm::{Comm, SharedRegion};

use crate::memory::window::MemoryWindow;

/// The buffers of aggregators, several of each to be used in turn: one is filled while another is written, or read while another is
/// emptied.
#[derive(Clone, Debug)]
pub(crate) struct AggregationBuffers {
    region: SharedRegion,
    turns: usize,
    windows: usize,
    size: usize,
}

/// One aggregator's buffer of one turn, for the bytes of the file from `start` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowBuffer {
    pub(crate) turn: u64,
    pub(crate) aggregator: usize,
    pub(crate) start: u64,
}

impl AggregationBuffers {
    /// Buffers of `size` bytes for `windows` aggregators, as many of each as `turns`. Collective.
    pub(crate) fn new(comm: &Comm, turns: usize, windows: usize, size: usize) -> aqueduct_comm::Result<Self> {
        let region = comm.shared_region(turns * windows * size)?;
        // Many accesses need no second turn.
        region.populate(windows * size);
        Ok(Self { region, turns, windows, size })
    }

    /// Bytes of the node's memory.
    pub(crate) fn bytes(&self) -> usize {
        self.region.len()
    }

    /// A number that differs for buffers of another size.
    pub(crate) fn shape(&self) -> u64 {
        (self.windows as u64) << 48 | self.size as u64
    }

    /// True if there are so many windows of so many bytes.
    pub(crate) fn fits(&self, windows: usize, size: usize) -> bool {
        self.windows >= windows && self.size >= size
    }

    /// The buffer, for every rank to copy its runs to or from.
    pub(crate) fn window(&self, buffer: WindowBuffer) -> MemoryWindow<'_> {
        // SAFETY: the buffer lies in the region.
        unsafe {
            MemoryWindow::new(
                self.region.as_ptr().wrapping_add(self.base(buffer)),
                buffer.start,
                self.size as u64,
            )
        }
    }

    /// The bytes of a part of the file, for the aggregator to write.
    pub(crate) fn filled(&self, buffer: WindowBuffer, range: &Range<u64>) -> &[u8] {
        let (at, len) = self.inside(buffer, range);
        // SAFETY: inside the region; between two barriers only its aggregator uses it.
        unsafe { self.region.slice(at, len) }
    }

    /// The bytes of a part of the file, for the aggregator to fill.
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn to_fill(&self, buffer: WindowBuffer, range: &Range<u64>) -> &mut [u8] {
        let (at, len) = self.inside(buffer, range);
        // SAFETY: inside the region; between two barriers only its aggregator uses it, once.
        unsafe { self.region.slice_mut(at, len) }
    }

    fn inside(&self, buffer: WindowBuffer, range: &Range<u64>) -> (usize, usize) {
        let (at, len) = ((range.start - buffer.start) as usize, (range.end - range.start) as usize);
        assert!(at + len <= self.size, "an aggregator works on its own buffer");
        (self.base(buffer) + at, len)
    }

    fn base(&self, buffer: WindowBuffer) -> usize {
        ((buffer.turn as usize % self.turns) * self.windows + buffer.aggregator) * self.size
    }
}
