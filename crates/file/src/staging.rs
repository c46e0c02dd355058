//! The aggregation buffers of a node, in memory that its ranks share: every rank copies its own runs straight into them.
//!
//! `unsafe` here: slices of memory that others touch too. Barriers separate those who fill a buffer from the one who empties it.
#![allow(unsafe_code)]

use std::ops::Range;

use aqueduct_comm::{Comm, Region};

use crate::field::Field;

/// The buffers of aggregators, several of each to be used in turn: one is filled while another is written, or read while another is
/// emptied.
#[derive(Clone, Debug)]
pub(crate) struct Staging {
    region: Region,
    turns: usize,
    windows: usize,
    size: usize,
}

/// One aggregator's buffer of one turn, which stands for the file from `start` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    pub(crate) turn: u64,
    pub(crate) aggregator: usize,
    pub(crate) start: u64,
}

impl Staging {
    /// Buffers of `size` bytes for `windows` aggregators, as many of each as `turns`. Collective.
    pub(crate) fn new(comm: &Comm, turns: usize, windows: usize, size: usize) -> aqueduct_comm::Result<Self> {
        let region = comm.region(turns * windows * size)?;
        // Many accesses take no second turn.
        region.populate(windows * size);
        Ok(Self { region, turns, windows, size })
    }

    /// Bytes of the node's memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.region.len()
    }

    /// Tells buffers from others that serve something else.
    pub(crate) fn shape(&self) -> u64 {
        (self.windows as u64) << 48 | self.size as u64
    }

    /// Whether it serves so many aggregators with so large buffers.
    pub(crate) fn fits(&self, windows: usize, size: usize) -> bool {
        self.windows >= windows && self.size >= size
    }

    /// The buffer, for every rank to copy its runs to or from.
    pub(crate) fn field(&self, stage: Stage) -> Field<'_> {
        // SAFETY: the buffer lies in the region.
        unsafe {
            Field::new(self.region.as_ptr().wrapping_add(self.base(stage)), stage.start, self.size as u64)
        }
    }

    /// The bytes of a part of the file, for the aggregator to write.
    pub(crate) fn full(&self, stage: Stage, range: &Range<u64>) -> &[u8] {
        let (at, len) = self.inside(stage, range);
        // SAFETY: inside the region; between two barriers only its aggregator uses it.
        unsafe { self.region.slice(at, len) }
    }

    /// The bytes of a part of the file, for the aggregator to fill.
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn empty(&self, stage: Stage, range: &Range<u64>) -> &mut [u8] {
        let (at, len) = self.inside(stage, range);
        // SAFETY: inside the region; between two barriers only its aggregator uses it, once.
        unsafe { self.region.slice_mut(at, len) }
    }

    fn inside(&self, stage: Stage, range: &Range<u64>) -> (usize, usize) {
        let (at, len) = ((range.start - stage.start) as usize, (range.end - range.start) as usize);
        assert!(at + len <= self.size, "an aggregator works on its own buffer");
        (self.base(stage) + at, len)
    }

    fn base(&self, stage: Stage) -> usize {
        ((stage.turn as usize % self.turns) * self.windows + stage.aggregator) * self.size
    }
}
