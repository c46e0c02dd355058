//! List I/O: many runs in one call of the device, as a list or, if it takes them, as strips.

use std::ops::Range;

use aqueduct_device::{HandleExt, Segment, SegmentMut, Strip};

use crate::context::FileContext;
use crate::error::Result;
use crate::layout::{Pattern, Strips};

/// Runs in one call of the device: as many as one vectored system call takes.
pub(crate) const BATCH: usize = 1024;

/// Strips in one call of a device that takes them: 256 KiB of descriptions.
const STRIPS: usize = 8192;

/// The strips of a window, in batches for calls of the device.
struct StripBatches<'a> {
    cx: &'a FileContext,
    strips: Strips<'a>,
    batch: Vec<Strip>,
}

impl<'a> StripBatches<'a> {
    fn new(cx: &'a FileContext, pattern: &'a Pattern, window: Range<u64>) -> Self {
        Self { cx, strips: pattern.strips(window), batch: Vec::new() }
    }

    /// The next strips, and their bytes.
    fn next(&mut self) -> Option<(&[Strip], usize)> {
        let room = self.batch.capacity();
        self.batch.clear();
        self.batch.extend(self.strips.by_ref().take(STRIPS));
        if self.batch.capacity() > room {
            self.cx.counters.count_buffer((self.batch.capacity() - room) * size_of::<Strip>());
        }
        let bytes = self.batch.iter().map(Strip::size).sum::<u64>() as usize;
        (bytes > 0).then_some((&self.batch[..], bytes))
    }
}

/// Writes the data bytes of a window by strips.
fn write_strips(cx: &FileContext, pattern: &Pattern, window: Range<u64>, data: &[u8]) -> Result<u64> {
    let (mut batches, mut done) = (StripBatches::new(cx, pattern, window), 0);
    while let Some((strips, bytes)) = batches.next() {
        let outcome = cx.handle.write_all_strips(strips, &data[done..done + bytes]);
        let outcome = cx.device_result("write", outcome);
        outcome.map_err(|error| error.clone().after(done as u64 + error.transferred()))?;
        done += bytes;
    }
    Ok(done as u64)
}

/// Reads the data bytes of a window by strips; the count is less at the end of the file.
fn read_strips(cx: &FileContext, pattern: &Pattern, window: Range<u64>, data: &mut [u8]) -> Result<u64> {
    let (mut batches, mut done) = (StripBatches::new(cx, pattern, window), 0);
    while let Some((strips, bytes)) = batches.next() {
        let outcome = cx.handle.read_full_strips(strips, &mut data[done as usize..done as usize + bytes]);
        let outcome = cx.device_result("read", outcome);
        let count = outcome.map_err(|error| error.clone().after(done + error.transferred()))?;
        done += count;
        if count < bytes as u64 {
            break;
        }
    }
    Ok(done)
}

/// Writes the data bytes of a window, `batch` runs per call of the device, or more if it takes strips.
pub(crate) fn write_list(
    cx: &FileContext,
    pattern: &Pattern,
    window: Range<u64>,
    data: &[u8],
    batch: usize,
) -> Result<u64> {
    if batch > 1 && cx.capabilities.native_strips {
        return write_strips(cx, pattern, window, data);
    }
    let (mut rest, mut done) = (data, 0);
    let mut runs = pattern.runs(window).peekable();
    while runs.peek().is_some() {
        let mut pieces = Vec::with_capacity(batch.min(64));
        cx.counters.count_buffer(pieces.capacity() * size_of::<Segment<'_>>());
        for run in runs.by_ref().take(batch) {
            let (now, later) = rest.split_at(run.len as usize);
            pieces.push(Segment::new(run.offset as u64, now));
            rest = later;
        }
        let outcome = cx.device_result("write", cx.handle.write_all(&pieces));
        outcome.map_err(|error| error.clone().after(done + error.transferred()))?;
        done = (data.len() - rest.len()) as u64;
    }
    Ok(done)
}

/// Reads the data bytes of a window, `batch` runs per call of the device, or more if it takes strips; the count is less at the end of the file.
pub(crate) fn read_list(
    cx: &FileContext,
    pattern: &Pattern,
    window: Range<u64>,
    data: &mut [u8],
    batch: usize,
) -> Result<u64> {
    if batch > 1 && cx.capabilities.native_strips {
        return read_strips(cx, pattern, window, data);
    }
    let (mut rest, mut done) = (data, 0);
    let mut runs = pattern.runs(window).peekable();
    while runs.peek().is_some() {
        let mut pieces = Vec::with_capacity(batch.min(64));
        cx.counters.count_buffer(pieces.capacity() * size_of::<SegmentMut<'_>>());
        let mut wanted = 0;
        for run in runs.by_ref().take(batch) {
            let (now, later) = rest.split_at_mut(run.len as usize);
            pieces.push(SegmentMut::new(run.offset as u64, now));
            wanted += run.len;
            rest = later;
        }
        let outcome = cx.device_result("read", cx.handle.read_full(&mut pieces));
        let count = outcome.map_err(|error| error.clone().after(done + error.transferred()))?;
        done += count;
        if count < wanted {
            break;
        }
    }
    Ok(done)
}
