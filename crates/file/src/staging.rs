//! The aggregation buffers of a node, in memory that its ranks share: every rank copies its own runs straight into them.
//!
//! `unsafe` here: ranks copy through raw pointers into memory that others copy into at the same time. What each of them touches is
//! its own: a view shows a rank bytes of its own, and where a program lets ranks write the same bytes at once, it has asked for one or
//! the other. Barriers separate those who fill a buffer from the one who empties it.
#![allow(unsafe_code)]

use std::ops::Range;

use aqueduct_comm::{Comm, Region};

use crate::layout::{Pattern, Strip, by_length};

/// Buffers in turn: one is filled while the other is written, or read while the other is emptied.
const TURNS: usize = 2;

/// The buffers of all aggregators, twice.
#[derive(Clone, Debug)]
pub(crate) struct Staging {
    region: Region,
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
    /// Buffers of `size` bytes for `windows` aggregators. Collective.
    pub(crate) fn new(comm: &Comm, windows: usize, size: usize) -> aqueduct_comm::Result<Self> {
        Ok(Self { region: comm.region(TURNS * windows * size)?, windows, size })
    }

    /// Whether it serves so many aggregators with so large buffers.
    pub(crate) fn fits(&self, windows: usize, size: usize) -> bool {
        self.windows == windows && self.size >= size
    }

    /// Copies data bytes of a window of `pattern` to their places.
    pub(crate) fn put(&self, stage: Stage, pattern: &Pattern, window: Range<u64>, data: &[u8]) {
        let mut rest = data;
        for strip in pattern.strips(window) {
            let (now, later) = rest.split_at(strip.size() as usize);
            let to = self.place(stage, &strip);
            // SAFETY: `place` has checked that all runs of the strip lie in the buffer; no rank of this node writes it to the file
            // before the next barrier.
            unsafe { scatter(&strip, to, now) };
            rest = later;
        }
    }

    /// Copies data bytes of a window of `pattern` from their places.
    pub(crate) fn get(&self, stage: Stage, pattern: &Pattern, window: Range<u64>, data: &mut [u8]) {
        let mut rest = data;
        for strip in pattern.strips(window) {
            let (now, later) = rest.split_at_mut(strip.size() as usize);
            let from = self.place(stage, &strip);
            // SAFETY: `place` has checked that all runs of the strip lie in the buffer; nobody writes to it before the next barrier.
            unsafe { gather(&strip, from, now) };
            rest = later;
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
        ((stage.turn as usize % TURNS) * self.windows + stage.aggregator) * self.size
    }

    /// Where the first run of a strip lies in the buffer.
    fn place(&self, stage: Stage, strip: &Strip) -> *mut u8 {
        let span = strip.span();
        let start = stage.start as i64;
        assert!(
            span.start >= start && span.end - start <= self.size as i64,
            "a rank's runs lie in the window"
        );
        let at = self.base(stage) + (strip.offset - start) as usize;
        self.region.as_ptr().wrapping_add(at)
    }
}

/// # Safety
/// All runs of the strip, from `to` on, must be memory that may be written.
unsafe fn scatter(strip: &Strip, to: *mut u8, data: &[u8]) {
    // SAFETY: passed on to the caller.
    unsafe { by_length!(strip, scatter_fixed, scatter_any, strip, to, data) }
}

/// # Safety
/// All runs of the strip, from `from` on, must be memory that may be read.
unsafe fn gather(strip: &Strip, from: *const u8, data: &mut [u8]) {
    // SAFETY: passed on to the caller.
    unsafe { by_length!(strip, gather_fixed, gather_any, strip, from, data) }
}

unsafe fn scatter_fixed<const N: usize>(strip: &Strip, mut to: *mut u8, data: &[u8]) {
    for run in data.as_chunks::<N>().0 {
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(run.as_ptr(), to, N) };
        to = to.wrapping_offset(strip.stride as isize);
    }
}

unsafe fn scatter_any(strip: &Strip, mut to: *mut u8, data: &[u8]) {
    for run in data.chunks_exact(strip.len as usize) {
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(run.as_ptr(), to, run.len()) };
        to = to.wrapping_offset(strip.stride as isize);
    }
}

unsafe fn gather_fixed<const N: usize>(strip: &Strip, mut from: *const u8, data: &mut [u8]) {
    for run in data.as_chunks_mut::<N>().0 {
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(from, run.as_mut_ptr(), N) };
        from = from.wrapping_offset(strip.stride as isize);
    }
}

unsafe fn gather_any(strip: &Strip, mut from: *const u8, data: &mut [u8]) {
    for run in data.chunks_exact_mut(strip.len as usize) {
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(from, run.as_mut_ptr(), run.len()) };
        from = from.wrapping_offset(strip.stride as isize);
    }
}
