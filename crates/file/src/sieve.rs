//! Sieving: large contiguous accesses from which runs are picked, or into which they are put.

use std::ops::Range;

use aqueduct_device::{AlignedBuffer, HandleExt, LockKind};

use crate::core::Core;
use crate::error::{Error, Result};
use crate::field::Field;
use crate::layout::Pattern;
use crate::plan::inside;
use crate::transfer::span;

impl Core {
    pub(crate) fn read_sieved(&self, pattern: &Pattern, window: Range<u64>, data: &mut [u8]) -> Result<u64> {
        self.with_spare(|spare| self.read_through(spare, pattern, window, data))
    }

    /// Lends the buffer of the last sieving: memory that is touched for the first time costs more than the picking.
    fn with_spare<T>(&self, work: impl FnOnce(&mut AlignedBuffer) -> T) -> T {
        let mut buffer = self.spare().take().unwrap_or_else(|| AlignedBuffer::new(0));
        let outcome = work(&mut buffer);
        *self.spare() = Some(buffer);
        outcome
    }

    fn read_through(
        &self,
        spare: &mut AlignedBuffer,
        pattern: &Pattern,
        window: Range<u64>,
        data: &mut [u8],
    ) -> Result<u64> {
        let size = self.hints().read_buffer;
        for (part, hull) in Stretches::new(pattern, window.clone(), size) {
            let buffer = self.room(spare, &hull);
            let outcome = self.device("read", self.handle.read_at(hull.start, buffer));
            // What the device read is in the buffer only.
            let count = outcome.map_err(|error| error.after(part.start - window.start))?;
            let front = if count < hull.end - hull.start {
                there(pattern, &part, hull.start + count)
            } else {
                part.clone()
            };
            let place = (front.start - window.start) as usize..(front.end - window.start) as usize;
            Field::over(buffer, hull.start).get(pattern, front.clone(), &mut data[place]);
            self.tally.copied.add(front.end - front.start);
            if front.end < part.end {
                return Ok(front.end - window.start);
            }
        }
        Ok(window.end - window.start)
    }

    /// Room for a part of the file in a buffer, which grows if it has to.
    fn room<'b>(&self, buffer: &'b mut AlignedBuffer, hull: &Range<u64>) -> &'b mut [u8] {
        let len = (hull.end - hull.start) as usize;
        if buffer.len() < len {
            self.tally.buffer(len);
            *buffer = AlignedBuffer::new(len);
        }
        &mut buffer[..len]
    }

    pub(crate) fn write_sieved(&self, pattern: &Pattern, window: Range<u64>, data: &[u8]) -> Result<u64> {
        self.with_spare(|spare| self.write_through(spare, pattern, window, data))
    }

    fn write_through(
        &self,
        spare: &mut AlignedBuffer,
        pattern: &Pattern,
        window: Range<u64>,
        data: &[u8],
    ) -> Result<u64> {
        let size = self.hints().write_buffer;
        for (part, hull) in Stretches::new(pattern, window.clone(), size) {
            let dense = part.end - part.start == hull.end - hull.start;
            // The whole access may be locked already.
            let lock = !self.locks_accesses();
            let before = |error: Error| error.after(part.start - window.start);
            let guard = lock.then(|| self.lock("write", hull.clone(), LockKind::Exclusive));
            let _guard = guard.transpose().map_err(before)?;
            let buffer = self.room(spare, &hull);
            if !dense {
                // What the file does not have yet is zero.
                buffer.fill(0);
                let outcome = self.device("write", self.handle.read_at(hull.start, buffer));
                outcome.map_err(before)?;
            }
            let place = (part.start - window.start) as usize..(part.end - window.start) as usize;
            Field::over(buffer, hull.start).put(pattern, part.clone(), &data[place]);
            self.tally.copied.add(part.end - part.start);
            let outcome = self.device("write", self.handle.write_at(hull.start, buffer));
            outcome.map_err(|error| {
                let stopped = i64::try_from(hull.start + error.transferred()).unwrap_or(i64::MAX);
                let done = pattern.bytes_before(stopped).unwrap_or(part.start).clamp(part.start, part.end);
                error.after(done - window.start)
            })?;
        }
        Ok(window.end - window.start)
    }
}

/// The front of a window that lies before the end of the file.
pub(crate) fn there(pattern: &Pattern, window: &Range<u64>, end: u64) -> Range<u64> {
    if pattern.is_ascending() {
        return inside(pattern, window, &(0..end));
    }
    // Bytes that a view shows twice: the front ends at the first that is not there.
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

/// Cuts a window into parts whose bytes lie within a buffer's size, each with the bytes of the file from its first to its last.
pub(crate) struct Stretches<'a> {
    pattern: &'a Pattern,
    left: Range<u64>,
    size: u64,
}

impl<'a> Stretches<'a> {
    pub(crate) fn new(pattern: &'a Pattern, window: Range<u64>, size: u64) -> Self {
        Self { pattern, left: window, size: size.max(1) }
    }
}

impl Iterator for Stretches<'_> {
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
        let hull = span(self.pattern, &part);
        Some((part, hull))
    }
}
