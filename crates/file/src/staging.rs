//! The aggregation buffers of a node, in memory that its ranks share: every rank copies its own runs straight into them.
//!
//! `unsafe` here: ranks copy through raw pointers into memory that others copy into at the same time. What each of them touches is
//! its own: a view shows a rank bytes of its own, and where a program lets ranks write the same bytes at once, it has asked for one or
//! the other. Barriers separate those who fill a buffer from the one who empties it.
#![allow(unsafe_code)]

use std::ops::Range;

use aqueduct_comm::{Comm, Region};

use crate::layout::{Pattern, Strip};

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
        self.windows == windows && self.size == size
    }

    /// Copies data bytes of a window of `pattern` to their places.
    pub(crate) fn put(&self, stage: Stage, pattern: &Pattern, window: Range<u64>, data: &[u8]) {
        let mut rest = data;
        for strip in pattern.strips(window) {
            let (now, later) = rest.split_at(strip.size() as usize);
            let to = self.place(stage, &strip);
            // SAFETY: `place` has checked that all runs of the strip lie in the buffer; no rank of this node writes it to the file
            // before the next barrier.
            unsafe { scatter(strip.len, to, strip.stride, now) };
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
            unsafe { gather(strip.len, from, strip.stride, now) };
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

/// Copies runs of a length that the compiler knows: a load and a store instead of a call.
macro_rules! by_length {
    ($len:expr, $fixed:ident, $any:ident, $($argument:expr),+) => {
        match $len {
            4 => $fixed::<4>($($argument),+),
            8 => $fixed::<8>($($argument),+),
            12 => $fixed::<12>($($argument),+),
            16 => $fixed::<16>($($argument),+),
            24 => $fixed::<24>($($argument),+),
            32 => $fixed::<32>($($argument),+),
            64 => $fixed::<64>($($argument),+),
            _ => $any($len as usize, $($argument),+),
        }
    };
}

/// # Safety
/// All runs, `stride` apart from `to` on, must be memory that may be written.
unsafe fn scatter(len: u64, to: *mut u8, stride: i64, data: &[u8]) {
    // SAFETY: passed on to the caller.
    unsafe { by_length!(len, scatter_fixed, scatter_any, to, stride as isize, data) }
}

/// # Safety
/// All runs, `stride` apart from `from` on, must be memory that may be read.
unsafe fn gather(len: u64, from: *const u8, stride: i64, data: &mut [u8]) {
    // SAFETY: passed on to the caller.
    unsafe { by_length!(len, gather_fixed, gather_any, from, stride as isize, data) }
}

unsafe fn scatter_fixed<const N: usize>(mut to: *mut u8, stride: isize, data: &[u8]) {
    for run in data.as_chunks::<N>().0 {
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(run.as_ptr(), to, N) };
        to = to.wrapping_offset(stride);
    }
}

unsafe fn scatter_any(len: usize, mut to: *mut u8, stride: isize, data: &[u8]) {
    for run in data.chunks_exact(len) {
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(run.as_ptr(), to, len) };
        to = to.wrapping_offset(stride);
    }
}

unsafe fn gather_fixed<const N: usize>(mut from: *const u8, stride: isize, data: &mut [u8]) {
    for run in data.as_chunks_mut::<N>().0 {
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(from, run.as_mut_ptr(), N) };
        from = from.wrapping_offset(stride);
    }
}

unsafe fn gather_any(len: usize, mut from: *const u8, stride: isize, data: &mut [u8]) {
    for run in data.chunks_exact_mut(len) {
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(from, run.as_mut_ptr(), len) };
        from = from.wrapping_offset(stride);
    }
}
