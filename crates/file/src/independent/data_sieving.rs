//! Data sieving: large contiguous accesses from which runs are copied, or into which they are copied.
//!
//! Thakur, Gropp, Lusk, "Data Sieving and Collective I/O in ROMIO", Frontiers 1999, <https://doi.org/10.1109/FMPC.1999.750599>.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use aqueduct_device::{AlignedBuffer, HandleExt, LockKind};

use crate::context::FileContext;
use crate::error::{Error, Result};
use crate::layout::Pattern;
use crate::memory::window::MemoryWindow;
use crate::plan::data_inside;

/// The buffer of the last sieved access: memory that is touched for the first time costs more than the copies.
#[derive(Default)]
pub(super) struct SieveBuffer(Mutex<Option<AlignedBuffer>>);

impl SieveBuffer {
    pub(super) fn read(
        &self,
        cx: &FileContext,
        pattern: &Pattern,
        window: Range<u64>,
        data: &mut [u8],
    ) -> Result<u64> {
        self.lend(|buffer| read_through(cx, buffer, pattern, window, data))
    }

    fn lend<T>(&self, work: impl FnOnce(&mut AlignedBuffer) -> T) -> T {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = lock().take().unwrap_or_else(|| AlignedBuffer::new(0));
        let outcome = work(&mut buffer);
        *lock() = Some(buffer);
        outcome
    }

    pub(super) fn write(
        &self,
        cx: &FileContext,
        pattern: &Pattern,
        window: Range<u64>,
        data: &[u8],
    ) -> Result<u64> {
        self.lend(|buffer| write_through(cx, buffer, pattern, window, data))
    }
}

fn read_through(
    cx: &FileContext,
    sieve_buffer: &mut AlignedBuffer,
    pattern: &Pattern,
    window: Range<u64>,
    data: &mut [u8],
) -> Result<u64> {
    let size = cx.hints().read_buffer;
    for (part, span) in SieveWindows::new(pattern, window.clone(), size) {
        let buffer = resize(cx, sieve_buffer, &span);
        let outcome = cx.device_result("read", cx.handle.read_at(span.start, buffer));
        // The data is in the sieve buffer only.
        let count = outcome.map_err(|error| error.after(part.start - window.start))?;
        let front = if count < span.end - span.start {
            before_end(pattern, &part, span.start + count)
        } else {
            part.clone()
        };
        let place = (front.start - window.start) as usize..(front.end - window.start) as usize;
        MemoryWindow::over(buffer, span.start).get(pattern, front.clone(), &mut data[place]);
        cx.counters.copied.add(front.end - front.start);
        if front.end < part.end {
            return Ok(front.end - window.start);
        }
    }
    Ok(window.end - window.start)
}

/// The part of the buffer for a range of the file; the buffer grows if it has to.
fn resize<'b>(cx: &FileContext, buffer: &'b mut AlignedBuffer, span: &Range<u64>) -> &'b mut [u8] {
    let len = (span.end - span.start) as usize;
    if buffer.len() < len {
        cx.counters.count_buffer(len);
        *buffer = AlignedBuffer::new(len);
    }
    &mut buffer[..len]
}

fn write_through(
    cx: &FileContext,
    sieve_buffer: &mut AlignedBuffer,
    pattern: &Pattern,
    window: Range<u64>,
    data: &[u8],
) -> Result<u64> {
    let size = cx.hints().write_buffer;
    for (part, span) in SieveWindows::new(pattern, window.clone(), size) {
        let dense = part.end - part.start == span.end - span.start;
        // The whole access may be locked already.
        let lock = !cx.locks_accesses();
        let before = |error: Error| error.after(part.start - window.start);
        let guard = lock.then(|| cx.lock("write", span.clone(), LockKind::Exclusive));
        let _guard = guard.transpose().map_err(before)?;
        let buffer = resize(cx, sieve_buffer, &span);
        if !dense {
            // Bytes after the end of the file are zero.
            buffer.fill(0);
            let outcome = cx.device_result("write", cx.handle.read_at(span.start, buffer));
            outcome.map_err(before)?;
        }
        let place = (part.start - window.start) as usize..(part.end - window.start) as usize;
        MemoryWindow::over(buffer, span.start).put(pattern, part.clone(), &data[place]);
        cx.counters.copied.add(part.end - part.start);
        let outcome = cx.device_result("write", cx.handle.write_at(span.start, buffer));
        outcome.map_err(|error| {
            let stopped = i64::try_from(span.start + error.transferred()).unwrap_or(i64::MAX);
            let done = pattern.bytes_before(stopped).unwrap_or(part.start).clamp(part.start, part.end);
            error.after(done - window.start)
        })?;
    }
    Ok(window.end - window.start)
}

/// The first part of a window, which lies before the end of the file.
pub(super) fn before_end(pattern: &Pattern, window: &Range<u64>, end: u64) -> Range<u64> {
    if pattern.is_ascending() {
        return data_inside(pattern, window, &(0..end));
    }
    // The view shows bytes twice: the first part ends at the first byte that does not exist.
    let mut front = window.start;
    for run in pattern.runs(window.clone()) {
        let len = end.saturating_sub(run.offset as u64).min(run.len);
        front += len;
        if len < run.len {
            break;
        }
    }
    window.start..front
}

/// Divides a window into parts that fit in the sieve buffer, each with its span in the file.
pub(super) struct SieveWindows<'a> {
    pattern: &'a Pattern,
    left: Range<u64>,
    size: u64,
}

impl<'a> SieveWindows<'a> {
    pub(super) fn new(pattern: &'a Pattern, window: Range<u64>, size: u64) -> Self {
        Self { pattern, left: window, size: size.max(1) }
    }
}

impl Iterator for SieveWindows<'_> {
    type Item = (Range<u64>, Range<u64>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let start = self.pattern.offset_of(self.left.start)?;
        let limit = start.saturating_add(i64::try_from(self.size).unwrap_or(i64::MAX));
        let end = self
            .pattern
            .bytes_before(limit)
            .unwrap_or(self.left.end)
            .clamp(self.left.start + 1, self.left.end);
        let part = self.left.start..end;
        self.left.start = end;
        let span = self.pattern.file_span(&part);
        Some((part, span))
    }
}
