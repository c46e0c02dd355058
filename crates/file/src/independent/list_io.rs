//! List I/O: many runs in one call of the device.

use std::ops::Range;

use aqueduct_device::{HandleExt, Segment, SegmentMut};

use crate::context::FileContext;
use crate::error::Result;
use crate::layout::Pattern;

/// Runs in one call of the device: as many as one vectored system call takes.
pub(crate) const BATCH: usize = 1024;

/// Writes the data bytes of a window, `batch` runs per call of the device.
pub(crate) fn write_list(
    cx: &FileContext,
    pattern: &Pattern,
    window: Range<u64>,
    data: &[u8],
    batch: usize,
) -> Result<u64> {
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

/// Reads the data bytes of a window, `batch` runs per call of the device; the count is less at the end of the file.
pub(crate) fn read_list(
    cx: &FileContext,
    pattern: &Pattern,
    window: Range<u64>,
    data: &mut [u8],
    batch: usize,
) -> Result<u64> {
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
